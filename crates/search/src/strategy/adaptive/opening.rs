//! The opening of a search whose prior comes from a twin of the device: setups that are good on the
//! twin ([`finalists`]) run first, next to the baseline, in confirming trials.
//!
//! After each round the model says how far the twin holds. If it leaves little doubt about the
//! best, the race goes on with these finalists and ends the search. If the twin misleads, or after
//! [`MAX_ROUNDS`] rounds, the usual search begins, and the trials so far count for it. With a
//! budget that is too small for a search and for confirming what it finds, the race always goes on.
//!
//! Limit: with a budget of less than a round, the search begins as usual.

use crate::confirm::MIN_ROUNDS;
use crate::history::{Observation, Purpose};
use crate::model::Belief;
use crate::prior::PriorMean;
use crate::space::CandidateIndex;
use crate::strategy::Request;

use super::PlanContext;
use super::finalists::finalists;

/// The most finalists of the twin.
const MAX_FINALISTS: usize = 4;
/// The finalists if the budget is not enough to confirm any.
const UNCONFIRMED_FINALISTS: usize = 2;
/// Rounds after which the usual search begins, unless the best is almost certain.
const MAX_ROUNDS: usize = 2;
/// A twin holds if trials on the device differ at least this much of what they do on the twin.
const LEAST_FACTOR: f64 = 0.4;
/// The probability of being close to the best from which the race goes on.
const LIKELY: f64 = 0.5;

impl PlanContext<'_> {
    /// Whether no trial of the usual search was made.
    pub(super) fn is_opening(&self) -> bool {
        self.history.is_empty() || self.opening_end() == self.history.len()
    }

    /// The index of the first trial of the usual search: 0 without an opening. Its first batch
    /// repeats the baseline; earlier trials of the search only test pairs of levels.
    pub(super) fn opening_end(&self) -> usize {
        let is = |trial: &Observation, purpose: Purpose| trial.proposal.purpose == purpose;
        if !self.history.first().is_some_and(|first| is(first, Purpose::Confirm)) {
            return 0;
        }
        let repeat = self.history.iter().find(|trial| is(trial, Purpose::Baseline));
        let begins = repeat.and_then(|repeat| {
            let batch = repeat.proposal.batch.number;
            self.history.iter().position(|trial| trial.proposal.batch.number == batch)
        });
        begins.unwrap_or(self.history.len())
    }

    /// The first round; `None` if the budget does not allow it.
    pub(super) fn opening(&self, prior: &PriorMean) -> Option<Vec<Request>> {
        let baseline = self.space.baseline;
        let a_candidate = self.workloads() as f64;
        let left = self.settings.trials.unwrap_or(f64::INFINITY);
        let cost = |trials: usize| trials as f64 * a_candidate;
        let count = (1..=MAX_FINALISTS)
            .rev()
            .find(|&count| cost(trials_to_confirm(count)) <= left)
            .unwrap_or(UNCONFIRMED_FINALISTS);
        if cost(count + 1) > left || self.table.excluded(baseline).is_some() {
            return None;
        }
        let others: Vec<CandidateIndex> =
            self.eligible.iter().copied().filter(|index| *index != baseline).collect();
        let best = finalists(self.space, &others, |index| prior.merit(index), count);
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

    /// Whether the budget leaves enough for the usual search and for confirming what it finds.
    pub(super) fn can_search(&self) -> bool {
        self.settings.remaining(self.history) >= self.least_trials() as f64
    }

    /// The confirming trials of the opening.
    pub(super) fn opened(&self) -> usize {
        let opening = self.history[..self.opening_end()].iter();
        opening.filter(|trial| trial.proposal.purpose == Purpose::Confirm).count()
    }
}

/// The trials under each workload that confirm one of so many finalists: all in the first round,
/// one in each later round, and another one in the second round if there were more than two.
fn trials_to_confirm(finalists: usize) -> usize {
    let later = 2 * (MIN_ROUNDS - 1);
    finalists + 1 + later + usize::from(finalists > 2)
}

#[cfg(test)]
mod tests {
    use crate::answer::answer;
    use crate::confirm::{ConfirmingTrials, MIN_ROUNDS};
    use crate::history::{Purpose, TrialLength};
    use crate::landscape::{LandscapeKind, SearchTrace, run, similar};
    use crate::prior::{SearchPrior, SimilarResult};
    use crate::settings::SearchSettings;
    use crate::strategy::{Adaptive, SearchEnd};

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
    fn a_budget_of_few_trials_is_enough_to_confirm_a_setup_of_the_twin() {
        let workloads = 6.0;
        let space = LandscapeKind::Small.make(3).space;
        for per_workload in [8.0, 9.0, 10.0, 11.0, 12.0, 15.0] {
            for correlation in [1.0, 0.5] {
                let (trace, _) = with_twin(correlation, per_workload * workloads);
                assert!(!searches(&trace), "{per_workload} {correlation}");
                let choice = trace.choice.expect("something was measured");
                let confirmed = ConfirmingTrials::of(&space, &trace.history);
                assert!(confirmed.rounds(choice) >= MIN_ROUNDS, "{per_workload} {correlation}");
            }
        }
    }

    /// Few trials are needed for all pairs, next to those of the finalists.
    #[test]
    fn the_finalists_of_a_twin_end_a_search_after_all_pairs_were_tried() {
        let (trace, _) = with_twin(1.0, 250.0);
        assert!(matches!(trace.stop, SearchEnd::Confident { .. }), "{:?}", trace.stop);
        assert!(trace.history.iter().all(|trial| trial.proposal.purpose != Purpose::Baseline));
        let space = LandscapeKind::Small.make(3).space;
        let choice = trace.choice.expect("something was measured");
        let settings = SearchSettings { trials: Some(250.0), ..SearchSettings::default() };
        let answer = answer(&space, &trace.history, &settings, choice, &[]);
        assert_eq!(answer.pairs.untested, 0, "{:?}", answer.pairs);
        let pairs = trace.history.iter().filter(|trial| trial.proposal.purpose == Purpose::Search);
        assert!((1..=trace.history.len() / 4).contains(&pairs.count()));
        let confirmed = ConfirmingTrials::of(&space, &trace.history);
        assert!(confirmed.rounds(choice) >= MIN_ROUNDS);
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
