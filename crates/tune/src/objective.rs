//! From a recorded trial to what the search is told: one logarithm, and how far it breaks a demand.

use flashfit_search as search;

use crate::choice::Criterion;
use crate::merit::Merit;
use crate::problem::Problem;
use crate::record::{RecordedOutcome, TrialKey, TrialPurpose, TrialRecord};
use crate::spec::RunSpec;
use flashfit_bench::{Figures, MeasurementLength, PointResult};

/// By what a trial is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Objective {
    /// The merit.
    pub by: Criterion,
    /// The longest that 99 of 100 writes may take, in nanoseconds.
    pub p99_write_max_ns: Option<u64>,
}

/// A trial has no figure of the kind that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFigure {
    /// Nothing counted what was written to the device.
    #[error("trial {number} does not tell what was written to the medium")]
    Wear {
        /// The trial's number.
        number: u32,
    },
    /// Its rates or latencies are all 0.
    #[error("trial {number} has no figure of {by}")]
    Zero {
        /// The trial's number.
        number: u32,
        /// What is asked for.
        by: Criterion,
    },
}

impl Objective {
    /// The objective of a run.
    pub fn of(spec: &RunSpec) -> Self {
        Self { by: spec.by, p99_write_max_ns: spec.p99_write_max_ns }
    }

    /// What the search is told of a trial.
    ///
    /// # Errors
    /// [`NoFigure`] for a trial that was measured without what is asked for.
    pub fn outcome(&self, trial: &TrialRecord) -> Result<search::TrialOutcome, NoFigure> {
        let RecordedOutcome::Completed { points } = &trial.outcome else {
            return Ok(search::TrialOutcome::Failed);
        };
        let log_merit = self.log_merit(trial, points)?;
        let excess = self.p99_write_max_ns.and_then(|most| excess(points, most));
        Ok(search::TrialOutcome::Measured { log_merit, excess })
    }

    fn log_merit(&self, trial: &TrialRecord, points: &[PointResult]) -> Result<f64, NoFigure> {
        let zero = NoFigure::Zero { number: trial.number, by: self.by };
        match self.by {
            Criterion::Wear => {
                log_wear_merit(trial, points).ok_or(NoFigure::Wear { number: trial.number })
            }
            Criterion::Throughput if Merit::has_no_rate(points) => Err(zero),
            Criterion::Latency if Merit::has_no_latency(points) => Err(zero),
            Criterion::Throughput | Criterion::Latency => {
                Ok(Merit::of(points).log(self.by).expect("points tell throughput and latency"))
            }
        }
    }
}

/// What the workload wrote by what that cost the device, as a logarithm: bytes programmed where
/// the device counts them, bytes written to it elsewhere. `None` where nothing was counted.
pub fn log_wear_merit(trial: &TrialRecord, points: &[PointResult]) -> Option<f64> {
    let stages = points.iter().flat_map(|point| &point.stages);
    let measured: u64 = stages.filter_map(|stage| stage.write).map(|write| write.bytes).sum();
    let asked = measured.saturating_add(trial.fill_bytes);
    let programmed = trial.counters.as_ref().map(|counters| counters.nand_programmed_bytes);
    let cost = programmed.or(trial.written.map(|written| written.workload_bytes))?;
    (asked > 0 && cost > 0).then(|| (asked as f64 / cost as f64).ln())
}

/// By how much the slowest of 100 writes breaks a demand, as a logarithm; syncs are writes, since
/// who writes and syncs waits for both. `None` where nothing is written.
fn excess(points: &[PointResult], most_ns: u64) -> Option<f64> {
    let stages = points.iter().flat_map(|point| &point.stages);
    let worst = stages.filter_map(|stage| stage.write).map(|write| p99_ns(&write)).max()?;
    (worst > 0).then(|| (worst as f64 / most_ns.max(1) as f64).ln())
}

/// The time that 99 of 100 writes, or of the syncs between them, take at most.
pub fn p99_ns(write: &Figures) -> u64 {
    write.latency.p99_ns.max(write.sync.map_or(0, |sync| sync.p99_ns))
}

/// The length as the search knows it.
pub fn length(length: MeasurementLength) -> search::TrialLength {
    match length {
        MeasurementLength::Full => search::TrialLength::Full,
        MeasurementLength::Short => search::TrialLength::Short,
    }
}

/// `None` for what the search did not ask for.
fn purpose(purpose: TrialPurpose) -> Option<search::Purpose> {
    match purpose {
        TrialPurpose::Search => Some(search::Purpose::Search),
        TrialPurpose::Sentinel => Some(search::Purpose::Baseline),
        TrialPurpose::Confirm => Some(search::Purpose::Confirm),
        TrialPurpose::Overlap => None,
    }
}

/// The key of the trial that the search asks for.
pub fn key(problem: &Problem, ask: &search::Proposal) -> TrialKey {
    TrialKey {
        purpose: match ask.purpose {
            search::Purpose::Search => TrialPurpose::Search,
            search::Purpose::Baseline => TrialPurpose::Sentinel,
            search::Purpose::Confirm => TrialPurpose::Confirm,
        },
        setup: problem.setups[ask.candidate].clone(),
        workload: problem.workloads[ask.workload].clone(),
        length: match ask.length {
            search::TrialLength::Full => MeasurementLength::Full,
            search::TrialLength::Short => MeasurementLength::Short,
        },
        repeat: ask.repeat,
    }
}

/// The history that recorded trials make. Trials of setups or workloads that the problem does not
/// have are passed over. Trials of earlier versions know no batch: they count as one that is
/// complete.
///
/// # Errors
/// [`NoFigure`] for the first trial that does not tell what is asked for.
pub fn history(
    problem: &Problem,
    judge: Objective,
    trials: &[TrialRecord],
) -> Result<Vec<search::Observation>, NoFigure> {
    let without = trials.iter().filter(|trial| trial.batch.is_none()).count();
    let unbatched = search::Batch { number: 0, size: u32::try_from(without).unwrap_or(u32::MAX) };
    let mut told = Vec::new();
    for trial in trials {
        let batch = trial
            .batch
            .map_or(unbatched, |batch| search::Batch { number: batch.number, size: batch.size });
        if let Some(ask) = ask(problem, &trial.key, batch) {
            let visit = u64::try_from(told.len()).expect("a run has few trials");
            told.push(search::Observation { proposal: ask, visit, outcome: judge.outcome(trial)? });
        }
    }
    Ok(told)
}

/// What was asked for; `None` where the problem does not have it, or the search did not ask.
pub fn ask(problem: &Problem, key: &TrialKey, batch: search::Batch) -> Option<search::Proposal> {
    Some(search::Proposal {
        candidate: problem.candidate(&key.setup)?,
        workload: problem.workload(&key.workload)?,
        length: length(key.length),
        purpose: purpose(key.purpose)?,
        repeat: key.repeat,
        batch,
    })
}
