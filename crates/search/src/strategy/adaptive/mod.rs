//! Bayesian optimization: a designed first batch, then trials where they may matter, then a race of
//! the finalists with fresh full-length trials next to the baseline.
//!
//! After every batch, the model ([`crate::model`]) is fitted to all trials. Meanwhile the leader is
//! confirmed now and then, so that a search can be stopped early ([`interim`]). The search phase
//! lasts until some candidate is within the goal's distance of the best with enough probability and
//! all pairs of levels were tried ([`untested`]), or until its share of the budget is spent. The
//! race lasts until that holds for the winner, or until the budget ends. Short trials, if
//! available, serve the first batch and the early search; the decision is based on full-length
//! trials.
//!
//! Limit: fitting takes time cubic in the number of cells, so the search phase is limited to
//! [`MAX_SEARCH_TRIALS`] trials. Candidates that are still tied then may remain so after the race.

mod explore;
mod finalists;
mod interim;
mod learned;
mod opening;
mod race;
mod share;
mod start;
mod untested;

use crate::confirm::{ConfirmingTrials, MIN_CONFIRMING_TRIALS, MIN_ROUNDS};
use crate::history::{Observation, Purpose, TrialLength, TrialTable};
use crate::model::{Belief, Coding, Model, highest};
use crate::prior::{PriorMean, Relative, SearchPrior};
use crate::random::RandomStream;
use crate::settings::SearchSettings;
use crate::space::{CandidateIndex, SearchSpace};

use super::scores::violates_constraint;
use super::{Request, SearchEnd, Strategy, StrategyPlan};
pub(crate) use learned::Learned;

/// The share of the budget reserved for the race, and the share of the budget beyond `AMPLE` trials
/// per workload: with more trials, the best candidate reaches the finals long before it can be
/// distinguished from the other finalists.
const RACE_SHARE: f64 = 0.2;
const RACE_SHARE_BEYOND: f64 = 0.5;
const AMPLE: f64 = 60.0;
/// So many setups can all be in the race, so that they are searched only to begin with.
const FEW: usize = 3;
/// The fewest trials of the search under each workload. With a budget of less besides the fewest
/// confirming trials, one round follows it; with less besides that, all of it is for the search.
const MIN_SEARCHED: usize = 3;
/// The fewest trials under each workload of a search that confirms what it finds.
pub const MIN_TRIALS_PER_WORKLOAD: usize = MIN_SEARCHED + MIN_CONFIRMING_TRIALS;
/// Extra confidence required to leave the search phase, as a share of the remaining doubt.
/// Otherwise the race would barely confirm the goal.
const EXTRA_CONFIDENCE: f64 = 0.04;
/// The most full-length trials of the search phase without a budget.
const MAX_SEARCH_TRIALS: f64 = 1500.0;
const MAX_ROUNDS: usize = 40;

#[derive(Debug, Default)]
pub struct Adaptive {
    prior: Option<SearchPrior>,
    /// A cache; it never changes a plan.
    learned: Learned,
}

impl Adaptive {
    /// A search that begins with what is known of similar devices, if anything.
    pub fn with_prior(prior: Option<SearchPrior>) -> Self {
        Self { prior, ..Self::default() }
    }

    fn prior_mean(&self, space: &SearchSpace) -> Option<&PriorMean> {
        self.prior.as_ref()?.mean(space)
    }

    /// The model of a history.
    fn model<'a>(
        &self,
        space: &SearchSpace,
        coding: &'a Coding,
        history: &[Observation],
    ) -> Model<'a> {
        let prior = self.prior_mean(space);
        let variances = self.learned.from(space, coding, history, prior);
        match prior.map(|prior| prior.relative(history)) {
            Some(Relative { history, offsets }) => {
                Model::fit(space, coding, &history, variances).with_offsets(offsets)
            }
            None => Model::fit(space, coding, history, variances),
        }
    }
}

/// The fewest trials of a search among so many setups of so many file systems that can confirm what
/// it finds: one of each file system is tried, and the baseline repeated.
pub fn least_trials(setups: usize, families: usize, workloads: usize) -> usize {
    let searched = (MIN_SEARCHED.min(setups) * workloads).max(families + 1);
    searched + MIN_CONFIRMING_TRIALS * workloads
}

struct PlanContext<'a> {
    space: &'a SearchSpace,
    settings: &'a SearchSettings,
    history: &'a [Observation],
    table: TrialTable,
    /// Candidates that may still be chosen.
    eligible: Vec<CandidateIndex>,
    random: RandomStream,
    /// How much each workload needs further trials ([`share`]).
    needs: Vec<f64>,
}

impl Strategy for Adaptive {
    fn plan(
        &self,
        space: &SearchSpace,
        history: &[Observation],
        settings: &SearchSettings,
    ) -> StrategyPlan {
        let mut context = PlanContext::of(space, history, settings);
        if context.eligible.is_empty() {
            return StrategyPlan::Done(SearchEnd::Exhausted);
        }
        let coding = Coding::of(space, &context.candidates_of_interest());
        let twin = self.prior.as_ref().filter(|prior| prior.is_twin());
        let twin = twin.and_then(|_| self.prior_mean(space)).filter(|_| context.is_opening());
        if history.is_empty() {
            let opening = twin.and_then(|twin| context.opening(twin));
            let start = || context.start(&coding, self.prior_mean(space));
            return StrategyPlan::Try(opening.unwrap_or_else(start));
        }
        if let Some(rest) = context.rest_of_round() {
            return StrategyPlan::Try(rest);
        }
        let model = self.model(space, &coding, history);
        let belief =
            Belief::of(&model, &context.eligible, settings.goal.within, &mut context.random);
        if let Some(twin) = twin {
            return match context.opening_goes_on(twin, &belief) || !context.can_search() {
                true => context.race_or_pairs(&belief, &model),
                false => StrategyPlan::Try(context.start(&coding, Some(twin))),
            };
        }
        let probability = belief.choice().map_or(0.0, |(_, probability)| probability);
        let racing = context.is_racing();
        let confident = probability
            >= settings.goal.probability + EXTRA_CONFIDENCE * (1.0 - settings.goal.probability);
        let left = context.left_to_search(history);
        if let Some(round) = context.interim(&belief).filter(|_| !racing && !confident) {
            return StrategyPlan::Try(round);
        }
        if !racing && context.can_explore(left) {
            let requests = if confident {
                context.test_pairs(&model, left)
            } else {
                context.explore(&belief, left)
            };
            if !requests.is_empty() {
                return StrategyPlan::Try(requests);
            }
        }
        match context.race_or_pairs(&belief, &model) {
            StrategyPlan::Done(SearchEnd::Budget) if context.rounds() == 0 => {
                context.spend_rest(&belief)
            }
            plan => plan,
        }
    }

    fn max_trials(&self, space: &SearchSpace, settings: &SearchSettings) -> f64 {
        let rounds = MAX_ROUNDS * (race::MAX_FINALISTS + 1) * space.workloads.len();
        settings.trials.unwrap_or(MAX_SEARCH_TRIALS + rounds as f64)
    }

    fn choice(
        &self,
        space: &SearchSpace,
        history: &[Observation],
        settings: &SearchSettings,
    ) -> Option<CandidateIndex> {
        let mut context = PlanContext::of(space, history, settings);
        let measured = context.table.candidates();
        if context.eligible.is_empty() || measured.is_empty() {
            return None;
        }
        let coding = Coding::of(space, &context.candidates_of_interest());
        let model = self.model(space, &coding, history);
        // Only measured candidates are chosen, however good the model believes others to be.
        let tried = |of: &[CandidateIndex]| -> Vec<CandidateIndex> {
            of.iter().copied().filter(|index| context.eligible.contains(index)).collect()
        };
        // What a twin chose for the opening is no choice of the search that follows it.
        let is_opening = context.is_opening();
        let opened = if is_opening { 0 } else { context.opened() };
        let raced = tried(&context.confirmed_candidates(opened));
        let begin = if is_opening { 0 } else { context.opening_end() };
        let confirmed = ConfirmingTrials::of(space, &history[begin..]);
        let is_confirmed = |index: &CandidateIndex| confirmed.rounds(*index) >= MIN_ROUNDS;
        let confirmed: Vec<CandidateIndex> = raced.iter().copied().filter(is_confirmed).collect();
        let found = [confirmed, raced, tried(&measured)].into_iter().find(|of| !of.is_empty());
        let among = found.unwrap_or_default();
        let belief = Belief::of(&model, &among, settings.goal.within, &mut context.random);
        highest(&belief.means).map(|(at, _)| belief.candidates[at])
    }
}

impl<'a> PlanContext<'a> {
    fn of(
        space: &'a SearchSpace,
        history: &'a [Observation],
        settings: &'a SearchSettings,
    ) -> Self {
        let table = TrialTable::of(history, |_| true);
        let violating: Vec<CandidateIndex> = table
            .cells()
            .filter(|(_, _, cell)| violates_constraint(cell))
            .map(|(candidate, _, _)| candidate)
            .collect();
        let eligible = (0..space.candidates.len())
            .filter(|&index| space.candidates[index].allowed && table.excluded(index).is_none())
            .filter(|index| violating.binary_search(index).is_err())
            .collect();
        let random = RandomStream::of_history(settings.seed, history.len());
        let needs = share::needs(space, history);
        Self { space, settings, history, table, eligible, random, needs }
    }

    /// The candidates that the model covers.
    fn candidates_of_interest(&self) -> Vec<CandidateIndex> {
        let wanted = |index: &CandidateIndex| {
            self.space.candidates[*index].allowed || *index == self.space.baseline
        };
        (0..self.space.candidates.len()).filter(wanted).collect()
    }

    /// The probability at which the race may end. The goal is checked after every round, and the
    /// fewer candidates there are, the more of the doubt is about one comparison, so that each
    /// check is another chance to be wrong about it.
    fn required_probability(&self) -> f64 {
        let count = self.eligible.len().max(2) as f64;
        1.0 - (1.0 - self.settings.goal.probability) * (1.0 - 1.0 / count).powi(5)
    }

    fn workloads(&self) -> usize {
        self.space.workloads.len()
    }

    /// The cost of the search phase so far, in full-length trials.
    fn searched(&self) -> f64 {
        self.cost_of_search(self.history)
    }

    fn cost_of_search(&self, history: &[Observation]) -> f64 {
        let search =
            history.iter().filter(|observation| observation.proposal.purpose != Purpose::Confirm);
        search.map(|observation| self.settings.cost(observation.proposal.length)).sum()
    }

    /// The fewest trials of a search that can confirm what it finds.
    fn least_trials(&self) -> usize {
        let families = self.space.families().len();
        least_trials(self.space.candidates.len(), families, self.workloads())
    }

    /// The budget of the search phase in full-length trials. Enough rounds of the baseline and one
    /// finalist to show a gain are reserved if the budget allows it; else one round, so that the
    /// choice and the baseline ran under all workloads.
    fn search_share(&self) -> f64 {
        let count = self.eligible.len();
        let most = if count <= FEW { (count * self.workloads()) as f64 } else { MAX_SEARCH_TRIALS };
        let Some(total) = self.settings.trials else { return most };
        let workloads = self.workloads() as f64;
        if total < self.least_trials() as f64 {
            let searched = total - 2.0 * workloads;
            return if searched >= MIN_SEARCHED as f64 * workloads { searched } else { total };
        }
        let least = MIN_CONFIRMING_TRIALS as f64 * workloads;
        let beyond = (total - AMPLE * workloads).max(0.0);
        let race = RACE_SHARE * (total - beyond) + RACE_SHARE_BEYOND * beyond;
        (total - race.max(least)).min(most)
    }

    /// The next round of the race, or if it is sure, trials of pairs that were not tried yet.
    fn race_or_pairs(&mut self, belief: &Belief, model: &Model<'_>) -> StrategyPlan {
        let plan = self.race(belief);
        if !matches!(plan, StrategyPlan::Done(SearchEnd::Confident { .. })) {
            return plan;
        }
        let requests = self.test_pairs(model, self.settings.remaining(self.history));
        match (requests.is_empty(), self.has_untested_pairs()) {
            (false, _) => StrategyPlan::Try(requests),
            (true, true) => StrategyPlan::Done(SearchEnd::Budget),
            (true, false) => plan,
        }
    }

    /// Trials of the search, from what is too little for a round of the race. A budget of time is
    /// converted to trials by their mean cost, which changes: what the search left for the race
    /// may be worth less when the race begins.
    fn spend_rest(&mut self, belief: &Belief) -> StrategyPlan {
        let left = self.settings.remaining(self.history);
        let requests = match self.can_explore(left) {
            true => self.explore(belief, left),
            false => Vec::new(),
        };
        match requests.is_empty() {
            true => StrategyPlan::Done(SearchEnd::Budget),
            false => StrategyPlan::Try(requests),
        }
    }

    /// What remained of the budget of the search phase after these first trials, in full-length
    /// trials.
    fn left_to_search(&self, history: &[Observation]) -> f64 {
        self.search_share() - self.cost_of_search(history) - self.opened() as f64
    }

    /// Whether that is enough for a trial.
    fn can_explore(&self, left: f64) -> bool {
        left >= self.settings.cost(self.length(left))
    }

    fn request(candidate: CandidateIndex, workload: usize, length: TrialLength) -> Request {
        Request { candidate, workload, length, purpose: Purpose::Search }
    }
}
