//! The difference between two runs: a mean difference of logarithms with an interval.
//!
//! Model: the logarithm of a figure is a value of the cell (setup, workload and length of the
//! trial) plus a difference of the run, plus noise. Runs are separate sessions, so trials are not
//! paired. The difference of a workload weights each cell by `n_a n_b / (n_a + n_b)`, which is
//! least squares; for one cell it is the difference of two means. Several workloads are averaged
//! with their weights.
//!
//! Noise: repeats within cells, pooled over the cells of one run, workload and length of the trial,
//! with separate values for each run (Welch) and the degrees of freedom of Satterthwaite; a cell
//! with five or more trials has its own noise. Trials of one round share what the device did at
//! that time: if the residuals of a round add up, the variance is multiplied by that design effect.
//! If the cells have more degrees of freedom between each other than within (most setups measured
//! once), the noise is the scatter of the cells' differences instead. Without either there is no
//! interval.
//!
//! Limits: each run is one session. What differs between sessions (temperature, contents and age of
//! the device) is part of the difference, not of the interval; tests of what changed between the
//! sessions add it ([`super::SessionSpread`]). Adaptive runs measure good setups
//! more often, which shifts their means a little.

use std::collections::BTreeMap;

use flashfit_bench::MeasurementLength;
use flashfit_filesystem::Setup;
use flashfit_search::student;

use super::SessionSpread;
use crate::record::TrialPurpose;

/// A cell with so many trials has its own noise.
const OWN_NOISE_TRIALS: usize = 5;
/// Smaller differences of logarithms are rounding errors.
const SAME: f64 = 1e-9;

/// What is measured the same way in both runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ComparedCell {
    pub workload: String,
    pub setup: Setup,
    pub is_short: bool,
}

impl ComparedCell {
    pub fn new(workload: &str, setup: &Setup, length: MeasurementLength) -> Self {
        Self { workload: workload.to_owned(), setup: setup.clone(), is_short: !length.is_full() }
    }
}

/// Trials that were made close in time, for one purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Round {
    pub purpose: TrialPurpose,
    /// The batch, or the repeat in a record without batches.
    pub number: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellSample {
    pub log: f64,
    pub round: Round,
}

/// The trials of one run by cell.
pub type RunCells = BTreeMap<ComparedCell, Vec<CellSample>>;

/// A difference between two runs as a logarithm of a ratio: above 0, the second is better.
#[derive(Debug, Clone, PartialEq)]
pub struct RunDifference {
    pub log: f64,
    /// Standard error and degrees of freedom; `None` without repeats or several setups.
    pub error: Option<StandardError>,
    /// Trials of the first and the second run.
    pub trials: [usize; 2],
    /// Rounds that these trials are from.
    pub rounds: [usize; 2],
    /// Setups that both runs measured.
    pub setups: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StandardError {
    pub log: f64,
    pub freedom: f64,
    /// Whether the noise is the scatter between setups instead of that between repeats.
    pub is_between_setups: bool,
}

/// What a difference says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunVerdict {
    Better,
    Worse,
    /// The interval includes 0.
    NoDifference,
    /// There is no interval.
    Unknown,
}

impl RunDifference {
    /// The two-sided interval that has the true value with this probability.
    pub fn interval(&self, probability: f64) -> Option<(f64, f64)> {
        let error = self.error?;
        let half = error.log * student::quantile(0.5 + 0.5 * probability, error.freedom);
        Some((self.log - half, self.log + half))
    }

    pub fn verdict(&self, probability: f64) -> RunVerdict {
        if self.log.abs() < SAME {
            return RunVerdict::NoDifference;
        }
        match self.interval(probability) {
            None => RunVerdict::Unknown,
            Some((low, _)) if low > 0.0 => RunVerdict::Better,
            Some((_, high)) if high < 0.0 => RunVerdict::Worse,
            Some(_) => RunVerdict::NoDifference,
        }
    }

    /// Whether what was measured in the second session is worse by more than `least` (a logarithm
    /// above 0) if sessions without any change differ by `spread`; wrongly with at most this
    /// probability.
    pub fn is_surely_worse_by(
        &self,
        least: f64,
        spread: SessionSpread,
        error_probability: f64,
    ) -> bool {
        let error = spread.widened(self).filter(|_| self.log.abs() >= SAME);
        let Some(error) = error else { return false };
        let half = error.log * student::quantile(1.0 - error_probability, error.freedom);
        self.log + half < -least
    }
}

/// The difference of `b` from `a` over the common cells that are `chosen`; `None` if there are
/// none. `weight` is that of a workload.
pub fn difference(
    a: &RunCells,
    b: &RunCells,
    chosen: impl Fn(&ComparedCell) -> bool,
    weight: impl Fn(&str) -> f64,
) -> Option<RunDifference> {
    let common: Vec<&ComparedCell> =
        a.keys().filter(|key| b.contains_key(*key) && chosen(key)).collect();
    let plan = Weights::of(a, b, &common, weight)?;
    let value = |key: &ComparedCell| mean(&b[key]) - mean(&a[key]);
    let log = plan.by_cell.iter().map(|(key, share)| share * value(key)).sum();
    let within = within(a, b, &plan);
    let between = between(a, b, &plan);
    let error = match (within, between) {
        (Some(within), Some(between)) if between.freedom > within.freedom => Some(between),
        (within, between) => within.or(between),
    };
    let count = |cells: &RunCells| common.iter().map(|key| cells[*key].len()).sum();
    let rounds = |cells: &RunCells| {
        let all = common.iter().flat_map(|key| &cells[*key]).map(|sample| sample.round);
        all.collect::<std::collections::BTreeSet<_>>().len()
    };
    let setups: std::collections::BTreeSet<&Setup> = common.iter().map(|key| &key.setup).collect();
    Some(RunDifference {
        log,
        error,
        trials: [count(a), count(b)],
        rounds: [rounds(a), rounds(b)],
        setups: setups.len(),
    })
}

/// The share of each common cell in a difference; they add up to 1.
struct Weights<'a> {
    by_cell: Vec<(&'a ComparedCell, f64)>,
    /// By workload: its share, and the sum of its cells' precisions.
    by_workload: BTreeMap<&'a str, (f64, f64)>,
}

impl<'a> Weights<'a> {
    fn of(
        a: &RunCells,
        b: &RunCells,
        common: &[&'a ComparedCell],
        weight: impl Fn(&str) -> f64,
    ) -> Option<Self> {
        let mut by_workload: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for key in common {
            let entry = by_workload.entry(&key.workload).or_insert((weight(&key.workload), 0.0));
            entry.1 += precision(a, b, key);
        }
        let total: f64 = by_workload.values().map(|(share, _)| share).sum();
        if common.is_empty() || total <= 0.0 {
            return None;
        }
        by_workload.values_mut().for_each(|(share, _)| *share /= total);
        let share = |key: &ComparedCell| {
            let (share, sum) = by_workload[key.workload.as_str()];
            share * precision(a, b, key) / sum
        };
        let by_cell = common.iter().map(|key| (*key, share(key))).collect();
        Some(Self { by_cell, by_workload })
    }
}

/// The inverse of the variance of a cell's difference, in units of the noise.
fn precision(a: &RunCells, b: &RunCells, key: &ComparedCell) -> f64 {
    let (n, m) = (a[key].len() as f64, b[key].len() as f64);
    n * m / (n + m)
}

fn mean(samples: &[CellSample]) -> f64 {
    samples.iter().map(|sample| sample.log).sum::<f64>() / samples.len() as f64
}

fn squares(samples: &[CellSample]) -> f64 {
    let mean = mean(samples);
    samples.iter().map(|sample| (sample.log - mean).powi(2)).sum()
}

/// From repeats; `None` if a cell has no estimate of its noise.
fn within(a: &RunCells, b: &RunCells, plan: &Weights<'_>) -> Option<StandardError> {
    let (mut variance, mut welch) = (0.0, 0.0);
    let mut freedom = 0.0;
    for cells in [a, b] {
        let mut sources: BTreeMap<(&str, bool, Option<&ComparedCell>), f64> = BTreeMap::new();
        for (key, share) in &plan.by_cell {
            let own = Some(*key).filter(|key| cells[*key].len() >= OWN_NOISE_TRIALS);
            let source = sources.entry((&key.workload, key.is_short, own)).or_default();
            *source += share * share / cells[*key].len() as f64;
        }
        let design_effect = design_effect(cells, plan);
        for ((workload, is_short, own), factor) in sources {
            let of_source = |key: &&ComparedCell| match own {
                Some(own) => *key == own,
                // Short trials are noisier.
                None => key.workload == workload && key.is_short == is_short,
            };
            let keys: Vec<&ComparedCell> = cells.keys().filter(of_source).collect();
            let free: usize = keys.iter().map(|key| cells[*key].len() - 1).sum();
            if free == 0 {
                return None;
            }
            let noise = keys.iter().map(|key| squares(&cells[*key])).sum::<f64>() / free as f64;
            let part = noise * factor * design_effect;
            variance += part;
            welch += part * part / free as f64;
            freedom += free as f64;
        }
    }
    let freedom = if welch > 0.0 { variance * variance / welch } else { freedom };
    Some(StandardError { log: variance.sqrt(), freedom, is_between_setups: false })
}

/// By how much the variance of one run's share in the difference is larger because trials of a
/// round move together; at least 1.
fn design_effect(cells: &RunCells, plan: &Weights<'_>) -> f64 {
    let mut rounds: BTreeMap<Round, f64> = BTreeMap::new();
    let mut alone = 0.0;
    for (key, share) in &plan.by_cell {
        let samples = &cells[*key];
        let (mean, factor) = (mean(samples), share / samples.len() as f64);
        for sample in samples {
            let part = factor * (sample.log - mean);
            *rounds.entry(sample.round).or_default() += part;
            alone += part * part;
        }
    }
    let together: f64 = rounds.values().map(|sum| sum * sum).sum();
    if alone > 0.0 { (together / alone).max(1.0) } else { 1.0 }
}

/// From the scatter of the cells' differences; `None` without several cells of a workload.
fn between(a: &RunCells, b: &RunCells, plan: &Weights<'_>) -> Option<StandardError> {
    let value = |key: &ComparedCell| mean(&b[key]) - mean(&a[key]);
    let mut middles: BTreeMap<&str, f64> = BTreeMap::new();
    for (key, _) in &plan.by_cell {
        let sum = plan.by_workload[key.workload.as_str()].1;
        *middles.entry(&key.workload).or_default() += precision(a, b, key) * value(key) / sum;
    }
    let free = plan.by_cell.len() - middles.len();
    if free == 0 {
        return None;
    }
    let scatter = |key: &ComparedCell| {
        precision(a, b, key) * (value(key) - middles[key.workload.as_str()]).powi(2)
    };
    let noise = plan.by_cell.iter().map(|(key, _)| scatter(key)).sum::<f64>() / free as f64;
    let variance: f64 =
        plan.by_workload.values().map(|(share, sum)| share * share * noise / sum).sum();
    let freedom = free as f64;
    Some(StandardError { log: variance.sqrt(), freedom, is_between_setups: true })
}

#[cfg(test)]
mod tests;
