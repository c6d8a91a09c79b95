//! Converts recorded trials to observations of the search: a log merit and a constraint violation.

use std::collections::BTreeSet;

use flashfit_search as search;

use crate::choice::Criterion;
use crate::driver;
use crate::merit::Merit;
use crate::problem::Problem;
use crate::record::{RecordedOutcome, TrialKey, TrialPurpose, TrialRecord};
use crate::spec::RunSpec;
use crate::starts;
use flashfit_bench::{Figures, MeasurementLength, PointResult};

/// The repeat, for the search, of the first confirming round before a run was extended: repeats of
/// search trials stay below.
const FIRST_EARLIER_ROUND: u32 = 1 << 24;

/// The objective of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Objective {
    pub by: Criterion,
    /// The constraint on the 99th percentile of write latencies, in nanoseconds.
    pub p99_write_max_ns: Option<u64>,
}

/// Why a completed trial lacks the figure that the run is ranked by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFigure {
    /// What was written to the device was not counted.
    #[error("trial {number} has no count of what was written to the device")]
    Wear { number: u32 },
    /// The workload wrote nothing, or the counters of the device did not move.
    #[error("in trial {number}, no bytes were written or counted")]
    NothingWritten { number: u32 },
    /// All rates or latencies are 0.
    #[error("trial {number} has no figure of {by}")]
    Zero {
        number: u32,
        /// What is asked for.
        by: Criterion,
    },
}

/// No trial has the figure that the run is ranked by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no trial{} can be ranked by {by}: {reason}", under(.workload.as_deref()))]
pub struct NoFigures {
    pub by: Criterion,
    /// The workload of which this is true; `None` for all of them.
    pub workload: Option<String>,
    /// Why the last one cannot.
    pub reason: NoFigure,
}

/// A setup that is excluded because trials under a workload lack the figure that the run is ranked
/// by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupWithoutFigure {
    pub candidate: search::CandidateIndex,
    pub workload: search::WorkloadIndex,
    /// The trials that lack it, and all that completed.
    pub lacking: usize,
    pub completed: usize,
    /// Why the last of them lacks it.
    pub last: NoFigure,
}

fn under(workload: Option<&str>) -> String {
    workload.map_or(String::new(), |workload| format!(" under {workload}"))
}

impl Objective {
    pub fn of(spec: &RunSpec) -> Self {
        Self { by: spec.by, p99_write_max_ns: spec.p99_write_max_ns }
    }

    /// The outcome of a trial for the search.
    pub fn outcome(&self, trial: &TrialRecord) -> search::TrialOutcome {
        let RecordedOutcome::Completed { points } = &trial.outcome else {
            return search::TrialOutcome::Failed;
        };
        let excess = self.p99_write_max_ns.and_then(|most| excess(points, most));
        match self.log_merit(trial, points) {
            Ok(log_merit) => search::TrialOutcome::Measured { log_merit, excess },
            Err(_) => search::TrialOutcome::NoFigure,
        }
    }

    /// Why a completed trial has no figure; `None` if it has one or failed.
    pub fn no_figure(&self, trial: &TrialRecord) -> Option<NoFigure> {
        self.log_merit(trial, trial.points()?).err()
    }

    /// Checks that some trial has a figure, in all and under each workload. Up to `few` trials may
    /// all lack it.
    ///
    /// # Errors
    /// [`NoFigures`] if none has.
    pub fn check_figures<'a>(
        &self,
        trials: impl Iterator<Item = &'a TrialRecord> + Clone,
        few: usize,
    ) -> Result<(), NoFigures> {
        let workloads: BTreeSet<&str> =
            trials.clone().map(|trial| trial.key.workload.as_str()).collect();
        for workload in std::iter::once(None).chain(workloads.into_iter().map(Some)) {
            let is_here =
                |trial: &&TrialRecord| workload.is_none_or(|name| trial.key.workload == name);
            let here = trials.clone().filter(is_here);
            let mut lacking = Vec::new();
            let mut has_figure = false;
            for trial in here.filter(|trial| trial.points().is_some()) {
                match self.no_figure(trial) {
                    Some(reason) => lacking.push(reason),
                    None => has_figure = true,
                }
            }
            if !has_figure && lacking.len() > few {
                let reason = lacking.pop().expect("there is one");
                let workload = workload.map(str::to_owned);
                return Err(NoFigures { by: self.by, workload, reason });
            }
        }
        Ok(())
    }

    /// The setups that are excluded for lack of a figure, with each workload of which that is true.
    pub fn setups_without_figure(
        &self,
        problem: &Problem,
        history: &[search::Observation],
        trials: &[TrialRecord],
    ) -> Vec<SetupWithoutFigure> {
        let of_cell = |(candidate, workload)| {
            let is_here = |trial: &&TrialRecord| {
                purpose(trial.key.purpose).is_some()
                    && problem.candidate(&trial.key.setup) == Some(candidate)
                    && problem.workload(&trial.key.workload) == Some(workload)
                    && trial.points().is_some()
            };
            let completed: Vec<&TrialRecord> = trials.iter().filter(is_here).collect();
            let lacking: Vec<NoFigure> =
                completed.iter().filter_map(|trial| self.no_figure(trial)).collect();
            let (lacking, last) = (lacking.len(), lacking.into_iter().next_back()?);
            let completed = completed.len();
            Some(SetupWithoutFigure { candidate, workload, lacking, completed, last })
        };
        search::cells_without_figure(history).into_iter().filter_map(of_cell).collect()
    }

    fn log_merit(&self, trial: &TrialRecord, points: &[PointResult]) -> Result<f64, NoFigure> {
        let number = trial.number;
        let zero = NoFigure::Zero { number, by: self.by };
        match self.by {
            Criterion::Wear => log_wear_merit(trial, points).ok_or_else(|| {
                let is_counted = trial.counters.is_some() || trial.written.is_some();
                let nothing = NoFigure::NothingWritten { number };
                if is_counted { nothing } else { NoFigure::Wear { number } }
            }),
            Criterion::Throughput if Merit::has_no_rate(points) => Err(zero),
            Criterion::Latency if Merit::has_no_latency(points) => Err(zero),
            Criterion::Throughput | Criterion::Latency => {
                Ok(Merit::of(points).log(self.by).expect("points have throughput and latency"))
            }
        }
    }
}

/// The log ratio of bytes written by the workload to their cost for the device: bytes programmed if
/// the device counts them, otherwise bytes written to it. `None` without counters.
pub fn log_wear_merit(trial: &TrialRecord, points: &[PointResult]) -> Option<f64> {
    let stages = points.iter().flat_map(|point| &point.stages);
    let measured: u64 = stages.filter_map(|stage| stage.write).map(|write| write.bytes).sum();
    let asked = measured.saturating_add(trial.fill_bytes);
    let programmed = trial.counters.as_ref().map(|counters| counters.nand_programmed_bytes);
    let cost = programmed.or(trial.written.map(|written| written.workload_bytes))?;
    (asked > 0 && cost > 0).then(|| (asked as f64 / cost as f64).ln())
}

/// The log violation of the latency constraint. Syncs count as writes, since an application waits
/// for both. `None` without writes.
fn excess(points: &[PointResult], most_ns: u64) -> Option<f64> {
    let stages = points.iter().flat_map(|point| &point.stages);
    let worst = stages.filter_map(|stage| stage.write).map(|write| p99_ns(&write)).max()?;
    (worst > 0).then(|| (worst as f64 / most_ns.max(1) as f64).ln())
}

/// The 99th percentile of write or sync latencies, whichever is longer.
pub fn p99_ns(write: &Figures) -> u64 {
    write.latency.p99_ns.max(write.sync.map_or(0, |sync| sync.p99_ns))
}

pub fn length(length: MeasurementLength) -> search::TrialLength {
    match length {
        MeasurementLength::Full => search::TrialLength::Full,
        MeasurementLength::Short => search::TrialLength::Short,
    }
}

/// `None` for trials that the search did not propose.
fn purpose(purpose: TrialPurpose) -> Option<search::Purpose> {
    match purpose {
        TrialPurpose::Search => Some(search::Purpose::Search),
        TrialPurpose::Baseline => Some(search::Purpose::Baseline),
        TrialPurpose::Confirm => Some(search::Purpose::Confirm),
        TrialPurpose::Overlap => None,
    }
}

pub fn key(problem: &Problem, proposal: &search::Proposal) -> TrialKey {
    TrialKey {
        purpose: match proposal.purpose {
            search::Purpose::Search => TrialPurpose::Search,
            search::Purpose::Baseline => TrialPurpose::Baseline,
            search::Purpose::Confirm => TrialPurpose::Confirm,
        },
        setup: problem.setups[proposal.candidate].clone(),
        workload: problem.workloads[proposal.workload].clone(),
        length: match proposal.length {
            search::TrialLength::Full => MeasurementLength::Full,
            search::TrialLength::Short => MeasurementLength::Short,
        },
        repeat: match proposal.purpose {
            search::Purpose::Confirm => proposal.repeat + problem.phase.confirm_round,
            search::Purpose::Search | search::Purpose::Baseline => proposal.repeat,
        },
    }
}

/// Converts recorded trials to a history. Skips trials of setups or workloads that the problem
/// lacks. Trials of earlier versions have no batch and count as one complete batch.
pub fn history(
    problem: &Problem,
    objective: Objective,
    trials: &[TrialRecord],
) -> Vec<search::Observation> {
    let without = trials.iter().filter(|trial| trial.batch.is_none()).count();
    let unbatched = search::Batch { number: 0, size: u32::try_from(without).unwrap_or(u32::MAX) };
    let mut history = Vec::new();
    for trial in trials {
        let batch = trial
            .batch
            .map_or(unbatched, |batch| search::Batch { number: batch.number, size: batch.size });
        if let Some(proposal) = proposal(problem, &trial.key, batch) {
            let visit = u64::try_from(history.len()).expect("a run has few trials");
            history.push(search::Observation {
                proposal,
                visit,
                start: starts::of_record(trial),
                outcome: objective.outcome(trial),
            });
        }
    }
    // A batch that was under way when the run was extended is not completed.
    if history.iter().all(|seen| seen.proposal.batch.number < problem.phase.batch) {
        driver::close_batch(&mut history);
    }
    history
}

/// The proposal of a recorded trial; `None` if the problem lacks it or the search did not propose
/// it.
pub fn proposal(
    problem: &Problem,
    key: &TrialKey,
    batch: search::Batch,
) -> Option<search::Proposal> {
    let phase = problem.phase;
    let purpose = purpose(key.purpose)?;
    let (purpose, repeat) = match purpose {
        search::Purpose::Confirm if batch.number < phase.batch => {
            (search::Purpose::Search, FIRST_EARLIER_ROUND + key.repeat)
        }
        search::Purpose::Confirm => (purpose, key.repeat.saturating_sub(phase.confirm_round)),
        search::Purpose::Search | search::Purpose::Baseline => (purpose, key.repeat),
    };
    Some(search::Proposal {
        candidate: problem.candidate(&key.setup)?,
        workload: problem.workload(&key.workload)?,
        length: length(key.length),
        purpose,
        repeat,
        batch,
    })
}
