//! The opening of a search whose prior comes from a twin of the device: the setups that are best on the
//! twin run first, next to the baseline, in confirming trials.
//!
//! After each round the model says how far the twin holds. If it leaves little doubt about the best,
//! the race goes on with these finalists and ends the search. If the twin misleads, or after
//! [`MAX_ROUNDS`] rounds, the usual search begins, and the trials so far count for it.
//!
//! Limit: with a budget of less than a round, the search begins as usual.

use crate::history::{Observation, Purpose};
use crate::model::Belief;
use crate::prior::PriorMean;
use crate::space::CandidateIndex;
use crate::strategy::Request;

use super::PlanContext;

/// The most finalists of the twin, and the fewest.
const MAX_FINALISTS: usize = 4;
const MIN_FINALISTS: usize = 2;
/// The share of the budget that the first round may take, if it has more than [`MIN_FINALISTS`].
const ROUND_SHARE: f64 = 0.15;
/// Rounds after which the usual search begins, unless the best is almost certain.
const MAX_ROUNDS: usize = 2;
/// A twin holds if trials on the device differ at least this much of what they do on the twin.
const LEAST_FACTOR: f64 = 0.4;
/// The probability of being close to the best from which the race goes on.
const LIKELY: f64 = 0.5;

impl PlanContext<'_> {
    /// Whether no trial of the usual search was made.
    pub(super) fn is_opening(&self) -> bool {
        self.history.iter().all(|trial| trial.proposal.purpose == Purpose::Confirm)
    }

    /// The first round; `None` if the budget does not allow it.
    pub(super) fn opening(&self, prior: &PriorMean) -> Option<Vec<Request>> {
        let baseline = self.space.baseline;
        let a_candidate = self.workloads() as f64;
        let left = self.settings.trials.unwrap_or(f64::INFINITY);
        let affordable = |count: usize| (count + 1) as f64 * a_candidate;
        let count = (MIN_FINALISTS..=MAX_FINALISTS)
            .rev()
            .find(|&count| affordable(count) <= ROUND_SHARE * left)
            .unwrap_or(MIN_FINALISTS);
        if affordable(count) > left || self.table.excluded(baseline).is_some() {
            return None;
        }
        let mut best: Vec<CandidateIndex> =
            self.eligible.iter().copied().filter(|index| *index != baseline).collect();
        best.sort_by(|a, b| prior.merit(*b).total_cmp(&prior.merit(*a)).then(a.cmp(b)));
        best.truncate(count);
        if best.is_empty() {
            return None;
        }
        let racing: Vec<CandidateIndex> = std::iter::once(baseline).chain(best).collect();
        Some(Self::confirming(&racing, &self.first_half(0)))
    }

    /// Whether the race of the twin's finalists goes on after a round.
    pub(super) fn opening_goes_on(&self, prior: &PriorMean, belief: &Belief) -> bool {
        let probability = belief.choice().map_or(0.0, |(_, probability)| probability);
        let rounds = self.rounds();
        let holds = prior.factor_of(self.history) >= LEAST_FACTOR;
        let is_likely = probability >= LIKELY;
        let is_sure = probability >= self.settings.goal.probability;
        holds && (is_sure || (is_likely && rounds < MAX_ROUNDS))
    }

    /// Whether the budget leaves enough for the usual search.
    pub(super) fn can_search(&self) -> bool {
        let least = (MIN_FINALISTS + 1) as f64 * self.workloads() as f64;
        self.settings.remaining(self.history) >= least
    }

    /// What the opening cost, in full-length trials.
    pub(super) fn opened(&self) -> f64 {
        let is_opening = |trial: &&Observation| trial.proposal.purpose == Purpose::Confirm;
        self.history.iter().take_while(is_opening).count() as f64
    }
}
