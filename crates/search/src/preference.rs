//! Which of the candidates that are tied with the best to prefer.
//!
//! A search must not stop for a candidate that the recommendation then replaces, so the search and
//! the analysis of its outcome share this rule.

use crate::confirm::{ConfirmingTrials, MIN_ROUNDS};
use crate::model::Belief;
use crate::settings::Goal;
use crate::space::{CandidateIndex, SearchSpace};

/// How much less likely than the winner a tied candidate may be to be close to the best.
const SLACK: f64 = 0.05;

/// What is known when a candidate is preferred.
#[derive(Debug, Clone, Copy)]
pub struct Preference<'a> {
    pub space: &'a SearchSpace,
    pub belief: &'a Belief,
    pub confirmed: &'a ConfirmingTrials,
    pub goal: Goal,
    /// The wear of each candidate where it is known (less is better), or empty.
    pub wear: &'a [Option<f64>],
}

impl Preference<'_> {
    /// The safest of the candidates in `among` that are tied with the winner, then the one with the
    /// least wear, the one closest to the defaults, the best. If the winner is shown to be better
    /// than the baseline, so is the preferred one, unless it is the baseline, or is safer and the
    /// winner is better by less than the goal's distance.
    pub fn preferred(
        &self,
        winner: CandidateIndex,
        among: impl Fn(CandidateIndex) -> bool,
    ) -> CandidateIndex {
        let Some(of_winner) = self.position(winner) else { return winner };
        let baseline = self.space.baseline;
        let gains = |candidate: CandidateIndex| {
            self.confirmed.gain(candidate, baseline).is_some_and(|gain| gain.is_significant())
        };
        let winner_gains = gains(winner);
        // What the goal calls close enough need not be kept for safety.
        let gain = self.confirmed.gain(winner, baseline);
        let is_small = gain.is_some_and(|gain| gain.mean <= self.goal.within);
        let safety = |candidate: CandidateIndex| self.space.candidates[candidate].safety;
        let is_safer = |candidate: CandidateIndex| safety(candidate) < safety(winner);
        let keeps_gain = |candidate: CandidateIndex| {
            !winner_gains
                || candidate == baseline
                || gains(candidate)
                || (is_small && is_safer(candidate))
        };
        let wear = |index: CandidateIndex| self.wear.get(index).copied().flatten().unwrap_or(0.0);
        let tied = (0..self.belief.candidates.len()).filter(|&at| {
            let candidate = self.belief.candidates[at];
            candidate == winner
                || (among(candidate) && self.is_tied(at, of_winner) && keeps_gain(candidate))
        });
        let best = tied.min_by(|&a, &b| {
            let (first, second) = (self.belief.candidates[a], self.belief.candidates[b]);
            let (one, other) = (&self.space.candidates[first], &self.space.candidates[second]);
            (one.safety.cmp(&other.safety))
                .then(wear(first).total_cmp(&wear(second)))
                .then(one.distance.cmp(&other.distance))
                .then(self.belief.means[b].total_cmp(&self.belief.means[a]))
        });
        best.map_or(winner, |at| self.belief.candidates[at])
    }

    /// Whether a candidate is within the goal's distance of the winner with the goal's probability,
    /// and is hardly less likely than the winner to be that close to the best.
    fn is_tied(&self, at: usize, of_winner: usize) -> bool {
        let (belief, goal) = (self.belief, self.goal);
        let near = |draw: &&Vec<f64>| draw[at] >= draw[of_winner] - goal.within;
        let share = belief.draws.iter().filter(near).count() as f64;
        let (winner, candidate) = (belief.candidates[of_winner], belief.candidates[at]);
        let loses = self.confirmed.gain(winner, candidate);
        share >= goal.probability * belief.draws.len() as f64
            && belief.within[at] + SLACK >= belief.within[of_winner].min(goal.probability)
            && !loses.is_some_and(|gain| gain.is_significant() && gain.mean > goal.within)
    }

    /// The probability that a candidate is within the goal's distance of the best.
    pub fn probability(&self, candidate: CandidateIndex) -> f64 {
        self.position(candidate).map_or(0.0, |at| self.belief.within[at])
    }

    /// Whether nothing more has to be shown of a candidate: it is the baseline, or its gain over it
    /// is shown in enough rounds.
    pub fn is_settled(&self, candidate: CandidateIndex) -> bool {
        let gain = self.confirmed.gain(candidate, self.space.baseline);
        candidate == self.space.baseline || gain.is_some_and(|gain| gain.is_significant())
    }

    /// Whether a candidate was in enough rounds to be recommended, or is the baseline.
    pub fn is_confirmed(&self, candidate: CandidateIndex) -> bool {
        candidate == self.space.baseline || self.confirmed.rounds(candidate) >= MIN_ROUNDS
    }

    fn position(&self, candidate: CandidateIndex) -> Option<usize> {
        self.belief.candidates.iter().position(|&index| index == candidate)
    }
}
