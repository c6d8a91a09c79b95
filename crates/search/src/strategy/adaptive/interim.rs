//! Interim confirmation: while the search goes on, its leader runs a few rounds next to the
//! baseline, so that a search that is stopped early has a confirmed answer.
//!
//! It happens at most once after each of the shares [`AT`] of the search, and only if the leader is
//! neither the baseline nor confirmed already. These are confirming trials as in a race, and the
//! search learns from them as from all others. Limit: with a small budget, of which they would take
//! a large share, nothing is confirmed before the race.

use crate::confirm::{ConfirmingTrials, MIN_ROUNDS};
use crate::history::Purpose;
use crate::model::{Belief, highest};
use crate::space::CandidateIndex;
use crate::strategy::Request;

use super::{MAX_SEARCH_TRIALS, PlanContext};

/// Shares of the search phase after which the leader is confirmed, and the largest share of the
/// budget that this may take: with few trials for each workload, the search needs them more.
const AT: [(f64, f64); 2] = [(0.3, 0.07), (0.65, 0.04)];

impl PlanContext<'_> {
    /// The next round of an interim confirmation, if one is due or under way.
    pub(super) fn interim(&self, belief: &Belief) -> Option<Vec<Request>> {
        let baseline = self.space.baseline;
        let a_round = 2.0 * self.workloads() as f64;
        if self.settings.remaining(self.history) < a_round
            || self.table.excluded(baseline).is_some()
        {
            return None;
        }
        let candidate = match self.rounds() {
            0 if self.is_due() => self.unconfirmed_leader(belief)?,
            1..MIN_ROUNDS => self.lone_finalist()?,
            _ => return None,
        };
        let round = self.first_half(self.first_round() + self.rounds());
        Some(Self::confirming(&[baseline, candidate], &round))
    }

    /// Whether the search has passed one of the shares since the last confirming trial.
    fn is_due(&self) -> bool {
        let cost = (2 * MIN_ROUNDS * self.workloads()) as f64;
        let total = self.settings.trials.unwrap_or(MAX_SEARCH_TRIALS);
        let since = self.searched_before(self.race_start())..self.searched();
        let share = self.search_share();
        AT.iter().any(|(at, most)| cost <= most * total && since.contains(&(at * share)))
    }

    /// The cost of the search up to the last confirming trial among the first `end` observations.
    fn searched_before(&self, end: usize) -> f64 {
        let is_confirming = |at: &usize| self.history[*at].proposal.purpose == Purpose::Confirm;
        let last = (0..end).rfind(is_confirming).unwrap_or(0);
        self.cost_of_search(&self.history[..last])
    }

    /// The measured candidate that is best by the model, unless it is the baseline or confirmed.
    fn unconfirmed_leader(&self, belief: &Belief) -> Option<CandidateIndex> {
        let measured = self.table.candidates();
        let mean = |(at, index): (usize, &CandidateIndex)| {
            let is_measured = measured.binary_search(index).is_ok();
            if is_measured { belief.means[at] } else { f64::NEG_INFINITY }
        };
        let means: Vec<f64> = belief.candidates.iter().enumerate().map(mean).collect();
        let (at, _) = highest(&means)?;
        let leader = belief.candidates[at];
        let confirmed = ConfirmingTrials::of(self.space, self.history);
        (leader != self.space.baseline && confirmed.rounds(leader) < MIN_ROUNDS).then_some(leader)
    }

    /// The candidate that alone runs next to the baseline since the last trial of the search.
    fn lone_finalist(&self) -> Option<CandidateIndex> {
        match self.finalists()[..] {
            [only] if self.eligible.binary_search(&only).is_ok() => Some(only),
            _ => None,
        }
    }
}
