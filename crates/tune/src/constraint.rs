//! Setups that significantly violate the user's constraint.
//!
//! Each trial yields the violation by its slowest writes, as a logarithm. Its noise is pooled over
//! all repeats of a setup under a workload. A setup is excluded if its mean violation under some
//! workload is above 0 by more than `SURE` standard errors, so a single slightly slow trial does
//! not exclude it. Limit: before there are repeats, the noise is a guess.

use std::collections::BTreeMap;

use flashfit_search::{CandidateIndex, Observation, SearchSpace, TrialOutcome};

/// Standard errors of a significant violation: one-sided, 95 %.
const SURE: f64 = 1.645;
/// Assumed standard deviation of the logarithm of a 99th percentile before there are repeats.
const GUESSED_SD: f64 = 0.3;
/// Weight of the guess, in repeats.
const GUESS_COUNT: f64 = 4.0;

/// The violation of each excluded candidate, as a logarithm.
pub fn broken(history: &[Observation]) -> BTreeMap<CandidateIndex, f64> {
    let mut cells: BTreeMap<(CandidateIndex, usize), Vec<f64>> = BTreeMap::new();
    for observation in history {
        if let TrialOutcome::Measured { excess: Some(excess), .. } = observation.outcome {
            cells
                .entry((observation.proposal.candidate, observation.proposal.workload))
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

/// The space in which candidates that violate the constraint are not allowed.
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

    fn observation(candidate: usize, excess: Option<f64>) -> Observation {
        let batch = Batch { number: 0, size: 1 };
        let (length, purpose) = (TrialLength::Full, Purpose::Search);
        let proposal = Proposal { candidate, workload: 0, length, purpose, repeat: 0, batch };
        Observation {
            proposal,
            visit: 0,
            outcome: TrialOutcome::Measured { log_merit: 0.0, excess },
        }
    }

    #[test]
    fn large_violations_exclude_a_setup_and_small_ones_do_not() {
        let history = [
            observation(0, Some(1.5)),
            observation(1, Some(0.1)),
            observation(2, Some(-1.0)),
            observation(3, None),
        ];
        assert_eq!(broken(&history).into_keys().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn repeated_small_violations_exclude_a_setup() {
        let again = [0.1, 0.12, 0.09, 0.11].map(|excess| observation(1, Some(excess)));
        let calm: Vec<Observation> =
            (0..40).map(|at| observation(2, Some(-1.0 + f64::from(at % 2) / 50.0))).collect();
        let history = [&again[..], &calm].concat();
        assert_eq!(broken(&history).into_keys().collect::<Vec<_>>(), [1]);
    }
}
