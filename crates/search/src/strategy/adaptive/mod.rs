//! The adaptive search: a designed start, then trials where they may matter, then a race of the
//! finalists with fresh full-length trials beside the untuned reference.
//!
//! After every batch the model ([`crate::model`]) is fitted to all trials. The search goes on until
//! it is probable enough that some candidate is within the asked distance of the best, or its share
//! of the budget is spent; the race until that holds for the winner, or the budget ends. Short
//! trials, where there are any, serve the start and the first part of the search; what decides is
//! measured in full length.
//!
//! Limits: thinking takes time with the cube of what was measured, so no more than
//! [`MOST_SEARCH`] trials are searched with; what cannot be told by then the race tells or nothing.

mod explore;
mod learned;
mod race;
mod start;

use crate::history::{Observation, Purpose, TrialLength, TrialTable};
use crate::limits::Limits;
use crate::model::{Belief, Coding, Model, highest};
use crate::random::RandomStream;
use crate::space::{CandidateIndex, SearchSpace};

use super::scores::breaks_demand;
use super::{Request, SearchEnd, Strategy, StrategyPlan};
use learned::Learned;

/// The share of a budget that is kept for the race, and the share of what is beyond so many trials
/// a workload: with more trials the best is among the finalists sooner than it is told from them.
const RACE_SHARE: f64 = 0.2;
const RACE_SHARE_BEYOND: f64 = 0.5;
const AMPLE: f64 = 60.0;
/// A budget of which two rounds take more than this share has no race.
const MOST_LEAST_SHARE: f64 = 0.3;
/// The search is not begun to be ended by a race that barely confirms it: so much surer it has to
/// be than is asked for.
const SURER: f64 = 0.04;
/// The most full-length trials' worth that are searched with where there is no budget.
const MOST_SEARCH: f64 = 1500.0;
/// The most rounds of a race.
const MOST_ROUNDS: usize = 40;

/// The adaptive search.
#[derive(Debug, Default)]
pub struct Adaptive {
    /// What is in here never changes a plan.
    learned: Learned,
}

/// What a plan is made with.
struct Situation<'a> {
    space: &'a SearchSpace,
    limits: &'a Limits,
    history: &'a [Observation],
    table: TrialTable,
    /// Who may still be chosen.
    eligible: Vec<CandidateIndex>,
    random: RandomStream,
}

impl Strategy for Adaptive {
    fn plan(&self, space: &SearchSpace, history: &[Observation], limits: &Limits) -> StrategyPlan {
        let mut situation = Situation::of(space, history, limits);
        if situation.eligible.is_empty() {
            return StrategyPlan::Done(SearchEnd::Exhausted);
        }
        let coding = Coding::of(space, &situation.interest());
        if situation.table.candidates().is_empty() {
            return StrategyPlan::Try(situation.start(&coding));
        }
        if let Some(rest) = situation.rest_of_round() {
            return StrategyPlan::Try(rest);
        }
        let variances = self.learned.from(space, &coding, history);
        let model = Model::fit(space, &coding, history, variances);
        let belief =
            Belief::of(&model, &situation.eligible, limits.goal.within, &mut situation.random);
        let probability = belief.choice().map_or(0.0, |(_, probability)| probability);
        let racing = history.iter().any(|told| told.ask.purpose == Purpose::Confirm);
        let sure = probability >= limits.goal.probability + SURER * (1.0 - limits.goal.probability);
        let left = situation.search_share() - situation.searched();
        if !racing && !sure && left >= limits.cost(situation.length(left)) {
            let wishes = situation.explore(&belief, left);
            if !wishes.is_empty() {
                return StrategyPlan::Try(wishes);
            }
        }
        situation.race(&belief, probability)
    }

    fn most_trials(&self, space: &SearchSpace, limits: &Limits) -> f64 {
        let rounds = MOST_ROUNDS * (race::MOST_FINALISTS + 1) * space.workloads.len();
        limits.trials.unwrap_or(MOST_SEARCH + rounds as f64)
    }

    fn choice(
        &self,
        space: &SearchSpace,
        history: &[Observation],
        limits: &Limits,
    ) -> Option<CandidateIndex> {
        let mut situation = Situation::of(space, history, limits);
        let measured = situation.table.candidates();
        if situation.eligible.is_empty() || measured.is_empty() {
            return None;
        }
        let coding = Coding::of(space, &situation.interest());
        let variances = self.learned.from(space, &coding, history);
        let model = Model::fit(space, &coding, history, variances);
        // What was never tried is not chosen, however good it may be believed to be.
        let tried = |of: &[CandidateIndex]| -> Vec<CandidateIndex> {
            of.iter().copied().filter(|index| situation.eligible.contains(index)).collect()
        };
        let raced = tried(&situation.raced());
        let among = if raced.is_empty() { tried(&measured) } else { raced };
        let belief = Belief::of(&model, &among, limits.goal.within, &mut situation.random);
        highest(&belief.means).map(|(at, _)| belief.candidates[at])
    }
}

impl<'a> Situation<'a> {
    fn of(space: &'a SearchSpace, history: &'a [Observation], limits: &'a Limits) -> Self {
        let table = TrialTable::of(history, |_| true);
        let breaking: Vec<CandidateIndex> = table
            .cells()
            .filter(|(_, _, cell)| breaks_demand(cell))
            .map(|(candidate, _, _)| candidate)
            .collect();
        let eligible = (0..space.candidates.len())
            .filter(|&index| space.candidates[index].allowed && table.out(index).is_none())
            .filter(|index| breaking.binary_search(index).is_err())
            .collect();
        let random = RandomStream::stream(limits.seed, history.len() as u64 + 1);
        Self { space, limits, history, table, eligible, random }
    }

    /// The candidates that the model has to tell apart.
    fn interest(&self) -> Vec<CandidateIndex> {
        let wanted = |index: &CandidateIndex| {
            self.space.candidates[*index].allowed || *index == self.space.reference
        };
        (0..self.space.candidates.len()).filter(wanted).collect()
    }

    fn workloads(&self) -> usize {
        self.space.workloads.len()
    }

    /// What was spent on the search so far, in full-length trials.
    fn searched(&self) -> f64 {
        let search = self.history.iter().filter(|told| told.ask.purpose != Purpose::Confirm);
        search.map(|told| self.limits.cost(told.ask.length)).sum()
    }

    /// How much is spent on the search, in full-length trials. Two rounds of the reference and one
    /// finalist are kept back, unless they would take too much of all: then nothing is confirmed.
    fn search_share(&self) -> f64 {
        let Some(total) = self.limits.trials else { return MOST_SEARCH };
        let workloads = self.workloads() as f64;
        let least = 2.0 * 2.0 * workloads;
        if least > MOST_LEAST_SHARE * total {
            return total;
        }
        let beyond = (total - AMPLE * workloads).max(0.0);
        let race = RACE_SHARE * (total - beyond) + RACE_SHARE_BEYOND * beyond;
        (total - race.max(least)).min(MOST_SEARCH)
    }

    fn wish(candidate: CandidateIndex, workload: usize, length: TrialLength) -> Request {
        Request { candidate, workload, length, purpose: Purpose::Search }
    }
}
