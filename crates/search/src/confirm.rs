//! Gains of one candidate over another from the confirming trials, with confidence intervals.
//!
//! Only confirming trials count. They run after the finalists were chosen, in rounds in which every
//! finalist and the baseline run under every workload in random order. Each round gives one paired
//! difference. The variance is the larger of the pair's own and the one pooled over all finalists.
//! Intervals are simultaneous for all finalists (Bonferroni), so they hold for the one that
//! finishes first: if all candidates are equal, at most one search in twenty claims a gain. Limit:
//! one round gives no interval.

use std::collections::BTreeMap;

use crate::history::{Observation, Purpose};
use crate::space::{CandidateIndex, SearchSpace};
use crate::student;

/// The gain of one candidate over another, in natural logarithm (0.05 is 5 %).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// The mean of the paired differences.
    pub mean: f64,
    /// The 95 % interval, simultaneous for all finalists; `None` with fewer than two rounds.
    pub interval: Option<(f64, f64)>,
    /// How many rounds contain both candidates.
    pub rounds: usize,
    /// How many finalists the interval is simultaneous for.
    pub finalists: usize,
}

impl Gain {
    /// Whether the interval is above 0.
    pub fn is_significant(&self) -> bool {
        self.interval.is_some_and(|(low, _)| low > 0.0)
    }
}

/// The probability that any finalist's interval misses its true value.
const MISS: f64 = 0.05;

type Rounds = BTreeMap<u32, BTreeMap<usize, f64>>;

/// The confirming trials by candidate, round and workload.
#[derive(Debug, Clone)]
pub struct ConfirmingTrials {
    weights: Vec<f64>,
    baseline: CandidateIndex,
    by_candidate: BTreeMap<CandidateIndex, Rounds>,
}

impl ConfirmingTrials {
    pub fn of(space: &SearchSpace, history: &[Observation]) -> Self {
        let mut by_candidate: BTreeMap<CandidateIndex, Rounds> = BTreeMap::new();
        for observation in
            history.iter().filter(|observation| observation.proposal.purpose == Purpose::Confirm)
        {
            if let Some(log_merit) = observation.log_merit() {
                let rounds = by_candidate.entry(observation.proposal.candidate).or_default();
                rounds
                    .entry(observation.proposal.repeat)
                    .or_default()
                    .insert(observation.proposal.workload, log_merit);
            }
        }
        Self { weights: space.weights(), baseline: space.baseline, by_candidate }
    }

    /// All candidates of any round except the baseline.
    pub fn finalists(&self) -> Vec<CandidateIndex> {
        self.by_candidate.keys().copied().filter(|index| *index != self.baseline).collect()
    }

    pub fn rounds(&self, candidate: CandidateIndex) -> usize {
        self.by_candidate.get(&candidate).map_or(0, BTreeMap::len)
    }

    /// The difference of two candidates in each round that contains both, over their common
    /// workloads.
    fn differences(&self, one: CandidateIndex, other: CandidateIndex) -> Vec<f64> {
        let both = self.by_candidate.get(&one).zip(self.by_candidate.get(&other));
        let Some((ones, others)) = both else { return Vec::new() };
        let mut found = Vec::new();
        for (round, ones) in ones {
            let Some(others) = others.get(round) else { continue };
            let (mut sum, mut weights) = (0.0, 0.0);
            for (workload, value) in ones {
                if let Some(other) = others.get(workload) {
                    sum += self.weights[*workload] * (value - other);
                    weights += self.weights[*workload];
                }
            }
            if weights > 0.0 {
                found.push(sum / weights);
            }
        }
        found
    }

    /// The gain of `one` over `other`; `None` if no round contains both.
    pub fn gain(&self, one: CandidateIndex, other: CandidateIndex) -> Option<Gain> {
        let differences = self.differences(one, other);
        let rounds = differences.len();
        if rounds == 0 {
            return None;
        }
        let mean = differences.iter().sum::<f64>() / rounds as f64;
        let finalists = self.finalists().len().max(1);
        let (own, own_freedom) = variance(&differences);
        let mut squares = 0.0;
        let mut freedom = 0.0;
        for &finalist in &self.finalists() {
            let (of, count) = variance(&self.differences(finalist, self.baseline));
            squares += of * count;
            freedom += count;
        }
        // Differences from the same baseline are correlated, so they count for half the degrees of
        // freedom.
        let freedom = if finalists > 1 { own_freedom.max(0.5 * freedom) } else { own_freedom };
        let pooled =
            if finalists > 1 && squares > 0.0 { squares / self.total_freedom() } else { own };
        let interval = (rounds > 1).then(|| {
            let error = (own.max(pooled) / rounds as f64).sqrt();
            let tail = MISS / 2.0 / finalists as f64;
            let half = student::quantile(1.0 - tail, freedom.max(1.0)) * error;
            (mean - half, mean + half)
        });
        Some(Gain { mean, interval, rounds, finalists })
    }

    fn total_freedom(&self) -> f64 {
        let of =
            |finalist: &CandidateIndex| variance(&self.differences(*finalist, self.baseline)).1;
        self.finalists().iter().map(of).sum::<f64>().max(1.0)
    }
}

/// The sample variance and its degrees of freedom.
fn variance(values: &[f64]) -> (f64, f64) {
    if values.len() < 2 {
        return (0.0, 0.0);
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (count - 1.0), count - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Batch, Proposal, TrialLength, TrialOutcome};
    use crate::landscape::LandscapeKind;

    fn observation(candidate: usize, repeat: u32, log_merit: f64) -> Observation {
        let batch = Batch { number: repeat, size: 3 };
        let (length, purpose) = (TrialLength::Full, Purpose::Confirm);
        let proposal = Proposal { candidate, workload: 0, length, purpose, repeat, batch };
        Observation {
            proposal,
            visit: 0,
            outcome: TrialOutcome::Measured { log_merit, excess: None },
        }
    }

    #[test]
    fn one_finalist_gives_the_paired_t_interval() {
        let mut space = LandscapeKind::Tiny.make(1).space;
        space.baseline = 0;
        let history: Vec<Observation> = [0.1, 0.2, 0.3]
            .iter()
            .zip(0u32..)
            .flat_map(|(gain, round)| {
                let common = f64::from(round);
                [observation(0, round, common), observation(5, round, common + gain)]
            })
            .collect();
        let gain = ConfirmingTrials::of(&space, &history).gain(5, 0).expect("both ran");
        assert!((gain.mean - 0.2).abs() < 1e-12);
        let (low, high) = gain.interval.expect("three rounds");
        // 4.3027 times 0.1 / sqrt(3)
        assert!((low - (0.2 - 0.248_42)).abs() < 1e-4, "{low}");
        assert!((high - (0.2 + 0.248_42)).abs() < 1e-4);
        assert!(!gain.is_significant());
        assert_eq!((gain.rounds, gain.finalists), (3, 1));
    }

    #[test]
    fn one_round_gives_no_interval_and_no_round_gives_no_gain() {
        let mut space = LandscapeKind::Tiny.make(1).space;
        space.baseline = 0;
        let history = [observation(0, 0, 1.0), observation(5, 0, 1.5)];
        let confirmed = ConfirmingTrials::of(&space, &history);
        assert_eq!(confirmed.gain(5, 0).expect("both ran").interval, None);
        assert_eq!(confirmed.gain(4, 0), None);
    }
}
