//! The trials that were asked for and what came of them, in the order of time; and the same sorted
//! by candidate and workload.

use std::collections::BTreeMap;

use crate::limits::Limits;
use crate::space::{CandidateIndex, WorkloadIndex};

/// How long a trial measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrialLength {
    /// The whole run, which is what counts.
    Full,
    /// A part of it, cheaper, noisier and perhaps biased ([`crate::ShortRun`]).
    Short,
}

/// What a trial is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// To find the best.
    Search,
    /// To see drift: the reference again.
    Sentinel,
    /// To compare the finalists and the reference afresh; gains are computed from these alone.
    Confirm,
}

/// The batch that a trial was asked for in. Batches are what makes an interrupted search resumable
/// at any trial: a strategy sees whole batches only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Counted from 0.
    pub number: u32,
    /// How many trials it has.
    pub size: u32,
}

/// A trial to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proposal {
    /// Of what.
    pub candidate: CandidateIndex,
    /// Under what.
    pub workload: WorkloadIndex,
    /// How long.
    pub length: TrialLength,
    /// What for.
    pub purpose: Purpose,
    /// How often the same was asked for before; of a confirming trial, how many rounds were before.
    pub repeat: u32,
    /// In which batch.
    pub batch: Batch,
}

/// What came of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TrialOutcome {
    /// It was measured.
    Measured {
        /// The natural logarithm of its figure, of which more is better (0.01 is 1 %).
        log_merit: f64,
        /// By how much it breaks the worst of the user's demands, in natural logarithm: above 0
        /// it breaks it. `None` without demands.
        excess: Option<f64>,
    },
    /// It failed: its candidate is out.
    Failed,
    /// It cannot be made (a replay has no such record): its candidate is out.
    Missing,
}

/// A trial that was made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// As it was asked for.
    pub ask: Proposal,
    /// Its place in the order of time.
    pub visit: u64,
    /// What came of it.
    pub outcome: TrialOutcome,
}

/// What trials cost together, in full-length trials. One that could not be made costs nothing.
pub fn spent(history: &[Observation], limits: &Limits) -> f64 {
    let made = history.iter().filter(|told| told.outcome != TrialOutcome::Missing);
    made.map(|told| limits.cost(told.ask.length)).sum()
}

impl Limits {
    /// What a trial of that length costs, in full-length trials.
    pub fn cost(&self, length: TrialLength) -> f64 {
        match (length, self.short) {
            (TrialLength::Short, Some(short)) => short.cost,
            _ => 1.0,
        }
    }

    /// What is left to spend, in full-length trials; infinite without a limit.
    pub fn left(&self, history: &[Observation]) -> f64 {
        self.trials.map_or(f64::INFINITY, |trials| trials - spent(history, self))
    }
}

/// What was measured, by candidate and workload.
#[derive(Debug, Clone, Default)]
pub struct TrialTable {
    cells: BTreeMap<(CandidateIndex, WorkloadIndex), Vec<Observation>>,
    out: BTreeMap<CandidateIndex, TrialOutcome>,
}

impl TrialTable {
    /// Of the trials that `wanted` holds for; failures count whatever they were for.
    pub fn of(history: &[Observation], wanted: impl Fn(&Proposal) -> bool) -> Self {
        let mut table = Self::default();
        for told in history {
            if !matches!(told.outcome, TrialOutcome::Measured { .. }) {
                table.out.entry(told.ask.candidate).or_insert(told.outcome);
            } else if wanted(&told.ask) {
                let cell = (told.ask.candidate, told.ask.workload);
                table.cells.entry(cell).or_default().push(*told);
            }
        }
        table
    }

    /// The trials of a candidate under a workload, in the order of time.
    pub fn cell(&self, candidate: CandidateIndex, workload: WorkloadIndex) -> &[Observation] {
        self.cells.get(&(candidate, workload)).map_or(&[], Vec::as_slice)
    }

    /// All cells that have trials, by candidate, then workload.
    pub fn cells(&self) -> impl Iterator<Item = (CandidateIndex, WorkloadIndex, &[Observation])> {
        self.cells.iter().map(|(&(candidate, workload), told)| (candidate, workload, &told[..]))
    }

    /// Why a candidate is out, if it is: a trial of it failed, or cannot be made.
    pub fn out(&self, candidate: CandidateIndex) -> Option<TrialOutcome> {
        self.out.get(&candidate).copied()
    }

    /// All that are out.
    pub fn all_out(&self) -> impl Iterator<Item = (CandidateIndex, TrialOutcome)> {
        self.out.iter().map(|(&candidate, &outcome)| (candidate, outcome))
    }

    /// The candidates that have a trial.
    pub fn candidates(&self) -> Vec<CandidateIndex> {
        let mut found: Vec<CandidateIndex> = self.cells.keys().map(|&(index, _)| index).collect();
        found.dedup();
        found
    }
}

impl Observation {
    /// What was measured, if it was.
    pub fn log_merit(&self) -> Option<f64> {
        match self.outcome {
            TrialOutcome::Measured { log_merit, .. } => Some(log_merit),
            TrialOutcome::Failed | TrialOutcome::Missing => None,
        }
    }
}
