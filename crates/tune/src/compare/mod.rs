//! Compares whole runs: each with the first, under the setups and workloads that both measured.
//!
//! ```text
//! run          reads a run, whoever wrote it, and its conditions
//! difference   the statistic
//! equivalence  whether a difference is surely too small to matter
//! session      how much two sessions without any change differ
//! slowdown     which slowdowns are sure, over all differences together
//! ```
//!
//! Runs that differ in what they measured (data size, profile) are compared and marked.

mod difference;
mod equivalence;
mod run;
mod session;
mod slowdown;

use std::collections::BTreeSet;

use flashfit_filesystem::Setup;

use crate::choice::Criterion;

pub use difference::{ComparedCell, RunDifference, RunVerdict, StandardError};
pub use equivalence::EQUIVALENCE_MARGIN;
pub use run::{CompareError, ComparedRun, DifferingCondition};
pub use session::SessionSpread;
pub use slowdown::{Slowdown, SlowdownCheck, UntestedReason, UntestedRun};

use difference::{RunCells, difference};

/// The probability of the intervals that are shown.
pub const CONFIDENCE: f64 = 0.95;

/// What of the runs is compared.
#[derive(Clone, Copy)]
pub struct CompareRequest<'a> {
    pub by: Criterion,
    pub wants_setup: &'a dyn Fn(&Setup) -> bool,
    pub wants_workload: &'a dyn Fn(&str) -> bool,
}

/// Runs and their differences from the first.
#[derive(Debug, Clone)]
pub struct RunComparison {
    pub by: Criterion,
    /// At least two.
    pub runs: Vec<ComparedRun>,
    /// One for each run after the first.
    pub pairs: Vec<RunPair>,
}

/// A run compared with the first.
#[derive(Debug, Clone)]
pub struct RunPair {
    /// The place of the run.
    pub run: usize,
    /// Conditions in which they differ.
    pub differing: Vec<DifferingCondition>,
    /// Over all workloads that were measured at the same points.
    pub overall: Option<RunDifference>,
    /// The same for each setup.
    pub setups: Vec<(Setup, RunDifference)>,
    pub workloads: Vec<WorkloadPair>,
    /// What only one of them measured, of what is wanted.
    pub only_in_first: Vec<Setup>,
    pub only_in_run: Vec<Setup>,
}

#[derive(Debug, Clone)]
pub struct WorkloadPair {
    pub workload: String,
    /// Whether both runs measured it at the same points and stages.
    pub has_same_points: bool,
    /// `None` if they have no setup in common.
    pub difference: Option<RunDifference>,
    pub setups: Vec<SetupPair>,
}

#[derive(Debug, Clone)]
pub struct SetupPair {
    pub setup: Setup,
    pub difference: RunDifference,
    /// The figure in the first run and in the other: a mean of logarithms over full-length trials,
    /// or over short ones without those.
    pub logs: [f64; 2],
}

impl RunPair {
    /// The same without intervals: trials do not differ from themselves by chance.
    fn without_intervals(mut self) -> Self {
        let of_workloads = self.workloads.iter_mut().flat_map(|workload| {
            let of_setups = workload.setups.iter_mut().map(|setup| &mut setup.difference);
            workload.difference.iter_mut().chain(of_setups)
        });
        let of_setups = self.setups.iter_mut().map(|(_, difference)| difference);
        for difference in self.overall.iter_mut().chain(of_setups).chain(of_workloads) {
            difference.error = None;
        }
        self
    }

    /// Whether both runs measured the same thing.
    pub fn is_comparable(&self) -> bool {
        self.other_measurements().next().is_none()
    }

    /// The conditions because of which they did not.
    pub fn other_measurements(&self) -> impl Iterator<Item = &'static str> {
        let others = self.differing.iter().filter(|condition| !condition.is_comparable);
        others.map(|condition| condition.what)
    }
}

impl RunComparison {
    /// Compares runs with the first of them.
    ///
    /// # Errors
    /// Without two runs.
    pub fn of(runs: Vec<ComparedRun>, request: &CompareRequest<'_>) -> Result<Self, CompareError> {
        let [first, others @ ..] = &runs[..] else { return Err(CompareError::TooFew) };
        if others.is_empty() {
            return Err(CompareError::TooFew);
        }
        let base = wanted_cells(first, request);
        let pairs = others.iter().enumerate().map(|(index, run)| {
            let pair = pair(first, &base, run, index + 1, request);
            if run.has_same_trials(first) { pair.without_intervals() } else { pair }
        });
        let pairs = pairs.collect();
        Ok(Self { by: request.by, runs, pairs })
    }

    /// The common setups of all runs that have trials, the best of the first run first.
    pub fn common_setups(&self) -> Vec<Setup> {
        let Some(pair) = self.pairs.first() else { return Vec::new() };
        let is_common = |setup: &Setup| {
            self.pairs.iter().all(|pair| pair.setups.iter().any(|(known, _)| known == setup))
        };
        let level = |setup: &Setup| -> f64 {
            let cells = pair.workloads.iter().flat_map(|workload| &workload.setups);
            let of_it: Vec<f64> =
                cells.filter(|cell| cell.setup == *setup).map(|cell| cell.logs[0]).collect();
            of_it.iter().sum::<f64>() / of_it.len().max(1) as f64
        };
        let setups = pair.setups.iter().map(|(setup, _)| setup.clone());
        let mut common: Vec<Setup> = setups.filter(is_common).collect();
        common.sort_by(|a, b| level(b).total_cmp(&level(a)));
        common
    }
}

fn wanted_cells(run: &ComparedRun, request: &CompareRequest<'_>) -> RunCells {
    let mut cells = run.cells(request.by);
    cells.retain(|key, _| (request.wants_workload)(&key.workload));
    cells
}

fn pair(
    first: &ComparedRun,
    base: &RunCells,
    run: &ComparedRun,
    index: usize,
    request: &CompareRequest<'_>,
) -> RunPair {
    let cells = wanted_cells(run, request);
    let wanted = |key: &ComparedCell| (request.wants_setup)(&key.setup);
    let names: BTreeSet<&str> =
        base.keys().chain(cells.keys()).map(|key| key.workload.as_str()).collect();
    let same_points: BTreeSet<&str> =
        names.iter().copied().filter(|name| has_same_points(first, run, name)).collect();
    let weight = |name: &str| first.weight(name);
    let over_all = |chosen: &dyn Fn(&ComparedCell) -> bool| {
        let is_chosen = |key: &ComparedCell| {
            wanted(key) && same_points.contains(key.workload.as_str()) && chosen(key)
        };
        difference(base, &cells, is_chosen, weight)
    };
    let setups_of = |cells: &RunCells| -> BTreeSet<Setup> {
        cells.keys().filter(|key| wanted(key)).map(|key| key.setup.clone()).collect()
    };
    let (in_first, in_run) = (setups_of(base), setups_of(&cells));
    let common = || in_first.intersection(&in_run);
    let workload = |name: &&str| {
        let of_workload = |key: &ComparedCell| wanted(key) && key.workload == **name;
        let setup = |setup: &Setup| {
            let of_setup = |key: &ComparedCell| of_workload(key) && key.setup == *setup;
            Some(SetupPair {
                setup: setup.clone(),
                difference: difference(base, &cells, of_setup, |_| 1.0)?,
                logs: logs(base, &cells, of_setup),
            })
        };
        WorkloadPair {
            workload: (*name).to_owned(),
            has_same_points: same_points.contains(name),
            difference: difference(base, &cells, of_workload, |_| 1.0),
            setups: common().filter_map(setup).collect(),
        }
    };
    RunPair {
        run: index,
        differing: first.differing(run),
        overall: over_all(&|_| true),
        setups: common()
            .filter_map(|setup| Some((setup.clone(), over_all(&|key| key.setup == *setup)?)))
            .collect(),
        workloads: names.iter().map(workload).collect(),
        only_in_first: in_first.difference(&in_run).cloned().collect(),
        only_in_run: in_run.difference(&in_first).cloned().collect(),
    }
}

/// The levels of a setup in two runs, from trials of one length.
fn logs(a: &RunCells, b: &RunCells, chosen: impl Fn(&ComparedCell) -> bool) -> [f64; 2] {
    // Full-length cells come first.
    let common = a.keys().find(|key| chosen(key) && b.contains_key(*key));
    let mean = |cells: &RunCells| {
        let logs = common.and_then(|key| cells.get(key)).into_iter().flatten();
        let logs: Vec<f64> = logs.map(|sample| sample.log).collect();
        crate::stats::mean(&logs)
    };
    [mean(a), mean(b)]
}

/// Whether both runs measured a workload at the same points and stages, as far as both did.
fn has_same_points(a: &ComparedRun, b: &ComparedRun, workload: &str) -> bool {
    let lengths = [true, false];
    lengths.into_iter().all(|is_full| {
        let (a, b) = (a.points(workload, is_full), b.points(workload, is_full));
        a.is_empty() || b.is_empty() || a == b
    })
}
