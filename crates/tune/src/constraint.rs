//! Setups that break the user's demand beyond noise.
//!
//! A trial tells by how much its slowest writes break the demand, as a logarithm. The noise of that
//! is pooled over all repeats of one setup under one workload. A setup is out when its mean under
//! some workload lies above the demand by more than `SURE` of its standard errors; a single trial
//! that is a little too slow is none. Limit: before there are repeats the noise is guessed.

use std::collections::BTreeMap;

use flashfit_search::{CandidateIndex, Observation, SearchSpace, TrialOutcome};

/// How many standard errors are beyond noise: 19 times of 20, one-sided.
const SURE: f64 = 1.645;
/// The standard deviation of a 99th percentile's logarithm where nothing was repeated yet.
const GUESSED_SD: f64 = 0.3;
/// Repeats that the guess counts as.
const GUESS_COUNT: f64 = 4.0;

/// By how much each candidate that is out breaks the demand, as a logarithm.
pub fn broken(history: &[Observation]) -> BTreeMap<CandidateIndex, f64> {
    let mut cells: BTreeMap<(CandidateIndex, usize), Vec<f64>> = BTreeMap::new();
    for told in history {
        if let TrialOutcome::Measured { excess: Some(excess), .. } = told.outcome {
            cells
                .entry((told.proposal.candidate, told.proposal.workload))
                .or_default()
                .push(excess);
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let mut squares = GUESSED_SD * GUESSED_SD * GUESS_COUNT;
    let mut freedom = GUESS_COUNT;
    for values in cells.values() {
        let middle = mean(values);
        squares += values.iter().map(|value| (value - middle).powi(2)).sum::<f64>();
        freedom += values.len() as f64 - 1.0;
    }
    let sd = (squares / freedom).sqrt();
    let mut broken: BTreeMap<CandidateIndex, f64> = BTreeMap::new();
    for ((candidate, _), values) in &cells {
        let excess = mean(values);
        if excess > SURE * sd / (values.len() as f64).sqrt() {
            let known = broken.entry(*candidate).or_insert(excess);
            *known = known.max(excess);
        }
    }
    broken
}

/// The space in which those that break the demand may not be chosen.
pub fn without_broken(space: &SearchSpace, history: &[Observation]) -> SearchSpace {
    let mut space = space.clone();
    for candidate in broken(history).into_keys() {
        space.candidates[candidate].allowed = false;
    }
    space
}

#[cfg(test)]
mod tests {
    use flashfit_search::{Batch, Proposal, Purpose, TrialLength};

    use super::*;

    fn told(candidate: usize, excess: Option<f64>) -> Observation {
        let batch = Batch { number: 0, size: 1 };
        let (length, purpose) = (TrialLength::Full, Purpose::Search);
        let ask = Proposal { candidate, workload: 0, length, purpose, repeat: 0, batch };
        Observation {
            proposal: ask,
            visit: 0,
            outcome: TrialOutcome::Measured { log_merit: 0.0, excess },
        }
    }

    #[test]
    fn one_that_is_far_too_slow_is_out_and_one_that_is_a_little_is_not() {
        let history = [told(0, Some(1.5)), told(1, Some(0.1)), told(2, Some(-1.0)), told(3, None)];
        assert_eq!(broken(&history).into_keys().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn what_is_too_slow_again_and_again_is_out() {
        let again = [0.1, 0.12, 0.09, 0.11].map(|excess| told(1, Some(excess)));
        let calm: Vec<Observation> =
            (0..40).map(|at| told(2, Some(-1.0 + f64::from(at % 2) / 50.0))).collect();
        let history = [&again[..], &calm].concat();
        assert_eq!(broken(&history).into_keys().collect::<Vec<_>>(), [1]);
    }
}
