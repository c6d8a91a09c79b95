//! The race: rounds in which the finalists and the baseline run at full length.
//!
//! Every two rounds, the weaker half according to the model of all trials drops out (sequential
//! halving: Karnin, Koren and Somekh, 2013). The leader, the candidate that would be recommended,
//! and the one that did best in its own trials are always among the finalists. A candidate that
//! becomes more likely to be the best than a finalist joins the race if the budget allows enough
//! rounds for it to win, or if all finalists have failed. These trials are the confirming trials.
//! While the gain over the baseline is significant, most rounds skip the baseline and spend its
//! trials on the finalists.
//!
//! The race ends when the candidate that would be recommended is close enough to the best with
//! enough probability, and its gain over the baseline is shown. Pairs of levels that were not tried
//! yet are tried before that ([`super::untested`]).
//!
//! With many workloads, a round consists of two batches with half of the workloads each, so that an
//! effect shared by the trials of a visit affects only half a round. After the first rounds,
//! workloads with little noise rest in some rounds ([`super::share`]).

use crate::confirm::{ConfirmingTrials, MIN_ROUNDS};
use crate::history::{Observation, Purpose, TrialLength};
use crate::model::{Belief, highest};
use crate::preference::Preference;
use crate::random::RandomStream;
use crate::space::{CandidateIndex, WorkloadIndex};
use crate::strategy::{Request, SearchEnd, StrategyPlan};

use super::{MAX_ROUNDS, PlanContext, share};

/// The most candidates per round in addition to the baseline.
pub(super) const MAX_FINALISTS: usize = 5;
/// Rounds between halvings of the field.
const ROUNDS_PER_FIELD: usize = 2;
/// The rounds that a candidate that joins later needs to win.
const ROUNDS_TO_WIN: usize = 6;
/// The rounds after which a setup may be confident although its gain is not shown, if the baseline
/// cannot be recommended instead.
const ROUNDS_WITHOUT_BASELINE: usize = 6;
/// The fewest workloads for which a round is split in two batches.
const MIN_WORKLOADS_TO_HALVE: usize = 4;
/// Selects the random stream that splits the workloads.
const HALVING: u64 = 0x6861_6c76;
/// Rounds between repeats of a skipped baseline, which detect drift.
const BASELINE_EVERY_ROUNDS: usize = 3;

impl PlanContext<'_> {
    fn confirming_trials(&self) -> impl Iterator<Item = &Observation> + Clone {
        self.history.iter().filter(|observation| observation.proposal.purpose == Purpose::Confirm)
    }

    /// The index of the first observation after the last trial of the search. Search trials during
    /// a race only test pairs of levels.
    pub(super) fn race_start(&self) -> usize {
        let mut start = 0;
        let opening_end = self.opening_end();
        let mut raced: Vec<&Observation> = Vec::new();
        for (at, observation) in self.history.iter().enumerate() {
            match observation.proposal.purpose {
                Purpose::Confirm => raced.push(observation),
                Purpose::Search
                    if (at >= opening_end && start < opening_end)
                        || !self.is_race(&raced, &self.history[..start]) =>
                {
                    start = at + 1;
                    raced.clear();
                }
                Purpose::Search | Purpose::Baseline => {}
            }
        }
        start
    }

    /// Whether these confirming trials are not only of the leader of a search that goes on. As many
    /// rounds of one candidate may be either; they are a race if what came `before` them took all
    /// that the search may spend.
    fn is_race(&self, trials: &[&Observation], before: &[Observation]) -> bool {
        let mut rounds: Vec<u32> = trials.iter().map(|trial| trial.proposal.repeat).collect();
        rounds.dedup();
        let candidates = candidates_of(trials.iter().copied());
        let finalists = candidates.iter().filter(|index| **index != self.space.baseline);
        rounds.len() > MIN_ROUNDS
            || finalists.count() > 1
            || (rounds.len() == MIN_ROUNDS && !self.can_explore(self.left_to_search(before)))
    }

    /// Whether finalists run, and not only the leader of a search that goes on.
    pub(super) fn is_racing(&self) -> bool {
        self.rounds() > MIN_ROUNDS || self.finalists().len() > 1
    }

    /// The candidates that are in the race next to the baseline.
    pub(super) fn finalists(&self) -> Vec<CandidateIndex> {
        let mut raced = self.raced_candidates();
        raced.retain(|&index| index != self.space.baseline);
        raced
    }

    /// All candidates that are in the race, sorted.
    pub(super) fn raced_candidates(&self) -> Vec<CandidateIndex> {
        candidates_of(self.confirming_trials().skip(self.confirmed_before()))
    }

    /// All candidates with confirming trials after the first `opened`, sorted.
    pub(super) fn confirmed_candidates(&self, opened: usize) -> Vec<CandidateIndex> {
        candidates_of(self.confirming_trials().skip(opened))
    }

    /// The number of confirming trials before the last trial of the search.
    fn confirmed_before(&self) -> usize {
        let before = self.history[..self.race_start()].iter();
        before.filter(|observation| observation.proposal.purpose == Purpose::Confirm).count()
    }

    /// The number of the race's first round.
    pub(super) fn first_round(&self) -> usize {
        rounds_of(self.confirming_trials().take(self.confirmed_before()))
    }

    /// The rounds of the race so far.
    pub(super) fn rounds(&self) -> usize {
        rounds_of(self.confirming_trials()) - self.first_round()
    }

    /// The workloads of a round: all, or after the first rounds those that need more trials.
    fn workloads_of(&self, round: usize) -> Vec<WorkloadIndex> {
        let all = 0..self.workloads();
        if round < self.first_round() + MIN_ROUNDS {
            return all.collect();
        }
        // The trials of the round itself must not change what it consists of.
        let before: Vec<Observation> = self
            .history
            .iter()
            .filter(|observation| {
                observation.proposal.purpose != Purpose::Confirm
                    || (observation.proposal.repeat as usize) < round
            })
            .copied()
            .collect();
        let shares = share::of_rounds(self.space, &before);
        all.filter(|&workload| share::is_due(shares[workload], round)).collect()
    }

    /// The workloads of the first batch of a round.
    pub(super) fn first_half(&self, round: usize) -> Vec<WorkloadIndex> {
        let mut workloads = self.workloads_of(round);
        if workloads.len() >= MIN_WORKLOADS_TO_HALVE {
            RandomStream::stream(self.settings.seed ^ HALVING, round as u64)
                .shuffle(&mut workloads);
            workloads.truncate(workloads.len().div_ceil(2));
        }
        workloads
    }

    /// The missing trials of the last round: its remaining candidates under the workloads that none
    /// of them ran under. `None` if only the baseline remains, which has nothing to be compared
    /// with.
    pub(super) fn rest_of_round(&self) -> Option<Vec<Request>> {
        let race = self.confirming_trials();
        let round = race.clone().map(|observation| observation.proposal.repeat).max()?;
        if (round as usize) < self.first_round() {
            return None;
        }
        let made: Vec<&Observation> =
            race.filter(|observation| observation.proposal.repeat == round).collect();
        let is_new = |workload: &WorkloadIndex| {
            made.iter().all(|observation| observation.proposal.workload != *workload)
        };
        let workloads: Vec<WorkloadIndex> =
            self.workloads_of(round as usize).into_iter().filter(is_new).collect();
        let mut racing: Vec<CandidateIndex> =
            made.iter().map(|observation| observation.proposal.candidate).collect();
        racing.sort_unstable();
        racing.dedup();
        racing.retain(|index| self.table.excluded(*index).is_none());
        if racing == [self.space.baseline] {
            return None;
        }
        let rest = Self::confirming(&racing, &workloads);
        (!rest.is_empty()).then_some(rest)
    }

    pub(super) fn confirming(
        racing: &[CandidateIndex],
        workloads: &[WorkloadIndex],
    ) -> Vec<Request> {
        let of = |&candidate: &CandidateIndex| {
            workloads.iter().map(move |&workload| Request {
                purpose: Purpose::Confirm,
                ..Self::request(candidate, workload, TrialLength::Full)
            })
        };
        racing.iter().flat_map(of).collect()
    }

    /// The next round or the end.
    pub(super) fn race(&self, belief: &Belief) -> StrategyPlan {
        let rounds = self.rounds();
        let raced = self.raced_candidates();
        let is_raced = |index: &CandidateIndex| raced.binary_search(index).is_ok();
        let baseline = self.space.baseline;
        let left = self.settings.remaining(self.history).max(0.0);
        let round = self.first_round() + rounds;
        let per_candidate = self.workloads_of(round).len().max(1) as f64;
        let affordable = ((left + 1e-9) / per_candidate).min(1e6) as usize;

        let confirmed = ConfirmingTrials::of(self.space, self.history);
        let goal = self.settings.goal;
        let preference =
            Preference { space: self.space, belief, confirmed: &confirmed, goal, wear: &[] };
        let measured = self.table.candidates();
        let leader = belief.candidates.iter().copied().find(|index| is_raced(index));
        let leader = leader.or_else(|| belief.candidates.first().copied());
        // A candidate that was not raced yet can still be confirmed if there is budget for it.
        let can_join = affordable >= 2 * MIN_ROUNDS;
        let preferred = leader.map(|leader| {
            preference.preferred(leader, |candidate| {
                preference.is_confirmed(candidate)
                    || is_raced(&candidate)
                    || (can_join && measured.binary_search(&candidate).is_ok())
            })
        });

        let probability = preferred.map_or(0.0, |preferred| preference.probability(preferred));
        let confident = probability >= self.required_probability();
        let baseline_runs = self.table.excluded(baseline).is_none();
        let no_alternative = !baseline_runs || !self.space.candidates[baseline].allowed;
        let settled = preferred.is_some_and(|preferred| {
            preference.is_confirmed(preferred)
                && (preference.is_settled(preferred)
                    || (no_alternative && rounds >= ROUNDS_WITHOUT_BASELINE))
        });
        let is_sure = confident && rounds >= MIN_ROUNDS && settled;
        if is_sure {
            return StrategyPlan::Done(SearchEnd::Confident { probability });
        }

        let gain_is_shown = |candidate: Option<CandidateIndex>| {
            candidate
                .is_some_and(|candidate| candidate != baseline && preference.is_settled(candidate))
        };
        let baseline_rests = gain_is_shown(preferred)
            && gain_is_shown(leader)
            && rounds >= MIN_ROUNDS
            && rounds % BASELINE_EVERY_ROUNDS != 0;
        let baseline_slots = usize::from(baseline_runs && !baseline_rests);
        let field = if rounds == 0 {
            // Prefer fewer finalists to too few rounds for a decision.
            MAX_FINALISTS.min((affordable / MIN_ROUNDS).saturating_sub(baseline_slots)).max(1)
        } else {
            let first = MAX_FINALISTS.min(raced.len());
            let field = first.div_ceil(1 << (rounds / ROUNDS_PER_FIELD).min(8)).max(2);
            // Enough must be left to confirm one of them.
            let later = MIN_ROUNDS.saturating_sub(rounds + 1) * (1 + baseline_slots);
            field.min(affordable.saturating_sub(baseline_slots + later)).max(1)
        };
        // With a small budget, a finalist that dropped out cannot get enough rounds any more.
        let rounds_left = affordable / (1 + baseline_slots);
        let can_be_confirmed = |index: &CandidateIndex| {
            confirmed.rounds(*index) + rounds_left >= MIN_ROUNDS || rounds == 0
        };
        let is_left = |index: &CandidateIndex| {
            *index != baseline && self.eligible.binary_search(index).is_ok()
        };
        let open =
            !raced.iter().any(is_left) || affordable >= ROUNDS_TO_WIN * (field + baseline_slots);
        let mut order: Vec<CandidateIndex> = leader.into_iter().collect();
        order.extend(preferred);
        order.extend(self.observed_best().filter(|_| rounds < MIN_ROUNDS));
        order.extend(by_probability_of_best(belief));
        let mut finalists: Vec<CandidateIndex> = Vec::new();
        if order.iter().any(|index| is_left(index) && can_be_confirmed(index)) {
            order.retain(can_be_confirmed);
        }
        let has_others = order.iter().any(is_left);
        for index in order {
            let may_run = is_left(&index)
                && (open || is_raced(&index) || rounds == 0 || Some(index) == preferred)
                && !finalists.contains(&index);
            if may_run && finalists.len() < field {
                finalists.push(index);
            }
        }
        if finalists.is_empty() && has_others {
            // The budget is not enough to confirm any of them.
            return StrategyPlan::Done(SearchEnd::Budget);
        }
        if finalists.is_empty() {
            // All failed, or a replay lacks their full-length trials.
            return StrategyPlan::Done(SearchEnd::Exhausted);
        }
        if affordable < finalists.len() + baseline_slots {
            return StrategyPlan::Done(SearchEnd::Budget);
        }
        if rounds >= MAX_ROUNDS {
            return StrategyPlan::Done(SearchEnd::Exhausted);
        }
        let baseline = (baseline_slots > 0).then_some(baseline);
        let racing: Vec<CandidateIndex> = baseline.into_iter().chain(finalists).collect();
        StrategyPlan::Try(Self::confirming(&racing, &self.first_half(round)))
    }

    /// The eligible candidate with the best full-length trials, compared with the others under the
    /// same workloads, among those that were measured under the most workloads.
    fn observed_best(&self) -> Option<CandidateIndex> {
        let mut levels = vec![(0.0, 0.0); self.workloads()];
        let mut cells: Vec<(CandidateIndex, WorkloadIndex, f64)> = Vec::new();
        for (candidate, workload, cell) in self.table.cells() {
            let full: Vec<f64> = cell
                .iter()
                .filter(|observation| observation.proposal.length == TrialLength::Full)
                .filter_map(Observation::log_merit)
                .collect();
            if !full.is_empty() {
                let mean = full.iter().sum::<f64>() / full.len() as f64;
                levels[workload].0 += mean;
                levels[workload].1 += 1.0;
                cells.push((candidate, workload, mean));
            }
        }
        let weights = self.space.weights();
        let mut best: Option<(f64, f64, CandidateIndex)> = None;
        for of_candidate in cells.chunk_by(|a, b| a.0 == b.0) {
            let candidate = of_candidate[0].0;
            if self.eligible.binary_search(&candidate).is_err() {
                continue;
            }
            let covered: f64 = of_candidate.iter().map(|cell| weights[cell.1]).sum();
            let above = |cell: &(CandidateIndex, WorkloadIndex, f64)| {
                let (sum, count) = levels[cell.1];
                weights[cell.1] * (cell.2 - sum / count)
            };
            let score = of_candidate.iter().map(above).sum::<f64>() / covered;
            if best.is_none_or(|(known, most, _)| (covered, score) > (known, most)) {
                best = Some((covered, score, candidate));
            }
        }
        best.map(|(.., candidate)| candidate)
    }
}

fn candidates_of<'a>(trials: impl Iterator<Item = &'a Observation>) -> Vec<CandidateIndex> {
    let mut candidates: Vec<CandidateIndex> =
        trials.map(|observation| observation.proposal.candidate).collect();
    candidates.sort_unstable();
    candidates.dedup();
    candidates
}

fn rounds_of<'a>(trials: impl Iterator<Item = &'a Observation>) -> usize {
    let last = trials.map(|observation| observation.proposal.repeat).max();
    last.map_or(0, |last| last as usize + 1)
}

/// The candidates by probability of being the best, then by mean, except that the candidate with
/// the highest mean, the current choice, comes first.
fn by_probability_of_best(belief: &Belief) -> Vec<CandidateIndex> {
    let mut order: Vec<usize> = (0..belief.candidates.len()).collect();
    order.sort_by(|&a, &b| {
        belief.best[b].total_cmp(&belief.best[a]).then(belief.means[b].total_cmp(&belief.means[a]))
    });
    let leader = highest(&belief.means).map(|(at, _)| at);
    order.sort_by_key(|at| Some(*at) != leader);
    order.into_iter().map(|at| belief.candidates[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Batch, Proposal, TrialOutcome};
    use crate::landscape::small_space;
    use crate::settings::SearchSettings;
    use crate::space::SearchSpace;

    /// The trials of batches after each other: their purpose, candidate and count.
    fn history(
        space: &SearchSpace,
        batches: &[(Purpose, CandidateIndex, usize)],
    ) -> Vec<Observation> {
        let mut made: Vec<Observation> = Vec::new();
        for (number, &(purpose, candidate, count)) in (0..).zip(batches) {
            for at in 0..count {
                let candidates = match purpose {
                    Purpose::Confirm => vec![space.baseline, candidate],
                    Purpose::Search | Purpose::Baseline => vec![candidate],
                };
                for candidate in candidates {
                    let proposal = Proposal {
                        candidate,
                        workload: 0,
                        length: TrialLength::Full,
                        purpose,
                        repeat: u32::try_from(at).expect("few"),
                        batch: Batch { number, size: 0 },
                    };
                    let outcome = TrialOutcome::Measured { log_merit: 1.0, excess: None };
                    let visit = made.len() as u64;
                    made.push(Observation { proposal, visit, start: 0, outcome });
                }
            }
        }
        made
    }

    #[test]
    fn trials_of_pairs_do_not_reset_a_race_of_one_finalist() {
        let space = small_space(48, 1, 1).space;
        let settings = SearchSettings { trials: Some(50.0), ..SearchSettings::default() };
        let finalist = if space.baseline == 7 { 8 } else { 7 };
        let race = |searched: usize, pairs: usize| {
            let batches = [
                (Purpose::Search, finalist, searched),
                (Purpose::Confirm, finalist, MIN_ROUNDS),
                (Purpose::Search, finalist, pairs),
            ];
            let history = history(&space, &batches);
            let context = PlanContext::of(&space, &history, &settings);
            (context.race_start(), context.rounds())
        };
        let share = PlanContext::of(&space, &[], &settings).search_share() as usize;
        assert_eq!(race(share, 0), (share, MIN_ROUNDS));
        assert_eq!(race(share, 2), (share, MIN_ROUNDS));
        // The leader of a search that goes on is only confirmed meanwhile.
        assert_eq!(race(share / 2, 2), (share / 2 + 2 * MIN_ROUNDS + 2, 0));
    }
}
