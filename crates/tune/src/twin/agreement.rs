//! Whether a twin ranks setups as the device does, from the setups that both measured.
//!
//! The finalists are the setups with confirming trials on the device. A pair of them counts if they
//! differ by more than the goal of the run; closer ones are tied. Limit: only what was measured in
//! full length on both is compared, and few setups say little about a rank correlation.

use std::collections::BTreeMap;

use flashfit_filesystem::Setup;
use flashfit_run_format::{Likeness, RunPrior};
use flashfit_search::TrialOutcome;

use crate::objective::Objective;
use crate::record::{TrialPurpose, TrialRecord};
use crate::spec::RunSpec;

const MILLION: f64 = 1e6;
/// The fewest setups of which a rank correlation is stated.
const LEAST_SETUPS: usize = 4;
/// A workload on which the twin does not rank has a correlation below this.
const LEAST_CORRELATION: f64 = 0.5;

/// How a twin's trials compare with those of the device.
#[derive(Debug, Clone, PartialEq)]
pub struct TwinAgreement {
    /// Setups that both measured under all workloads, on the device in confirming trials.
    pub finalists: usize,
    /// Pairs of finalists that differ on the device, and those of them that the twin ranks alike.
    pub pairs: usize,
    pub agreeing_pairs: usize,
    /// By workload, those with enough setups.
    pub workloads: Vec<WorkloadAgreement>,
}

/// The rank correlation of a twin and the device under a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadAgreement {
    pub workload: String,
    /// Setups that both measured.
    pub setups: usize,
    /// Spearman's.
    pub rank_correlation: f64,
}

impl WorkloadAgreement {
    /// Whether the twin ranks setups under this workload as the device does.
    pub fn ranks(&self) -> bool {
        self.rank_correlation >= LEAST_CORRELATION
    }
}

/// The mean logarithm of each setup under each workload.
type Means = BTreeMap<(Setup, String), f64>;

impl TwinAgreement {
    /// `None` if the run has no twin.
    pub fn of(prior: &RunPrior, spec: &RunSpec, trials: &[TrialRecord]) -> Option<Self> {
        if !prior.is_of_twin() {
            return None;
        }
        let (twin, device) = (of_prior(prior), of_trials(trials, spec, |_| true));
        let confirmed = of_trials(trials, spec, |trial| trial.key.purpose == TrialPurpose::Confirm);
        let mut workloads = Vec::new();
        for workload in &spec.workloads {
            let both: Vec<(f64, f64)> = device
                .iter()
                .filter(|((_, of), _)| of == workload)
                .filter_map(|(key, mean)| Some((*twin.get(key)?, *mean)))
                .collect();
            if let (true, Some(rank_correlation)) = (both.len() >= LEAST_SETUPS, spearman(&both)) {
                let (workload, setups) = (workload.clone(), both.len());
                workloads.push(WorkloadAgreement { workload, setups, rank_correlation });
            }
        }
        let within = (f64::from(spec.limits.within_hundredths) / 10_000.0).ln_1p();
        let finalists = scores(&confirmed, &twin, spec);
        let (mut pairs, mut agreeing_pairs) = (0, 0);
        for (at, (of_twin, of_device)) in finalists.iter().enumerate() {
            for (other_twin, other_device) in &finalists[..at] {
                let difference = of_device - other_device;
                if difference.abs() > within {
                    pairs += 1;
                    agreeing_pairs += usize::from(difference * (of_twin - other_twin) > 0.0);
                }
            }
        }
        Some(Self { finalists: finalists.len(), pairs, agreeing_pairs, workloads })
    }

    /// The workloads on which the twin does not rank.
    pub fn unranked(&self) -> impl Iterator<Item = &WorkloadAgreement> {
        self.workloads.iter().filter(|workload| !workload.ranks())
    }

    /// Whether all pairs of finalists that differ are ranked alike.
    pub fn holds(&self) -> bool {
        self.pairs == self.agreeing_pairs
    }
}

fn of_prior(prior: &RunPrior) -> Means {
    let twins = prior.sources.iter().filter(|source| source.likeness == Likeness::Twin);
    let results = twins.flat_map(|source| &source.results).filter(|found| found.length.is_full());
    let mean = |log: i64| log as f64 / MILLION;
    results
        .map(|found| {
            ((found.setup.clone(), found.workload.clone()), mean(found.log_merit_millionths))
        })
        .collect()
}

fn of_trials(
    trials: &[TrialRecord],
    spec: &RunSpec,
    counts: impl Fn(&TrialRecord) -> bool,
) -> Means {
    let objective = Objective::of(spec);
    let mut sums: BTreeMap<(Setup, String), (f64, f64)> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.key.length.is_full() && counts(trial)) {
        if let TrialOutcome::Measured { log_merit, .. } = objective.outcome(trial) {
            let key = (trial.key.setup.clone(), trial.key.workload.clone());
            let sum = sums.entry(key).or_default();
            *sum = (sum.0 + log_merit, sum.1 + 1.0);
        }
    }
    sums.into_iter().map(|(key, (sum, count))| (key, sum / count)).collect()
}

/// The scores on the twin and on the device of the setups that both measured under all workloads.
fn scores(device: &Means, twin: &Means, spec: &RunSpec) -> Vec<(f64, f64)> {
    let mut setups: Vec<&Setup> = device.keys().map(|(setup, _)| setup).collect();
    setups.dedup();
    let total: f64 = spec.workloads.iter().map(|workload| spec.weight(workload)).sum();
    let score = |of: &Means, setup: &Setup| -> Option<f64> {
        let weighted = |workload: &String| {
            Some(spec.weight(workload) * of.get(&(setup.clone(), workload.clone()))?)
        };
        let sum: Option<f64> = spec.workloads.iter().map(weighted).sum();
        Some(sum? / total)
    };
    setups.iter().filter_map(|setup| Some((score(twin, setup)?, score(device, setup)?))).collect()
}

/// The rank correlation of pairs; `None` if one side does not differ.
fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let first = ranks(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>());
    let second = ranks(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>());
    let middle = (pairs.len() as f64 - 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - middle) * (b - middle)).sum()
    };
    let spread = (product(&first, &first) * product(&second, &second)).sqrt();
    (spread > 0.0).then(|| product(&first, &second) / spread)
}

/// Ranks from 0, equal values with their mean rank.
fn ranks(values: &[f64]) -> Vec<f64> {
    let below = |value: f64| values.iter().filter(|other| **other < value).count() as f64;
    let equal = |value: f64| values.iter().filter(|other| **other == value).count() as f64;
    values.iter().map(|value| below(*value) + (equal(*value) - 1.0) / 2.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_correlation_ignores_levels_and_shares_ranks() {
        let close = |pairs: &[(f64, f64)], wanted: f64| {
            let found = spearman(pairs).expect("both differ");
            assert!((found - wanted).abs() < 1e-9, "{found}");
        };
        close(&[(1.0, 10.0), (2.0, 200.0), (3.0, 3000.0)], 1.0);
        close(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)], -1.0);
        close(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0)], 0.5);
        assert_eq!(spearman(&[(1.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), [1.5, 0.0, 1.5]);
    }
}
