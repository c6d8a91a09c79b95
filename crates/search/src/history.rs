//! The history of a search: trials with their outcomes in time order, and a table of them by
//! candidate and workload.

use std::collections::BTreeMap;

use crate::settings::SearchSettings;
use crate::space::{CandidateIndex, WorkloadIndex};

/// How long a trial measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrialLength {
    /// The full measurement, which decides.
    Full,
    /// A part of it: cheaper, noisier and possibly biased ([`crate::ShortRun`]).
    Short,
}

/// The purpose of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// To find the best.
    Search,
    /// Repeats the baseline to detect drift.
    Baseline,
    /// Compares the finalists with the baseline. Gains are computed from these trials only.
    Confirm,
}

/// The batch that a trial belongs to. A strategy sees whole batches only, which makes an
/// interrupted search resumable at any trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Counted from 0.
    pub number: u32,
    pub size: u32,
}

/// A trial to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proposal {
    pub candidate: CandidateIndex,
    pub workload: WorkloadIndex,
    pub length: TrialLength,
    pub purpose: Purpose,
    /// How often the same trial was proposed before; for a confirming trial, its round.
    pub repeat: u32,
    pub batch: Batch,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TrialOutcome {
    Measured {
        /// The natural logarithm of the merit; more is better (0.01 is 1 %).
        log_merit: f64,
        /// The largest constraint violation in natural logarithm: above 0 if a constraint is
        /// violated, `None` without constraints.
        excess: Option<f64>,
    },
    /// It completed without the figure that candidates are ranked by. Its candidate is tried again,
    /// unless that happens too often ([`MAX_WITHOUT_FIGURE`]).
    NoFigure,
    /// It failed, which excludes its candidate.
    Failed,
    /// There is no such trial (a replay lacks the record), which excludes its candidate.
    Missing,
}

/// A candidate is excluded by so many trials without a figure under one workload, if they are more
/// than those with one.
pub const MAX_WITHOUT_FIGURE: usize = 3;

/// A trial that was made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    pub proposal: Proposal,
    /// Its position in time.
    pub visit: u64,
    /// The kind of state that it started in; only equality counts. The trials of a round of
    /// confirming trials share it.
    pub start: u64,
    pub outcome: TrialOutcome,
}

/// The total cost in full-length trials. A missing trial costs nothing.
pub fn spent(history: &[Observation], settings: &SearchSettings) -> f64 {
    let made = history.iter().filter(|observation| observation.outcome != TrialOutcome::Missing);
    made.map(|observation| settings.cost(observation.proposal.length)).sum()
}

impl SearchSettings {
    /// The cost of a trial in full-length trials.
    pub fn cost(&self, length: TrialLength) -> f64 {
        match (length, self.short) {
            (TrialLength::Short, Some(short)) => short.cost,
            _ => 1.0,
        }
    }

    /// The remaining budget in full-length trials; infinite without a budget.
    pub fn remaining(&self, history: &[Observation]) -> f64 {
        self.trials.map_or(f64::INFINITY, |trials| trials - spent(history, self))
    }
}

/// The candidates that trials without a figure exclude, each with the workload of these trials.
pub fn cells_without_figure(history: &[Observation]) -> Vec<(CandidateIndex, WorkloadIndex)> {
    let cell =
        |observation: &Observation| (observation.proposal.candidate, observation.proposal.workload);
    let mut lacking: BTreeMap<(CandidateIndex, WorkloadIndex), usize> = BTreeMap::new();
    for observation in history.iter().filter(|made| made.outcome == TrialOutcome::NoFigure) {
        *lacking.entry(cell(observation)).or_default() += 1;
    }
    lacking.retain(|_, count| *count >= MAX_WITHOUT_FIGURE);
    let measured = |of: (CandidateIndex, WorkloadIndex)| {
        let is_measured = |made: &&Observation| cell(made) == of && made.log_merit().is_some();
        history.iter().filter(is_measured).count()
    };
    lacking.into_iter().filter(|(of, count)| *count > measured(*of)).map(|(of, _)| of).collect()
}

/// Measured trials by candidate and workload, and the excluded candidates.
#[derive(Debug, Clone, Default)]
pub struct TrialTable {
    cells: BTreeMap<(CandidateIndex, WorkloadIndex), Vec<Observation>>,
    excluded: BTreeMap<CandidateIndex, TrialOutcome>,
}

impl TrialTable {
    /// Contains the trials that `wanted` accepts. Failures of any trial exclude their candidate,
    /// and so do many trials without a figure.
    pub fn of(history: &[Observation], wanted: impl Fn(&Proposal) -> bool) -> Self {
        let mut table = Self::default();
        for observation in history {
            let cell = (observation.proposal.candidate, observation.proposal.workload);
            match observation.outcome {
                TrialOutcome::Measured { .. } if wanted(&observation.proposal) => {
                    table.cells.entry(cell).or_default().push(*observation);
                }
                TrialOutcome::Measured { .. } | TrialOutcome::NoFigure => {}
                TrialOutcome::Failed | TrialOutcome::Missing => {
                    table.excluded.entry(cell.0).or_insert(observation.outcome);
                }
            }
        }
        for (candidate, _) in cells_without_figure(history) {
            table.excluded.entry(candidate).or_insert(TrialOutcome::NoFigure);
        }
        table
    }

    /// The trials of a candidate under a workload, in time order.
    pub fn cell(&self, candidate: CandidateIndex, workload: WorkloadIndex) -> &[Observation] {
        self.cells.get(&(candidate, workload)).map_or(&[], Vec::as_slice)
    }

    /// All cells with trials, by candidate, then workload.
    pub fn cells(&self) -> impl Iterator<Item = (CandidateIndex, WorkloadIndex, &[Observation])> {
        self.cells
            .iter()
            .map(|(&(candidate, workload), observation)| (candidate, workload, &observation[..]))
    }

    pub fn excluded(&self, candidate: CandidateIndex) -> Option<TrialOutcome> {
        self.excluded.get(&candidate).copied()
    }

    pub fn all_excluded(&self) -> impl Iterator<Item = (CandidateIndex, TrialOutcome)> {
        self.excluded.iter().map(|(&candidate, &outcome)| (candidate, outcome))
    }

    /// The number of measured trials of each candidate that has any.
    pub fn trials(&self) -> BTreeMap<CandidateIndex, usize> {
        let mut counts = BTreeMap::new();
        for (&(candidate, _), cell) in &self.cells {
            *counts.entry(candidate).or_default() += cell.len();
        }
        counts
    }

    /// The candidates with at least one measured trial.
    pub fn candidates(&self) -> Vec<CandidateIndex> {
        let mut found: Vec<CandidateIndex> = self.cells.keys().map(|&(index, _)| index).collect();
        found.dedup();
        found
    }
}

impl Observation {
    pub fn log_merit(&self) -> Option<f64> {
        match self.outcome {
            TrialOutcome::Measured { log_merit, .. } => Some(log_merit),
            TrialOutcome::NoFigure | TrialOutcome::Failed | TrialOutcome::Missing => None,
        }
    }
}
