//! Batches of the search phase: most visits go to candidates with a frequency proportional to their
//! probability of being the best (top-two Thompson sampling: D. Russo, Simple Bayesian Algorithms
//! for Best-Arm Identification, 2020). In case the model is confident but wrong, one visit in 24
//! goes to a neighbor of a leader and one to any candidate that the model considers plausible.

use crate::history::{Purpose, TrialLength};
use crate::model::{Belief, highest};
use crate::space::CandidateIndex;
use crate::strategy::Request;

use super::{AMPLE, PlanContext, RACE_SHARE};

/// Visits per batch. It grows with the number of measured candidates because fitting the model then
/// takes longer, and shrinks when the whole search has room for only a few batches.
const VISITS: usize = 8;
const SHARE_OF_MEASURED: usize = 8;
const BATCHES: f64 = 20.0;
/// The final share of the search phase that uses full-length trials, and that share for the budget
/// beyond [`AMPLE`]. An ample budget has a long race, so the search can afford more short trials.
const FULL_SHARE: f64 = 0.7;
const FULL_SHARE_BEYOND: f64 = 0.2;
/// The most short trials; their cells must leave room for others in the model.
const MAX_SHORT_TRIALS: f64 = 1125.0;
/// Neighbors differ from one of the best `LEADERS` candidates in up to `DIFFERENCES` factors.
const LEADERS: usize = 4;
const DIFFERENCES: usize = 2;
/// Attempts to draw a candidate that is not in the batch yet.
const DRAWS: usize = 8;
/// One visit in this many goes to a neighbor, and one to any candidate.
const EXPLORATION_INTERVAL: usize = 24;
/// The least share of the trials, divided among all families, and the standard deviations by which
/// the best of a family must be below the leader to be ruled out.
const FAMILIES_SHARE: f64 = 0.3;
const RULED_OUT_SDS: f64 = 3.0;
/// Visits between repeats of the baseline, which detect drift.
const BASELINE_EVERY_VISITS: usize = 20;

impl PlanContext<'_> {
    /// The length of trials when `left` remains of the search budget.
    pub(super) fn length(&self, left: f64) -> TrialLength {
        let early = left > self.full_share();
        if self.settings.short.is_some() && early { TrialLength::Short } else { TrialLength::Full }
    }

    /// The final part of the search budget that is spent on full-length trials.
    fn full_share(&self) -> f64 {
        let search = self.search_share();
        let ample = search.min((1.0 - RACE_SHARE) * AMPLE * self.workloads() as f64);
        let full = FULL_SHARE * ample + FULL_SHARE_BEYOND * (search - ample);
        full.max(search - MAX_SHORT_TRIALS * self.settings.cost(TrialLength::Short))
    }

    /// A batch that fits what remains of the search budget.
    pub(super) fn explore(&mut self, belief: &Belief, left: f64) -> Vec<Request> {
        let wanted = self.visits(left);
        let mut visits: Vec<CandidateIndex> = self.neglected_family(belief).into_iter().collect();
        while visits.len() < wanted {
            let drawn = (0..DRAWS).find_map(|_| {
                let next = match self.random.below(EXPLORATION_INTERVAL) {
                    0 => self.neighbor(belief),
                    1 => self.any(belief),
                    _ => self.top_two(belief),
                };
                next.filter(|index| !visits.contains(index))
            });
            let Some(drawn) = drawn else { break };
            visits.push(drawn);
        }
        if visits.is_empty() {
            visits.extend(belief.candidates.first());
        }
        let length = self.length(left);
        let per_visit = self.per_visit();
        let mut requests = Vec::new();
        for candidate in visits {
            for workload in self.least_measured(candidate, per_visit) {
                requests.push(Self::request(candidate, workload, length));
            }
        }
        if self.table.excluded(self.space.baseline).is_none() && self.baseline_is_due(wanted) {
            for workload in self.least_measured(self.space.baseline, per_visit) {
                let request = Self::request(self.space.baseline, workload, length);
                requests.push(Request { purpose: Purpose::Baseline, ..request });
            }
        }
        let mut left = left + 1e-9;
        requests.retain(|request| {
            left -= self.settings.cost(request.length);
            left >= 0.0
        });
        requests
    }

    fn visits(&self, left: f64) -> usize {
        let measured = self.table.candidates().len();
        let cost = self.settings.cost(self.length(left)) * self.per_visit() as f64;
        let few = (self.search_share() / cost / BATCHES).min(1e6) as usize;
        VISITS.max(measured / SHARE_OF_MEASURED).min(few).max(2)
    }

    /// The workloads that need another trial of a candidate most: those without any, in random
    /// order, then those where one reduces the error of the merit most.
    pub(super) fn least_measured(&mut self, candidate: CandidateIndex, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.workloads()).collect();
        self.random.shuffle(&mut order);
        let rank = |workload: usize| {
            let made = self.table.cell(candidate, workload).len() as f64;
            made * (made + 1.0) / self.needs[workload].powi(2)
        };
        order.sort_by(|&a, &b| rank(a).total_cmp(&rank(b)));
        order.truncate(count);
        order
    }

    fn baseline_is_due(&self, visits: usize) -> bool {
        let trials = |observation: &&crate::history::Observation| {
            observation.proposal.purpose == Purpose::Baseline
        };
        let since =
            self.history.iter().rev().take_while(|observation| !trials(observation)).count();
        since / self.per_visit() + visits >= BASELINE_EVERY_VISITS
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

    fn neighbor(&mut self, belief: &Belief) -> Option<CandidateIndex> {
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

    /// The most promising candidate of a family that has less than its least share of the trials
    /// although it is not ruled out: with other effects than the model believes in, it might have
    /// the best candidate.
    fn neglected_family(&mut self, belief: &Belief) -> Option<CandidateIndex> {
        let leader = *belief.means.first()?;
        let families = self.space.families();
        let trials = self.table.trials();
        let count = |family: &Vec<CandidateIndex>| -> usize {
            family.iter().filter_map(|index| trials.get(index)).sum()
        };
        let all: usize = trials.values().sum();
        let least = all as f64 * FAMILIES_SHARE / families.len() as f64;
        let neglected = families.iter().filter(|family| (count(family) as f64) < least);
        let promising = neglected.filter_map(|family| {
            let of_family = |at: &usize| family.binary_search(&belief.candidates[*at]).is_ok();
            let best = |at: usize| belief.means[at] + RULED_OUT_SDS * belief.sds[at];
            let members = (0..belief.candidates.len()).filter(of_family);
            let most = members.max_by(|&a, &b| best(a).total_cmp(&best(b)))?;
            (best(most) >= leader).then_some((best(most), belief.candidates[most]))
        });
        promising.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, candidate)| candidate)
    }

    fn any(&mut self, belief: &Belief) -> Option<CandidateIndex> {
        let count = belief.candidates.len();
        (count > 0).then(|| belief.candidates[self.random.below(count)])
    }
}

#[cfg(test)]
mod tests {
    use crate::landscape::LandscapeKind;
    use crate::settings::{SearchSettings, ShortRun};

    use super::*;

    #[test]
    fn an_ample_budget_uses_more_short_trials_up_to_the_model_capacity() {
        let space = LandscapeKind::Smooth.make(0).space;
        let short_share = |trials: Option<f64>| {
            let short = Some(ShortRun { cost: 0.4 });
            let settings = SearchSettings { trials, short, ..SearchSettings::default() };
            let context = PlanContext::of(&space, &[], &settings);
            (context.search_share() - context.full_share()) / context.search_share()
        };
        assert!((short_share(Some(100.0)) - 0.3).abs() < 1e-9);
        assert!((short_share(Some(480.0)) - 0.3).abs() < 1e-9);
        assert!((0.45..0.55).contains(&short_share(Some(1000.0))));
        assert!((short_share(None) - 0.3).abs() < 1e-9);
    }
}
