//! Turns what was seen of a state into violations.

use flashfit_filesystem::Promises;

use crate::CrashError;
use crate::log::CrashLog;
use crate::model::{History, Oracle, Violation};
use crate::observe::{CrashObservation, MountedView, ProgramView};
use crate::setup::CrashSetup;
use crate::workload::{CrashWorkload, LoggedOperation, Operation, grade};

/// What is found where no power was cut is not what power cuts do.
///
/// # Errors
/// When the user's own check fails, or a promise is broken: then the oracles are wrong, or the file
/// system is.
pub(crate) fn check_without_cut(
    violations: &[Violation],
    setup: &CrashSetup,
) -> Result<(), CrashError> {
    let label = setup.label.clone();
    if let Some(failed) = violations.iter().find(|found| found.oracle == Oracle::Check) {
        return Err(CrashError::CheckFails { setup: label, detail: failed.detail.clone() });
    }
    let keeps = &setup.promises.keeps;
    match violations.iter().find(|found| keeps.contains(&found.oracle.promise())) {
        None => Ok(()),
        Some(found) => {
            Err(CrashError::BrokenWithoutCut { setup: label, detail: found.detail.clone() })
        }
    }
}

/// Judges the states of one log.
#[derive(Debug)]
pub struct Judge {
    workload: CrashWorkload,
    history: History,
    operations: Vec<LoggedOperation>,
    /// Whether the file system is to be repaired before it is mounted.
    needs_fsck: bool,
}

impl Judge {
    /// By the promises of the file system.
    pub fn new(workload: &CrashWorkload, log: &CrashLog, promises: &Promises) -> Self {
        Self::of_operations(workload, log.operations.clone(), promises)
    }

    /// The same for operations without a log of requests.
    pub fn of_operations(
        workload: &CrashWorkload,
        operations: Vec<LoggedOperation>,
        promises: &Promises,
    ) -> Self {
        let Promises { needs_fsck, renumbers_inodes, .. } = *promises;
        let history = History::new(&operations).with_renumbered_inodes(renumbers_inodes);
        Self { workload: workload.clone(), history, operations, needs_fsck }
    }

    /// The lines that a program had printed at a position, one on each line.
    pub fn acknowledged(&self, position: u32) -> String {
        if !matches!(self.workload, CrashWorkload::Program(_)) {
            return String::new();
        }
        let before = self.operations.iter().filter(|done| done.end <= position);
        let line = |done: &LoggedOperation| match &done.operation {
            Operation::Acknowledge { line } => Some(format!("{line}\n")),
            _ => None,
        };
        before.filter_map(line).collect()
    }

    /// What is wrong with a state after a power cut at `position`. A file system that needs a
    /// repair is judged after it; another one before it, and after it too where one was needed.
    pub fn violations(&self, seen: &CrashObservation, position: u32) -> Vec<Violation> {
        let mut violations = Vec::new();
        if !self.needs_fsck {
            violations.extend(self.of_view(&seen.recovered, position));
            if let Some(damage) = &seen.damage {
                violations.push(Violation::new(Oracle::Fsck, damage.clone()));
            }
        }
        if let Some(repaired) = &seen.repaired {
            let failed = repaired.not_repaired.iter().map(|why| Violation::new(Oracle::Fsck, why));
            let later = failed.chain(self.of_view(&repaired.view, position));
            violations.extend(later.map(|mut violation| {
                violation.detail = format!("after the repair: {}", violation.detail);
                violation
            }));
        } else if self.needs_fsck {
            // Without a repairing program, what the kernel makes of it counts.
            violations.extend(self.of_view(&seen.recovered, position));
        }
        violations
    }

    fn of_view(&self, view: &MountedView, position: u32) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut add = |oracle, detail: &Option<String>| {
            violations.extend(detail.iter().map(|detail| Violation::new(oracle, detail.clone())));
        };
        add(Oracle::Mount, &view.not_mounted);
        add(Oracle::Read, &view.unreadable);
        add(Oracle::Writable, &view.not_writable);
        add(Oracle::KernelLog, &view.kernel_errors.first().cloned());
        // Nobody knows which names and contents a tree of recorded requests should have.
        let known = view.tree.as_ref().filter(|_| self.workload != CrashWorkload::Requests);
        if let Some(tree) = known {
            violations.extend(self.history.judge(position, tree));
        }
        if let Some(program) = &view.program {
            violations.extend(self.of_program(program, position));
        }
        violations
    }

    fn of_program(&self, seen: &ProgramView, position: u32) -> Vec<Violation> {
        if let CrashWorkload::Sqlite(mode) = &self.workload {
            return grade(*mode, seen, &self.operations, position);
        }
        match seen.code {
            Some(0) => Vec::new(),
            code => vec![Violation::new(Oracle::Check, failure(code, seen))],
        }
    }
}

/// How a check of the user failed, with the last of what it printed.
fn failure(code: Option<i32>, seen: &ProgramView) -> String {
    let ended = match code {
        Some(code) => format!("the check ended with code {code}"),
        None => "the check was killed".to_owned(),
    };
    let last = seen.output.lines().last().unwrap_or_default();
    let said: Vec<&str> =
        [last, &seen.error].into_iter().map(str::trim).filter(|text| !text.is_empty()).collect();
    match said[..] {
        [] => format!("{ended} and printed nothing"),
        _ => format!("{ended}: {}", said.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_prints_nothing_is_said_to() {
        let seen = |output: &str, error: &str| ProgramView {
            code: None,
            output: output.to_owned(),
            error: error.to_owned(),
        };
        assert_eq!(
            failure(Some(1), &seen("", "")),
            "the check ended with code 1 and printed nothing"
        );
        let found = failure(Some(1), &seen("first\nfile3 is missing\n", "cat: file3"));
        assert_eq!(found, "the check ended with code 1: file3 is missing cat: file3");
        assert_eq!(failure(None, &seen("", "too long")), "the check was killed: too long");
    }
}
