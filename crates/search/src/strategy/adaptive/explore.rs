//! A batch of the search. Most visits go to candidates that may be the best, each as often as it is
//! probable (top-two Thompson sampling: D. Russo, Simple Bayesian Algorithms for Best-Arm
//! Identification, 2020). Because the model may be wrong where it is sure, one visit of 24 goes to
//! a neighbour of a leader, and one to any candidate that is not hopeless.

use crate::history::{Purpose, TrialLength};
use crate::model::{Belief, highest};
use crate::space::CandidateIndex;
use crate::strategy::Request;

use super::{AMPLE, RACE_SHARE, Situation};

/// How many visits a batch has: so many, and more when the model, having much to fit, thinks
/// longer; but few where the whole search has only a few batches' worth.
const VISITS: usize = 8;
const SHARE_OF_MEASURED: usize = 8;
const BATCHES: f64 = 20.0;
/// The share of the search, from its end, that is measured in full length, and the share of what is
/// beyond [`AMPLE`]: there is a long race then, and the search does better to see much.
const FULL_SHARE: f64 = 0.7;
const FULL_SHARE_BEYOND: f64 = 0.2;
/// The most short trials: their cells are to leave room for others in the model.
const MOST_SHORT: f64 = 1125.0;
/// Neighbours are sought of so many leaders, in so many differences.
const LEADERS: usize = 4;
const DIFFERENCES: usize = 2;
/// How often a visit is drawn again that is in the batch already.
const DRAWS: usize = 8;
/// Of so many visits one goes to a neighbour and one to any candidate.
const HEDGES: usize = 24;
/// Every so many visits the reference is visited again, to see drift.
const SENTINEL_VISITS: usize = 20;

impl Situation<'_> {
    /// How long trials are, with so much left for the search.
    pub(super) fn length(&self, left: f64) -> TrialLength {
        let early = left > self.full_share();
        if self.limits.short.is_some() && early { TrialLength::Short } else { TrialLength::Full }
    }

    /// How much of the search is in full length, from its end.
    fn full_share(&self) -> f64 {
        let search = self.search_share();
        let ample = search.min((1.0 - RACE_SHARE) * AMPLE * self.workloads() as f64);
        let full = FULL_SHARE * ample + FULL_SHARE_BEYOND * (search - ample);
        full.max(search - MOST_SHORT * self.limits.cost(TrialLength::Short))
    }

    /// A batch, within what is left for the search.
    pub(super) fn explore(&mut self, belief: &Belief, left: f64) -> Vec<Request> {
        let wanted = self.visits(left);
        let mut visits: Vec<CandidateIndex> = Vec::new();
        for _ in 0..wanted {
            let drawn = (0..DRAWS).find_map(|_| {
                let next = match self.random.below(HEDGES) {
                    0 => self.neighbour(belief),
                    1 => self.any(belief),
                    _ => self.top_two(belief),
                };
                next.filter(|index| !visits.contains(index))
            });
            visits.extend(drawn);
        }
        if visits.is_empty() {
            visits.extend(belief.candidates.first());
        }
        let length = self.length(left);
        let per_visit = self.per_visit();
        let mut wishes = Vec::new();
        for candidate in visits {
            for workload in self.least_measured(candidate, per_visit) {
                wishes.push(Self::wish(candidate, workload, length));
            }
        }
        if self.table.out(self.space.reference).is_none() && self.sentinel_is_due(wanted) {
            for workload in self.least_measured(self.space.reference, per_visit) {
                let wish = Self::wish(self.space.reference, workload, length);
                wishes.push(Request { purpose: Purpose::Sentinel, ..wish });
            }
        }
        let mut left = left + 1e-9;
        wishes.retain(|wish| {
            left -= self.limits.cost(wish.length);
            left >= 0.0
        });
        wishes
    }

    fn visits(&self, left: f64) -> usize {
        let measured = self.table.candidates().len();
        let cost = self.limits.cost(self.length(left)) * self.per_visit() as f64;
        let few = (self.search_share() / cost / BATCHES).min(1e6) as usize;
        VISITS.max(measured / SHARE_OF_MEASURED).min(few).max(2)
    }

    /// The workloads under which a candidate was tried least, in random order among equals.
    fn least_measured(&mut self, candidate: CandidateIndex, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.workloads()).collect();
        self.random.shuffle(&mut order);
        order.sort_by_key(|&workload| self.table.cell(candidate, workload).len());
        order.truncate(count);
        order
    }

    fn sentinel_is_due(&self, visits: usize) -> bool {
        let trials = |told: &&crate::history::Observation| told.ask.purpose == Purpose::Sentinel;
        let since = self.history.iter().rev().take_while(|told| !trials(told)).count();
        since / self.per_visit() + visits >= SENTINEL_VISITS
    }

    fn top_two(&mut self, belief: &Belief) -> Option<CandidateIndex> {
        let draw = |random: &mut crate::random::RandomStream| {
            let draws = &belief.draws;
            (!draws.is_empty())
                .then(|| highest(&draws[random.below(draws.len())]))
                .flatten()
                .map(|(at, _)| belief.candidates[at])
        };
        let leader = draw(&mut self.random)?;
        if self.random.unit() < 0.5 {
            return Some(leader);
        }
        let challengers = (0..DRAWS).filter_map(|_| draw(&mut self.random));
        Some(challengers.into_iter().find(|index| *index != leader).unwrap_or(leader))
    }

    fn neighbour(&mut self, belief: &Belief) -> Option<CandidateIndex> {
        let leaders = belief.candidates.len().min(LEADERS);
        let leader = *belief.candidates.get(self.random.below(leaders.max(1)))?;
        let levels = &self.space.candidates[leader].levels;
        let differences = |index: CandidateIndex| {
            let other = &self.space.candidates[index].levels;
            levels.iter().zip(other).filter(|(a, b)| a != b).count()
        };
        let is_near = |index: &CandidateIndex| (1..=DIFFERENCES).contains(&differences(*index));
        let near: Vec<CandidateIndex> = self.eligible.iter().copied().filter(is_near).collect();
        (!near.is_empty()).then(|| near[self.random.below(near.len())])
    }

    fn any(&mut self, belief: &Belief) -> Option<CandidateIndex> {
        let count = belief.candidates.len();
        (count > 0).then(|| belief.candidates[self.random.below(count)])
    }
}

#[cfg(test)]
mod tests {
    use crate::landscape::LandscapeKind;
    use crate::limits::{Limits, ShortRun};

    use super::*;

    #[test]
    fn an_ample_search_sees_more_in_short_trials_but_not_more_than_the_model_has_room_for() {
        let space = LandscapeKind::Smooth.make(0).space;
        let short_share = |trials: Option<f64>| {
            let short = Some(ShortRun { cost: 0.4 });
            let limits = Limits { trials, short, ..Limits::default() };
            let situation = Situation::of(&space, &[], &limits);
            (situation.search_share() - situation.full_share()) / situation.search_share()
        };
        assert!((short_share(Some(100.0)) - 0.3).abs() < 1e-9);
        assert!((short_share(Some(480.0)) - 0.3).abs() < 1e-9);
        assert!((0.45..0.55).contains(&short_share(Some(1000.0))));
        assert!((short_share(None) - 0.3).abs() < 1e-9);
    }
}
