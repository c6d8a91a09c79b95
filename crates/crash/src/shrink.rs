//! The shortest workload with the same violation, then the fewest lost requests.
//!
//! Operations are removed by delta debugging (Zeller and Hildebrandt, "Simplifying and isolating
//! failure-inducing input", 2002); after each removal the rest is recorded again, as a log depends
//! on time. Limit: only `files` and `metadata` have operations that can be removed; a program runs
//! as a whole, whatever it acknowledged.

use flashfit_host::SystemRunner;

use crate::CrashError;
use crate::campaign::{CampaignPlan, MountPoints};
use crate::examination::StateExamination;
use crate::log::CrashLog;
use crate::model::{Oracle, Violation};
use crate::mounting::{MachineKernel, StateDevice, Work};
use crate::record::{WorkloadRecording, record};
use crate::replay::FoundState;
use crate::setup::CrashSetup;
use crate::state::{CrashState, Enumeration, enumerate};
use crate::timeline::{TimelineEvent, timeline};
use crate::workload::{CrashWorkload, Operation};

/// States of one attempt.
const MOST_STATES: usize = 300;

/// A violation with as little as possible around it.
#[derive(Debug)]
pub struct ShrunkState {
    pub operations: Vec<(u32, Operation)>,
    pub log: CrashLog,
    pub state: CrashState,
    pub violations: Vec<Violation>,
    pub timeline: Vec<TimelineEvent>,
    /// How many shorter workloads were recorded.
    pub attempts: u32,
}

/// A workload that shows the violation.
struct Shown {
    log: CrashLog,
    state: CrashState,
    violations: Vec<Violation>,
}

struct Shrinking<'a> {
    setup: &'a CrashSetup,
    plan: &'a CampaignPlan,
    runner: &'a SystemRunner,
    shown: StateDevice<'a>,
    oracle: Oracle,
    seed: u64,
    attempts: u32,
}

/// Checks that the workload of a campaign has operations that can be left out.
///
/// # Errors
/// [`CrashError::OfRequests`], [`CrashError::OfProgram`].
pub fn check_can_shrink(plan: &CampaignPlan, id: &str) -> Result<(), CrashError> {
    if plan.requests.is_some() {
        return Err(CrashError::OfRequests { id: id.to_owned() });
    }
    match plan.workload {
        CrashWorkload::Files | CrashWorkload::Metadata => Ok(()),
        CrashWorkload::Sqlite(_) | CrashWorkload::Program(_) | CrashWorkload::Requests => {
            Err(CrashError::OfProgram { id: id.to_owned() })
        }
    }
}

/// Shrinks the workload of a state that shows a violation; `watch` is called with the number of
/// operations left.
///
/// # Errors
/// [`CrashError::NotShown`] if the violation does not show again.
pub fn shrink(
    found: &FoundState,
    setup: &CrashSetup,
    plan: &CampaignPlan,
    runner: &SystemRunner,
    points: &MountPoints,
    kernel: Option<&MachineKernel<'_>>,
    watch: &dyn Fn(usize),
) -> Result<ShrunkState, CrashError> {
    if found.is_live || found.state.cut_seed.is_some() {
        return Err(CrashError::OfCard { id: found.id.clone() });
    }
    check_can_shrink(plan, &found.id)?;
    let not_shown = || CrashError::NotShown { id: found.id.clone() };
    let recorded = found.recorded.as_deref().unwrap_or_default();
    let promised =
        |violation: &&Violation| setup.promises.keeps.contains(&violation.oracle.promise());
    let wanted = recorded.iter().find(promised).or(recorded.first()).ok_or_else(not_shown)?;
    let shown = StateDevice::attach(found.device(setup, plan, kernel), points, "0", runner)?;
    let (oracle, seed) = (wanted.oracle, found.log.seed);
    let mut shrinking = Shrinking { setup, plan, runner, shown, oracle, seed, attempts: 0 };
    // What had not begun has no part in it.
    let begun = found.log.operations.iter().filter(|done| done.begin < found.state.position);
    let mut operations: Vec<(u32, Operation)> =
        begun.map(|done| (done.number, done.operation.clone())).collect();
    let mut shown = shrinking.show(&operations)?.ok_or_else(not_shown)?;
    let in_root: Vec<(u32, Operation)> = operations
        .iter()
        .filter(|(_, operation)| {
            !matches!(operation, Operation::MakeDir { .. } | Operation::RemoveDir { .. })
        })
        .map(|(number, operation)| (*number, operation.flattened()))
        .collect();
    if let Some(simpler) = shrinking.show(&in_root)? {
        (operations, shown) = (in_root, simpler);
    }
    let mut pieces = 2;
    while operations.len() > 1 && pieces <= operations.len() {
        if runner.interrupt().is_raised() {
            return Err(CrashError::Interrupted);
        }
        match shrinking.without_a_piece(&operations, pieces)? {
            Some((fewer, smaller)) => {
                (operations, shown) = (fewer, smaller);
                watch(operations.len());
                pieces = (pieces - 1).max(2);
            }
            None if pieces == operations.len() => break,
            None => pieces = (pieces * 2).min(operations.len()),
        }
    }
    shrinking.fewer_lost(&mut shown)?;
    Ok(ShrunkState {
        timeline: timeline(&shown.log, &shown.state),
        operations,
        log: shown.log,
        state: shown.state,
        violations: shown.violations,
        attempts: shrinking.attempts,
    })
}

/// Operations with a log that shows the violation.
type Fewer = (Vec<(u32, Operation)>, Shown);

impl Shrinking<'_> {
    /// Tries to leave out each of so many pieces.
    fn without_a_piece(
        &mut self,
        operations: &[(u32, Operation)],
        pieces: usize,
    ) -> Result<Option<Fewer>, CrashError> {
        let size = operations.len().div_ceil(pieces);
        // From the end: later operations are removed without an effect on earlier ones.
        for start in (0..operations.len()).step_by(size).rev() {
            let end = (start + size).min(operations.len());
            let fewer = [&operations[..start], &operations[end..]].concat();
            if let Some(shown) = self.show(&fewer)? {
                return Ok(Some((fewer, shown)));
            }
        }
        Ok(None)
    }

    fn examination<'b>(&'b self, log: &'b CrashLog) -> StateExamination<'b> {
        StateExamination::new(
            self.runner,
            self.setup,
            &self.plan.workload,
            self.shown.device(),
            log,
            self.shown.mounting(),
        )
    }

    /// Records operations and looks for the violation.
    fn show(&mut self, operations: &[(u32, Operation)]) -> Result<Option<Shown>, CrashError> {
        self.attempts += 1;
        let workload = &self.plan.workload;
        let how = WorkloadRecording {
            runner: self.runner,
            recipe: &self.setup.recipe,
            setup: &self.setup.label,
            mounting: &self.shown.mounting(),
            work: Work {
                workload,
                seed: self.seed,
                operations: Some(operations),
                is_over: &|| self.runner.interrupt().is_raised(),
            },
        };
        let log = match record(self.shown.device(), &how) {
            Ok(recorded) => recorded.log,
            Err(CrashError::NothingAcknowledged) => return Ok(None),
            Err(error) => return Err(error),
        };
        let how = Enumeration {
            seed: self.seed,
            most: MOST_STATES,
            unit_sectors: self.plan.unit_sectors,
            flushes: self.plan.flushes,
            by_card: false,
        };
        let mut states = enumerate(&log, &how);
        // The simplest ones first, and the latest: they have the most acknowledged.
        states.sort_by_key(|state| {
            (state.dropped.len() + usize::from(state.torn.is_some()), u32::MAX - state.position)
        });
        let mut examination = self.examination(&log);
        let mut shown = None;
        for state in states {
            let built = examination.build(&state);
            let violations = examination.examine(&state, &built, false)?.violations;
            if violations.iter().any(|violation| violation.oracle == self.oracle) {
                shown = Some((state, violations));
                break;
            }
        }
        drop(examination);
        Ok(shown.map(|(state, violations)| Shown { log, state, violations }))
    }

    /// Restores lost requests one by one where the violation stays.
    fn fewer_lost(&self, shown: &mut Shown) -> Result<(), CrashError> {
        let Shown { log, state, violations } = shown;
        let mut examination = self.examination(log);
        let mut at = 0;
        while at < state.dropped.len() {
            let mut fewer = state.clone();
            fewer.dropped.remove(at);
            let built = examination.build(&fewer);
            let found = examination.examine(&fewer, &built, false)?.violations;
            if found.iter().any(|violation| violation.oracle == self.oracle) {
                (*state, *violations) = (fewer, found);
            } else {
                at += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{ProgramWorkload, SqliteMode};

    /// All of it would run in every attempt, so that anything seemed to shrink to nothing.
    #[test]
    fn the_work_of_a_program_cannot_be_shortened() {
        let check = |workload| {
            let plan = CampaignPlan { workload, ..CampaignPlan::sample() };
            check_can_shrink(&plan, "ext4/0/1")
        };
        assert!(check(CrashWorkload::Files).is_ok() && check(CrashWorkload::Metadata).is_ok());
        let program = ProgramWorkload { run: "true".to_owned(), check: "true".to_owned() };
        let refused =
            [CrashWorkload::Sqlite(SqliteMode::default()), CrashWorkload::Program(program)];
        for workload in refused {
            let error = check(workload).unwrap_err();
            assert!(matches!(error, CrashError::OfProgram { .. }), "{error}");
        }
    }
}
