//! Figures of setups in several respects, and the Pareto front: the setups that no other dominates
//! in throughput, latency, wear and safety. With a usage model, years of life replace wear.
//!
//! Figures are means over full-length trials relative to the baseline, with workloads weighted as
//! in the merit, and are rounded to multiples of `STEP` before they are compared. Limit: the step
//! is a fixed allowance for noise; a setup close to another one may be on the front by chance, and
//! two that differ by less than a step may be rounded apart.

use std::collections::BTreeMap;

use flashfit_filesystem::Setup;
use flashfit_search::{CandidateIndex, pareto_front};
use flashfit_wear::extrapolation::Interval;

use crate::life::{SetupLife, SetupLives};
use crate::merit::Merit;
use crate::objective::{log_wear_merit, p99_ns};
use crate::problem::Problem;
use crate::record::TrialRecord;

/// The step that logarithms are rounded to: 2 %.
const STEP: f64 = 0.02;

/// Log ratios to the baseline; more is better for all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct RelativeFigures {
    pub candidate: CandidateIndex,
    pub setup: Setup,
    pub throughput: f64,
    /// Reciprocal of the 99th percentile of latencies; `None` if not recorded.
    pub latency: Option<f64>,
    /// Bytes written divided by their cost for the device; `None` without counters.
    pub wear: Option<f64>,
    /// How long it lasts, where a usage model was given.
    pub life: Option<SetupLife>,
    /// Safety level; 0 is the safest.
    pub safety: u8,
    pub trials: usize,
    pub on_front: bool,
}

/// Figures of a setup under a workload.
#[derive(Debug, Clone, Default)]
struct Cell {
    throughput: Vec<f64>,
    latency: Vec<f64>,
    wear: Vec<f64>,
}

/// The figures of all setups with a full-length trial under every workload, best throughput first.
pub fn profiles(
    problem: &Problem,
    trials: &[TrialRecord],
    lives: Option<&SetupLives>,
) -> Vec<RelativeFigures> {
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
                life: lives.map(|lives| lives.life(candidate).clone()),
                safety: problem.space.candidates[candidate].safety,
                trials: (0..weights.len())
                    .filter_map(|workload| cells.get(&(candidate, workload)))
                    .map(|cell| cell.throughput.len())
                    .sum(),
                on_front: false,
            })
        })
        .collect();
    let own_years = lives.and_then(|lives| lives.life(reference).years());
    let step = |value: f64| (value / STEP).round();
    let figures: Vec<Vec<f64>> = profiles
        .iter()
        .map(|profile| {
            let known = |figure: Option<f64>| figure.map_or(0.0, step);
            let safety = -f64::from(profile.safety);
            // Years are the better figure: they belong to the user's workloads.
            let life = life_ratio(profile, own_years).or(profile.wear);
            vec![step(profile.throughput), known(profile.latency), known(life), safety]
        })
        .collect();
    for index in pareto_front(&figures) {
        profiles[index].on_front = true;
    }
    profiles.sort_by(|a, b| b.throughput.total_cmp(&a.throughput));
    profiles
}

/// How many times as long as the baseline a setup lasts, as a logarithm.
fn life_ratio(profile: &RelativeFigures, baseline: Option<Interval>) -> Option<f64> {
    let years = profile.life.as_ref()?.years()?;
    Some((years.median / baseline?.median).ln())
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

/// The mean logarithm of the 99th percentiles of a trial, over reads and writes.
pub(crate) fn log_p99(trial: &TrialRecord) -> Option<f64> {
    let stages = trial.points()?.iter().flat_map(|point| &point.stages);
    let figures = stages.flat_map(|stage| [&stage.read, &stage.write]).flatten();
    let logs: Vec<f64> =
        figures.map(p99_ns).filter(|ns| *ns > 0).map(|ns| (ns as f64).ln()).collect();
    (!logs.is_empty()).then(|| crate::stats::mean(&logs))
}
