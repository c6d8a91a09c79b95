//! What the confirming trials say: the gain of one candidate over another, with an interval.
//!
//! Only trials asked for to confirm count: they were made after the finalists were chosen, in
//! rounds in which every finalist and the reference ran under every workload in random order. A
//! round gives one paired difference; the variance of such differences is pooled over finalists,
//! or is the pair's own where that is larger. The interval is simultaneous for all finalists
//! (Bonferroni), so that it holds for the one that came out first: where all are equal, a gain is
//! claimed in at most one search of twenty. Limit: with one round there is no interval.

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
    /// How many rounds had both.
    pub rounds: usize,
    /// How many finalists the interval allows for.
    pub finalists: usize,
}

impl Gain {
    /// Whether it is surely above 0.
    pub fn is_sure(&self) -> bool {
        self.interval.is_some_and(|(low, _)| low > 0.0)
    }
}

/// The probability with which an interval may miss, over all finalists.
const MISS: f64 = 0.05;

type Rounds = BTreeMap<u32, BTreeMap<usize, f64>>;

/// The confirming trials, sorted.
#[derive(Debug, Clone)]
pub struct ConfirmingTrials {
    weights: Vec<f64>,
    reference: CandidateIndex,
    by_candidate: BTreeMap<CandidateIndex, Rounds>,
}

impl ConfirmingTrials {
    /// Of a history.
    pub fn of(space: &SearchSpace, history: &[Observation]) -> Self {
        let mut by_candidate: BTreeMap<CandidateIndex, Rounds> = BTreeMap::new();
        for told in history.iter().filter(|told| told.ask.purpose == Purpose::Confirm) {
            if let Some(log_merit) = told.log_merit() {
                let rounds = by_candidate.entry(told.ask.candidate).or_default();
                rounds.entry(told.ask.repeat).or_default().insert(told.ask.workload, log_merit);
            }
        }
        Self { weights: space.weights(), reference: space.reference, by_candidate }
    }

    /// The candidates beside the reference that were in any round.
    pub fn finalists(&self) -> Vec<CandidateIndex> {
        self.by_candidate.keys().copied().filter(|index| *index != self.reference).collect()
    }

    /// In how many rounds a candidate was.
    pub fn rounds(&self, candidate: CandidateIndex) -> usize {
        self.by_candidate.get(&candidate).map_or(0, BTreeMap::len)
    }

    /// The difference of two candidates in every round that had both, over the workloads that both
    /// have.
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

    /// The gain of `one` over `other`; `None` when no round had both.
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
            let (of, count) = variance(&self.differences(finalist, self.reference));
            squares += of * count;
            freedom += count;
        }
        // Differences to the same reference go together: their squares count half.
        let freedom = if finalists > 1 { own_freedom.max(0.5 * freedom) } else { own_freedom };
        let pooled =
            if finalists > 1 && squares > 0.0 { squares / self.freedom_of_all() } else { own };
        let interval = (rounds > 1).then(|| {
            let error = (own.max(pooled) / rounds as f64).sqrt();
            let tail = MISS / 2.0 / finalists as f64;
            let half = student::quantile(1.0 - tail, freedom.max(1.0)) * error;
            (mean - half, mean + half)
        });
        Some(Gain { mean, interval, rounds, finalists })
    }

    fn freedom_of_all(&self) -> f64 {
        let of =
            |finalist: &CandidateIndex| variance(&self.differences(*finalist, self.reference)).1;
        self.finalists().iter().map(of).sum::<f64>().max(1.0)
    }
}

/// The variance of some values, and its degrees of freedom.
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

    fn told(candidate: usize, repeat: u32, log_merit: f64) -> Observation {
        let batch = Batch { number: repeat, size: 3 };
        let (length, purpose) = (TrialLength::Full, Purpose::Confirm);
        let ask = Proposal { candidate, workload: 0, length, purpose, repeat, batch };
        Observation { ask, visit: 0, outcome: TrialOutcome::Measured { log_merit, excess: None } }
    }

    #[test]
    fn one_finalist_gives_the_paired_t_interval() {
        let mut space = LandscapeKind::Tiny.make(1).space;
        space.reference = 0;
        let history: Vec<Observation> = [0.1, 0.2, 0.3]
            .iter()
            .zip(0u32..)
            .flat_map(|(gain, round)| {
                let common = f64::from(round);
                [told(0, round, common), told(5, round, common + gain)]
            })
            .collect();
        let gain = ConfirmingTrials::of(&space, &history).gain(5, 0).expect("both ran");
        assert!((gain.mean - 0.2).abs() < 1e-12);
        let (low, high) = gain.interval.expect("three rounds");
        // 4.3027 times 0.1 / sqrt(3)
        assert!((low - (0.2 - 0.248_42)).abs() < 1e-4, "{low}");
        assert!((high - (0.2 + 0.248_42)).abs() < 1e-4);
        assert!(!gain.is_sure());
        assert_eq!((gain.rounds, gain.finalists), (3, 1));
    }

    #[test]
    fn one_round_has_no_interval_and_none_no_gain() {
        let mut space = LandscapeKind::Tiny.make(1).space;
        space.reference = 0;
        let history = [told(0, 0, 1.0), told(5, 0, 1.5)];
        let confirmed = ConfirmingTrials::of(&space, &history);
        assert_eq!(confirmed.gain(5, 0).expect("both ran").interval, None);
        assert_eq!(confirmed.gain(4, 0), None);
    }
}
