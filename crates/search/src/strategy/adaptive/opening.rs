//! The opening of a search whose prior comes from a twin of the device: the setups that are best on
//! the twin run first, next to the baseline, in confirming trials.
//!
//! After each round the model says how far the twin holds. If it leaves little doubt about the
//! best, the race goes on with these finalists and ends the search. If the twin misleads, or after
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

#[cfg(test)]
mod tests {
    use crate::history::{Purpose, TrialLength};
    use crate::landscape::{LandscapeKind, SearchTrace, run, similar};
    use crate::prior::{SearchPrior, SimilarResult};
    use crate::settings::SearchSettings;
    use crate::strategy::Adaptive;

    /// A search with a twin of which everything is known.
    fn with_twin(correlation: f64, trials: f64) -> (SearchTrace, bool) {
        let kind = LandscapeKind::Small;
        let landscape = kind.make(3);
        let twin = similar(&landscape, kind, correlation, 9);
        let cells = twin.truth.iter().enumerate().flat_map(|(candidate, row)| {
            row.iter().enumerate().map(move |(workload, log_merit)| SimilarResult {
                candidate,
                workload,
                length: TrialLength::Full,
                log_merit: *log_merit,
                repeats: 1,
                sd: 0.0,
            })
        });
        let known = SearchPrior::new(vec![cells.collect()]).of_twin();
        let settings = SearchSettings { trials: Some(trials), ..SearchSettings::default() };
        let strategy = Adaptive::with_prior(Some(known));
        let trace = run(&strategy, &landscape, &settings).expect("a search");
        let best = landscape.best();
        let first = trace.history.iter().take_while(|trial| trial.proposal.batch.number == 0);
        let has_best = first.map(|trial| trial.proposal.candidate).any(|index| index == best);
        (trace, has_best)
    }

    fn searches(trace: &SearchTrace) -> bool {
        trace.history.iter().any(|trial| trial.proposal.purpose == Purpose::Search)
    }

    #[test]
    fn the_best_of_a_twin_run_first_and_few_trials_suffice() {
        let (trace, has_best) = with_twin(1.0, 40.0);
        assert_eq!(trace.history[0].proposal.purpose, Purpose::Confirm);
        assert!(has_best);
        let choice = trace.choice.expect("something was measured");
        assert!(LandscapeKind::Small.make(3).regret(choice) < 0.02);
    }

    #[test]
    fn a_twin_that_misleads_is_left_for_the_usual_search() {
        let (trace, _) = with_twin(0.0, 120.0);
        assert_eq!(trace.history[0].proposal.purpose, Purpose::Confirm);
        assert!(searches(&trace));
        let opened =
            trace.history.iter().take_while(|trial| trial.proposal.purpose == Purpose::Confirm);
        assert!(opened.count() <= 2 * 5 * 6, "at most two rounds");
    }
}
