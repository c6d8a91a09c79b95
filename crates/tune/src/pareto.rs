//! What each setup is like in more than one respect, and the front: setups that no other beats in
//! throughput, latency, wear and safety at once.
//!
//! Figures are means over whole trials, workloads weighted as for the merit, relative to the
//! baseline. Differences below `STEP` count as none. Limit: the step test beds for the noise,
//! whatever that is; a setup near another on the front may be there by luck.

use std::collections::BTreeMap;

use flashfit_filesystem::Setup;
use flashfit_search::{CandidateIndex, pareto_front};

use crate::merit::Merit;
use crate::objective::{log_wear_merit, p99_ns};
use crate::problem::Problem;
use crate::record::TrialRecord;

/// Logarithms that differ by less are the same: 2 %.
const STEP: f64 = 0.02;

/// A setup's figures as logarithms of ratios to the baseline; more is better in all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct RelativeFigures {
    /// Which.
    pub candidate: CandidateIndex,
    /// The setup.
    pub setup: Setup,
    /// Throughput.
    pub throughput: f64,
    /// The reciprocal of the time that 99 of 100 operations take at most; `None` where no trial
    /// tells.
    pub latency: Option<f64>,
    /// What was written by what that cost the device; `None` where nothing counted it.
    pub wear: Option<f64>,
    /// Its place on the scale of safety, 0 the safest.
    pub safety: u8,
    /// Whole trials.
    pub trials: usize,
    /// Whether no other setup beats it.
    pub on_front: bool,
}

/// Sums of one cell: a setup under a workload.
#[derive(Debug, Clone, Default)]
struct Cell {
    throughput: Vec<f64>,
    latency: Vec<f64>,
    wear: Vec<f64>,
}

/// The profiles of all setups that have a whole trial under every workload, the best throughput
/// first.
pub fn profiles(problem: &Problem, trials: &[TrialRecord]) -> Vec<RelativeFigures> {
    let cells = cells(problem, trials);
    let weights = problem.space.weights();
    let mean = |candidate: CandidateIndex, figure: fn(&Cell) -> &Vec<f64>| {
        let mut sum = 0.0;
        for (workload, weight) in weights.iter().enumerate() {
            let values = figure(cells.get(&(candidate, workload))?);
            if values.is_empty() {
                return None;
            }
            sum += weight * crate::stats::mean(values);
        }
        Some(sum)
    };
    let reference = problem.space.baseline;
    let relative = |candidate: CandidateIndex, figure: fn(&Cell) -> &Vec<f64>| {
        Some(mean(candidate, figure)? - mean(reference, figure)?)
    };
    let mut profiles: Vec<RelativeFigures> = (0..problem.setups.len())
        .filter_map(|candidate| {
            Some(RelativeFigures {
                candidate,
                setup: problem.setups[candidate].clone(),
                throughput: relative(candidate, |cell| &cell.throughput)?,
                latency: relative(candidate, |cell| &cell.latency),
                wear: relative(candidate, |cell| &cell.wear),
                safety: problem.space.candidates[candidate].safety,
                trials: (0..weights.len())
                    .filter_map(|workload| cells.get(&(candidate, workload)))
                    .map(|cell| cell.throughput.len())
                    .sum(),
                on_front: false,
            })
        })
        .collect();
    let step = |value: f64| (value / STEP).round();
    let figures: Vec<Vec<f64>> = profiles
        .iter()
        .map(|profile| {
            let known = |figure: Option<f64>| figure.map_or(0.0, step);
            let safety = -f64::from(profile.safety);
            vec![step(profile.throughput), known(profile.latency), known(profile.wear), safety]
        })
        .collect();
    for index in pareto_front(&figures) {
        profiles[index].on_front = true;
    }
    profiles.sort_by(|a, b| b.throughput.total_cmp(&a.throughput));
    profiles
}

fn cells(problem: &Problem, trials: &[TrialRecord]) -> BTreeMap<(CandidateIndex, usize), Cell> {
    let mut cells: BTreeMap<(CandidateIndex, usize), Cell> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.key.length.is_full()) {
        let place = (problem.candidate(&trial.key.setup), problem.workload(&trial.key.workload));
        let ((Some(candidate), Some(workload)), Some(points)) = (place, trial.points()) else {
            continue;
        };
        let cell = cells.entry((candidate, workload)).or_default();
        cell.throughput.push(Merit::of(points).mean_log_rate);
        cell.latency.extend(log_p99(trial).map(|log| -log));
        cell.wear.extend(log_wear_merit(trial, points));
    }
    cells
}

/// The mean logarithm of the 99th percentiles of a trial, reads and writes alike.
pub(crate) fn log_p99(trial: &TrialRecord) -> Option<f64> {
    let stages = trial.points()?.iter().flat_map(|point| &point.stages);
    let figures = stages.flat_map(|stage| [&stage.read, &stage.write]).flatten();
    let logs: Vec<f64> =
        figures.map(p99_ns).filter(|ns| *ns > 0).map(|ns| (ns as f64).ln()).collect();
    (!logs.is_empty()).then(|| crate::stats::mean(&logs))
}
