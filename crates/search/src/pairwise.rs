//! Two candidates compared with each other, with confidence intervals.
//!
//! In confirming trials, the differences are those within rounds, as for gains
//! ([`ConfirmingTrials`]). Here both ends of an interval allow for the choice among the finalists,
//! so that exchanging the two candidates exchanges the signs and nothing else.
//!
//! Candidates without common rounds are compared by all their full-length trials. Limits: these
//! trials are not paired, so a drift of the device and different starting states count as noise,
//! and a candidate that the search tried often because it looked good keeps its luck.

use std::collections::BTreeMap;

use crate::confirm::{ConfirmingTrials, MIN_ROUNDS};
use crate::confirm_noise::{self, WorkloadNoise};
use crate::history::{Observation, TrialLength};
use crate::space::{CandidateIndex, SearchSpace, WorkloadIndex};
use crate::student;

/// The probability of each end of an interval to miss the true value.
const MISS: f64 = 0.025;

/// The merit of one candidate minus that of another, in natural logarithm (0.05 is 5 %).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    pub mean: f64,
    /// The 95 % interval of the mean; `None` without an estimate of the noise.
    pub interval: Option<(f64, f64)>,
    /// Where one more comparison from any starting state lies in 95 of 100 cases, if that is
    /// known.
    pub seen: Option<(f64, f64)>,
    /// The probability that the first one is better, 0 to 1; `None` without an interval. It does
    /// not allow for a choice among finalists.
    pub better_probability: Option<f64>,
    /// Rounds with both, or the trials of the candidate with fewer of them.
    pub count: usize,
}

/// What a difference shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DifferenceVerdict {
    Better,
    Worse,
    /// The interval contains 0.
    Tied,
    /// Fewer than [`MIN_ROUNDS`] rounds, or no estimate of the noise.
    TooFew,
}

impl Difference {
    /// What it shows, if it comes from confirming rounds.
    pub fn verdict(&self) -> DifferenceVerdict {
        match self.interval {
            Some(_) if self.count < MIN_ROUNDS => DifferenceVerdict::TooFew,
            Some((low, _)) if low > 0.0 => DifferenceVerdict::Better,
            Some((_, high)) if high < 0.0 => DifferenceVerdict::Worse,
            Some(_) => DifferenceVerdict::Tied,
            None => DifferenceVerdict::TooFew,
        }
    }
}

impl ConfirmingTrials {
    /// The difference within rounds under one workload, or under all of them by weight; `None`
    /// unless both were measured in the same rounds. `finalists` is as for
    /// [`Self::gain_among`].
    pub fn difference(
        &self,
        (one, other): (CandidateIndex, CandidateIndex),
        workload: Option<WorkloadIndex>,
        finalists: usize,
    ) -> Option<Difference> {
        let workloads = workload.map_or_else(|| self.workloads(), |workload| vec![workload]);
        let gain = |one, other| match workload {
            Some(workload) => self.gain_under(one, other, workload, finalists),
            None => self.gain_among(one, other, finalists),
        };
        let (gain, loss) = (gain(one, other)?, gain(other, one)?);
        let paired = self.paired_mean(one, other, &workloads)?;
        let both = |ours: Option<(f64, f64)>, theirs: Option<(f64, f64)>| {
            let ((low, _), (other_low, _)) = ours.zip(theirs)?;
            Some((low, -other_low))
        };
        Some(Difference {
            mean: gain.mean,
            interval: both(gain.interval, loss.interval),
            seen: both(gain.seen, loss.seen),
            better_probability: above_zero(paired.mean, paired.variance, paired.freedom),
            count: gain.rounds,
        })
    }
}

/// All full-length trials by candidate and workload.
#[derive(Debug, Clone)]
pub struct SearchTrials {
    weights: Vec<f64>,
    by_workload: Vec<BTreeMap<CandidateIndex, BTreeMap<u32, f64>>>,
    noise: Vec<WorkloadNoise>,
}

impl SearchTrials {
    pub fn of(space: &SearchSpace, history: &[Observation]) -> Self {
        let mut by_workload = vec![BTreeMap::new(); space.workloads.len()];
        for (at, observation) in (0..).zip(history) {
            let proposal = &observation.proposal;
            let full = proposal.length == TrialLength::Full;
            if let Some(log_merit) = observation.log_merit().filter(|_| full) {
                let trials: &mut BTreeMap<u32, f64> =
                    by_workload[proposal.workload].entry(proposal.candidate).or_default();
                trials.insert(at, log_merit);
            }
        }
        let noise = by_workload.iter().map(confirm_noise::of_repeats).collect();
        Self { weights: space.weights(), by_workload, noise }
    }

    /// The difference of the means under one workload, or under all of them by weight; `None`
    /// unless both were measured under each.
    pub fn difference(
        &self,
        (one, other): (CandidateIndex, CandidateIndex),
        workload: Option<WorkloadIndex>,
    ) -> Option<Difference> {
        let workloads: Vec<WorkloadIndex> = match workload {
            Some(workload) => vec![workload],
            None => (0..self.weights.len()).collect(),
        };
        let total: f64 = workloads.iter().map(|&workload| self.weights[workload]).sum();
        let (mut mean, mut variance, mut per_freedom) = (0.0, 0.0, 0.0);
        let mut count = usize::MAX;
        let mut has_noise = true;
        for &workload in &workloads {
            let trials = &self.by_workload[workload];
            let (ones, others) = trials.get(&one).zip(trials.get(&other))?;
            let (of_one, of_other) = (ones.len() as f64, others.len() as f64);
            let weight = self.weights[workload] / total;
            let noise = self.noise[workload];
            mean += weight * (ones.values().sum::<f64>() / of_one);
            mean -= weight * (others.values().sum::<f64>() / of_other);
            let part = weight.powi(2) * noise.variance * (1.0 / of_one + 1.0 / of_other);
            variance += part;
            per_freedom += part.powi(2) / noise.freedom.max(1.0);
            has_noise &= noise.freedom > 0.0;
            count = count.min(ones.len()).min(others.len());
        }
        let freedom = match has_noise && per_freedom > 0.0 {
            true => variance.powi(2) / per_freedom,
            false => 0.0,
        };
        let interval = (freedom > 0.0).then(|| {
            let half = student::quantile(1.0 - MISS, freedom) * variance.sqrt();
            (mean - half, mean + half)
        });
        let better_probability = above_zero(mean, variance, freedom);
        Some(Difference { mean, interval, seen: None, better_probability, count })
    }
}

/// The probability that a mean with this variance is above 0; `None` without degrees of freedom.
fn above_zero(mean: f64, variance: f64, freedom: f64) -> Option<f64> {
    (freedom > 0.0 && variance > 0.0).then(|| student::below(mean / variance.sqrt(), freedom))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Batch, Proposal, Purpose, TrialOutcome};
    use crate::landscape::LandscapeKind;

    fn observation(purpose: Purpose, candidate: usize, repeat: u32, log_merit: f64) -> Observation {
        let batch = Batch { number: repeat, size: 3 };
        let length = TrialLength::Full;
        let proposal = Proposal { candidate, workload: 0, length, purpose, repeat, batch };
        let outcome = TrialOutcome::Measured { log_merit, excess: None };
        Observation { proposal, visit: 0, start: 0, outcome }
    }

    fn space() -> SearchSpace {
        let mut space = LandscapeKind::Tiny.make(1).space;
        space.workloads.truncate(1);
        space.baseline = 0;
        space
    }

    /// Rounds of the candidates 0, 1 and 2, the last with these gains over the first.
    fn rounds(purpose: Purpose, gains: &[f64]) -> Vec<Observation> {
        let round = |(round, gain): (u32, &f64)| {
            let shared = 0.1 * f64::from(round);
            [(0, 0.0), (1, 0.01), (2, *gain)]
                .map(|(candidate, value)| observation(purpose, candidate, round, shared + value))
        };
        (0..).zip(gains).flat_map(round).collect()
    }

    #[test]
    fn exchanging_the_candidates_exchanges_the_signs() {
        let history = rounds(Purpose::Confirm, &[0.2, 0.22, 0.18, 0.21, 0.2]);
        let trials = ConfirmingTrials::of(&space(), &history);
        let one = trials.difference((2, 0), None, 2).unwrap();
        let other = trials.difference((0, 2), None, 2).unwrap();
        assert_eq!(one.verdict(), DifferenceVerdict::Better);
        assert_eq!(other.verdict(), DifferenceVerdict::Worse);
        let ((low, high), (other_low, other_high)) =
            (one.interval.unwrap(), other.interval.unwrap());
        assert!((low + other_high).abs() < 1e-9 && (high + other_low).abs() < 1e-9);
        let (sure, unsure) = (one.better_probability.unwrap(), other.better_probability.unwrap());
        assert!(sure > 0.97 && (sure + unsure - 1.0).abs() < 1e-6, "{sure} {unsure}");
        // As sure as the gain that the recommendation shows.
        let gain = trials.gain_among(2, 0, 2).unwrap();
        assert_eq!((gain.interval.unwrap().0, gain.rounds), (low, one.count));
    }

    #[test]
    fn few_rounds_and_equal_candidates_show_nothing() {
        let trials = |gains: &[f64]| {
            ConfirmingTrials::of(&space(), &rounds(Purpose::Confirm, gains))
                .difference((2, 0), Some(0), 2)
                .unwrap()
        };
        assert_eq!(trials(&[0.2, 0.22, 0.18]).verdict(), DifferenceVerdict::TooFew);
        let tied = trials(&[0.1, -0.1, 0.05, -0.05, 0.0]);
        assert_eq!(tied.verdict(), DifferenceVerdict::Tied);
        assert!((0.3..0.7).contains(&tied.better_probability.unwrap()), "{tied:?}");
    }

    #[test]
    fn trials_of_the_search_compare_candidates_without_common_rounds() {
        let mut history = rounds(Purpose::Search, &[1.0, 1.1, 0.9]);
        history.push(observation(Purpose::Search, 3, 0, 5.0));
        let confirmed = ConfirmingTrials::of(&space(), &history);
        assert_eq!(confirmed.difference((2, 0), None, 1), None);
        let trials = SearchTrials::of(&space(), &history);
        let found = trials.difference((2, 0), None).unwrap();
        assert!((found.mean - 1.0).abs() < 1e-9 && found.count == 3, "{found:?}");
        assert!(found.interval.unwrap().0 > 0.5 && found.better_probability.unwrap() > 0.99);
        // One trial has the noise of the others.
        let once = trials.difference((3, 0), Some(0)).unwrap();
        assert!(once.interval.is_some() && once.count == 1, "{once:?}");
        assert_eq!(trials.difference((4, 0), None), None);
        // The shared rounds are not used: they widen the interval.
        let (low, high) = found.interval.unwrap();
        assert!(high - low > 0.2);
    }
}
