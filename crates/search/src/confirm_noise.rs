//! The noise of confirming trials: a two-way fit of each workload by candidate and round with
//! outliers pulled in, and the effect that all trials of a candidate in a round share.
//!
//! Where rounds start in different kinds of states, what a state changes in the comparison is not
//! an outlier: trials are pulled in only towards others of the same candidate that started alike.
//!
//! Source of the estimator and its variance: P. Huber, Robust Statistics, 1981, sections 7.6 and
//! 7.8 (pseudo-values).

use std::collections::BTreeMap;

use flashfit_numbers::median;

use crate::confirm_states::{Cells, Starts};
use crate::space::CandidateIndex;

/// Residuals beyond this many standard deviations are pulled in.
const CLIP: f64 = 2.0;
/// The median absolute value of a standard normal variable.
const MEDIAN_SIZE: f64 = 0.6745;
const ITERATIONS: usize = 12;
/// The most degrees of freedom that repeats in the search count for: they were made at other times.
const MAX_PRIOR_FREEDOM: f64 = 6.0;
/// The least standard deviation of a trial.
const MIN_SD: f64 = 0.001;
/// The expected variance of the effect shared by a visit, and its weight in pairs of workloads.
const SHARED_PRIOR: f64 = 0.01 * 0.01;
const SHARED_PRIOR_PAIRS: f64 = 20.0;

type Rounds = BTreeMap<CandidateIndex, BTreeMap<u32, f64>>;

/// The variance of a trial, and the degrees of freedom of this estimate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WorkloadNoise {
    pub variance: f64,
    pub freedom: f64,
}

/// The fit of one workload.
#[derive(Debug, Clone, Default)]
pub struct WorkloadFit {
    /// The trials with outliers pulled in.
    pub values: Rounds,
    pub residuals: Rounds,
    /// Of a comparison, with what the starting state changes in it.
    pub noise: WorkloadNoise,
    /// Of trials that started alike.
    pub within: WorkloadNoise,
}

/// The noise from repeats of the same kind, such as those of a candidate.
pub fn of_repeats<K>(trials: &BTreeMap<K, BTreeMap<u32, f64>>) -> WorkloadNoise {
    let repeated = trials.values().filter(|repeats| repeats.len() > 1);
    let groups: Vec<Vec<f64>> =
        repeated.map(|repeats| repeats.values().copied().collect()).collect();
    let freedom = groups.iter().map(|group| group.len() - 1).sum::<usize>() as f64;
    let unknown = WorkloadNoise::default();
    if groups.is_empty() {
        return unknown;
    }
    let mut centers: Vec<f64> = groups.iter().filter_map(|group| median(group)).collect();
    let mut residuals = Vec::new();
    // From the medians towards the means with outliers pulled in: squares around medians are more
    // than the degrees of freedom account for.
    for _ in 0..ITERATIONS {
        let apart = groups.iter().zip(&centers);
        residuals = apart
            .flat_map(|(group, center)| group.iter().map(move |value| value - center))
            .collect();
        let limit = CLIP * scale(&residuals, freedom, unknown);
        for (group, center) in groups.iter().zip(&mut centers) {
            let pulled = group.iter().map(|value| (value - *center).clamp(-limit, limit));
            *center += pulled.sum::<f64>() / group.len() as f64;
        }
    }
    noise_of(&mut residuals, freedom, unknown)
}

/// The noise from residuals, combined with what is known from elsewhere.
pub(crate) fn noise_of(residuals: &mut [f64], freedom: f64, prior: WorkloadNoise) -> WorkloadNoise {
    if freedom < 0.5 {
        return prior;
    }
    let limit = CLIP * scale(residuals, freedom, prior);
    let clipped: f64 = residuals.iter().map(|value| value.clamp(-limit, limit).powi(2)).sum();
    let inside = residuals.iter().filter(|value| value.abs() < limit).count();
    let share = (inside as f64 / residuals.len() as f64).max(0.5);
    // The sum of squares has as many terms as there are residuals, of which some are redundant.
    let own = clipped / freedom / share.powi(2);
    let before = prior.freedom.min(MAX_PRIOR_FREEDOM);
    let variance = before.mul_add(prior.variance, freedom * own) / (before + freedom);
    WorkloadNoise { variance: variance.max(MIN_SD * MIN_SD), freedom: before + freedom }
}

/// A robust standard deviation of residuals.
fn scale(residuals: &[f64], freedom: f64, prior: WorkloadNoise) -> f64 {
    let sizes: Vec<f64> = residuals.iter().map(|value| value.abs()).collect();
    let widen = (residuals.len() as f64 / freedom).max(1.0);
    let own = (median(&sizes).unwrap_or(0.0) / MEDIAN_SIZE).powi(2) * widen;
    let before = prior.freedom.min(MAX_PRIOR_FREEDOM);
    let both = before.mul_add(prior.variance, freedom * own) / (before + freedom);
    both.sqrt().max(MIN_SD)
}

/// Fits candidates and rounds; `prior` is the noise known from elsewhere, of trials that started
/// alike.
pub fn fit(rounds: &Rounds, starts: &Starts, prior: WorkloadNoise) -> WorkloadFit {
    // Only rounds with two candidates say anything about noise and differences.
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for round in rounds.values().flat_map(BTreeMap::keys) {
        *counts.entry(*round).or_default() += 1;
    }
    let trials: Vec<(CandidateIndex, u32, f64)> = rounds
        .iter()
        .flat_map(|(candidate, of)| of.iter().map(|(round, value)| (*candidate, *round, *value)))
        .filter(|(_, round, _)| counts[round] > 1)
        .collect();
    let mut candidates: BTreeMap<CandidateIndex, f64> = BTreeMap::new();
    let mut effects: BTreeMap<u32, f64> = BTreeMap::new();
    for (candidate, round, _) in &trials {
        candidates.insert(*candidate, 0.0);
        effects.insert(*round, 0.0);
    }
    let freedom = (trials.len() + 1).saturating_sub(candidates.len() + effects.len()) as f64;
    let mut values: Vec<f64> = trials.iter().map(|(.., value)| *value).collect();
    let mut residuals = vec![0.0; trials.len()];
    let mut pulled = residuals.clone();
    let cells = Cells::of(&trials, starts);
    for _ in 0..ITERATIONS {
        for _ in 0..ITERATIONS {
            fit_means(
                &trials,
                &values,
                |trial| trial.0,
                |trial| effects[&trial.1],
                &mut candidates,
            );
            fit_means(
                &trials,
                &values,
                |trial| trial.1,
                |trial| candidates[&trial.0],
                &mut effects,
            );
        }
        for ((candidate, round, value), residual) in trials.iter().zip(&mut residuals) {
            *residual = value - candidates[candidate] - effects[round];
        }
        let centers = cells.centers(&residuals);
        let apart: Vec<f64> = residuals.iter().zip(&centers).map(|(r, c)| r - c).collect();
        let limit = CLIP * scale(&apart, cells.freedom(freedom), prior);
        for ((apart, center), pulled) in apart.iter().zip(&centers).zip(&mut pulled) {
            *pulled = center + apart.clamp(-limit, limit);
        }
        for (((candidate, round, _), pulled), value) in trials.iter().zip(&pulled).zip(&mut values)
        {
            *value = candidates[candidate] + effects[round] + pulled;
        }
    }
    let mut fit = WorkloadFit { values: rounds.clone(), ..WorkloadFit::default() };
    (fit.noise, fit.within) = cells.noise(&residuals, &pulled, freedom, prior);
    for (((candidate, round, _), residual), value) in trials.iter().zip(&residuals).zip(&values) {
        fit.values.entry(*candidate).or_default().insert(*round, *value);
        let limit = CLIP * fit.noise.variance.sqrt();
        let clipped = residual.clamp(-limit, limit);
        fit.residuals.entry(*candidate).or_default().insert(*round, clipped);
    }
    fit
}

/// Sets each effect to the mean of its trials without their other effect.
fn fit_means<K: Ord + Copy>(
    trials: &[(CandidateIndex, u32, f64)],
    values: &[f64],
    key: impl Fn(&(CandidateIndex, u32, f64)) -> K,
    other: impl Fn(&(CandidateIndex, u32, f64)) -> f64,
    effects: &mut BTreeMap<K, f64>,
) {
    let mut sums: BTreeMap<K, (f64, f64)> = BTreeMap::new();
    for (trial, value) in trials.iter().zip(values) {
        let sum = sums.entry(key(trial)).or_default();
        sum.0 += value - other(trial);
        sum.1 += 1.0;
    }
    for (key, (sum, count)) in sums {
        effects.insert(key, sum / count);
    }
}

/// The variance of the effect shared by all trials of a candidate in a round, from the residuals of
/// pairs of workloads.
pub fn shared_variance(residuals: &[Rounds]) -> f64 {
    let (mut products, mut pairs) = (0.0, 0.0);
    for (at, one) in residuals.iter().enumerate() {
        for other in &residuals[at + 1..] {
            for (candidate, rounds) in one {
                let Some(others) = other.get(candidate) else { continue };
                let both = rounds.iter().filter_map(|(r, value)| Some(value * others.get(r)?));
                // Means over candidates and rounds were taken out of the residuals.
                let left = 1.0 - 1.0 / rounds.len().max(1) as f64;
                let of_candidates = 1.0 - 1.0 / one.len().max(1) as f64;
                for product in both {
                    products += product;
                    pairs += left * of_candidates;
                }
            }
        }
    }
    (SHARED_PRIOR_PAIRS.mul_add(SHARED_PRIOR, products) / (SHARED_PRIOR_PAIRS + pairs)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::RandomStream;

    fn rounds(shared: &[Vec<f64>], sd: f64, random: &mut RandomStream) -> Rounds {
        let of = |effects: &Vec<f64>| {
            (0..).zip(effects).map(|(r, e)| (r, sd.mul_add(random.normal(), *e))).collect()
        };
        (0..).zip(shared.iter().map(of)).collect()
    }

    #[test]
    fn repeats_give_the_noise_however_many_there_are_of_each_setup() {
        for count in [2, 3, 4, 8] {
            let mut random = RandomStream::new(7);
            let trials = rounds(&vec![vec![0.0; count]; 1000 / count], 0.05, &mut random);
            let found = of_repeats(&trials).variance.sqrt();
            assert!((0.046..0.054).contains(&found), "{count}: {found}");
        }
    }

    #[test]
    fn the_noise_of_a_workload_is_found_despite_stalls() {
        let mut random = RandomStream::new(2);
        let mut trials = rounds(&vec![vec![0.0; 10]; 5], 0.05, &mut random);
        let clean = fit(&trials, &Starts::new(), WorkloadNoise::default()).noise;
        assert!((0.04..0.06).contains(&clean.variance.sqrt()), "{clean:?}");
        assert!((clean.freedom - 36.0).abs() < 1e-9);
        for (candidate, round) in [(0, 3), (3, 1)] {
            trials.entry(candidate).or_default().insert(round, -0.8);
        }
        let stalled = fit(&trials, &Starts::new(), WorkloadNoise::default()).noise;
        assert!(stalled.variance.sqrt() < 0.08, "{stalled:?}");
    }

    #[test]
    fn an_effect_shared_by_workloads_is_found_if_and_only_if_there_is_one() {
        let mut random = RandomStream::new(3);
        let mut found = |sd: f64| {
            let shared: Vec<Vec<f64>> =
                (0..6).map(|_| (0..12).map(|_| sd * random.normal()).collect()).collect();
            let residuals: Vec<Rounds> = (0..8)
                .map(|_| rounds(&shared, 0.05, &mut random))
                .map(|trials| fit(&trials, &Starts::new(), WorkloadNoise::default()))
                .map(|fit| fit.residuals)
                .collect();
            shared_variance(&residuals).sqrt()
        };
        assert!(found(0.0) < 0.012);
        let strong = found(0.04);
        assert!((0.03..0.05).contains(&strong), "{strong}");
    }
}
