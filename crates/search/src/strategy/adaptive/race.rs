//! The race: rounds in which the finalists and the untuned reference run under every workload in
//! full length. Every two rounds the weaker half is out (sequential halving: Karnin, Koren and
//! Somekh, 2013), as the model of all trials sees it. Who the rounds have shown to be more probably
//! the best than those in the race joins it, as long as it can be measured often enough to win, or
//! when all of those have dropped out. These trials are the confirming ones. The reference rests
//! while the leader's gain over it is sure: what is left then tells the finalists apart.
//!
//! Under many workloads a round is two batches, each under half of them: what the trials of a visit
//! have in common is then in half a round only.

use crate::confirm::ConfirmingTrials;
use crate::history::{Observation, Purpose, TrialLength};
use crate::model::{Belief, highest};
use crate::random::RandomStream;
use crate::space::{CandidateIndex, WorkloadIndex};
use crate::strategy::{Request, SearchEnd, StrategyPlan};

use super::{MOST_ROUNDS, Situation};

/// How many run beside the reference in a round at the most.
pub(super) const MOST_FINALISTS: usize = 5;
/// How many rounds the field is kept for.
const ROUNDS_A_FIELD: usize = 2;
/// So many rounds there are at the least before a race is decided; and so many to see whether the
/// leader's gain over the reference can be told from noise.
const LEAST_ROUNDS: usize = 3;
const ROUNDS_FOR_A_GAIN: usize = 6;
/// A round under so many workloads is halved.
const LEAST_TO_HALVE: usize = 4;
/// Which workloads are in a half is drawn from a stream of its own.
const HALVING: u64 = 0x6861_6c76;
/// A reference that rests is back every so many rounds, to see drift.
const SENTINEL_ROUNDS: usize = 3;

impl Situation<'_> {
    /// Who was in the race so far beside the reference.
    pub(super) fn raced(&self) -> Vec<CandidateIndex> {
        let race = self.history.iter().filter(|told| told.ask.purpose == Purpose::Confirm);
        let mut raced: Vec<CandidateIndex> = race.map(|told| told.ask.candidate).collect();
        raced.sort_unstable();
        raced.dedup();
        raced
    }

    fn rounds(&self) -> usize {
        let race = self.history.iter().filter(|told| told.ask.purpose == Purpose::Confirm);
        let mut rounds: Vec<u32> = race.map(|told| told.ask.repeat).collect();
        rounds.sort_unstable();
        rounds.dedup();
        rounds.len()
    }

    /// The workloads of a round's first batch.
    fn first_half(&self, round: usize) -> Vec<WorkloadIndex> {
        let mut workloads: Vec<WorkloadIndex> = (0..self.workloads()).collect();
        if workloads.len() >= LEAST_TO_HALVE {
            RandomStream::stream(self.limits.seed ^ HALVING, round as u64).shuffle(&mut workloads);
            workloads.truncate(workloads.len().div_ceil(2));
        }
        workloads
    }

    /// Those trials of the last round that are yet to be made: of its candidates, but for those
    /// that have dropped out, under the workloads that none of them ran under. The reference alone
    /// would tell nothing.
    pub(super) fn rest_of_round(&self) -> Option<Vec<Request>> {
        let race = self.history.iter().filter(|told| told.ask.purpose == Purpose::Confirm);
        let round = race.clone().map(|told| told.ask.repeat).max()?;
        let made: Vec<&Observation> = race.filter(|told| told.ask.repeat == round).collect();
        let is_new =
            |workload: &WorkloadIndex| made.iter().all(|told| told.ask.workload != *workload);
        let workloads: Vec<WorkloadIndex> = (0..self.workloads()).filter(is_new).collect();
        let mut racing: Vec<CandidateIndex> = made.iter().map(|told| told.ask.candidate).collect();
        racing.sort_unstable();
        racing.dedup();
        racing.retain(|index| self.table.out(*index).is_none());
        if racing == [self.space.reference] {
            return None;
        }
        let rest = Self::confirming(&racing, &workloads);
        (!rest.is_empty()).then_some(rest)
    }

    fn confirming(racing: &[CandidateIndex], workloads: &[WorkloadIndex]) -> Vec<Request> {
        let of = |&candidate: &CandidateIndex| {
            workloads.iter().map(move |&workload| Request {
                purpose: Purpose::Confirm,
                ..Self::wish(candidate, workload, TrialLength::Full)
            })
        };
        racing.iter().flat_map(of).collect()
    }

    /// Whether the leader's gain over the reference is sure from the rounds that had both.
    fn beats_reference(&self, leader: CandidateIndex) -> bool {
        let gain =
            ConfirmingTrials::of(self.space, self.history).gain(leader, self.space.reference);
        gain.is_some_and(|gain| gain.is_sure())
    }

    /// The next round, or the end. `probability` is that of the choice being near enough.
    pub(super) fn race(&self, belief: &Belief, probability: f64) -> StrategyPlan {
        let rounds = self.rounds();
        let raced = self.raced();
        let reference = self.space.reference;
        let sure = probability >= self.limits.goal.probability;
        let is_raced = |index: &&CandidateIndex| raced.binary_search(index).is_ok();
        let leader = belief.candidates.iter().find(is_raced);
        let gains = leader.is_some_and(|&leader| self.beats_reference(leader));
        let is_told = gains || rounds >= ROUNDS_FOR_A_GAIN || leader == Some(&reference);
        if sure && rounds >= LEAST_ROUNDS && is_told {
            return StrategyPlan::Done(SearchEnd::SureEnough { probability });
        }
        let rests = gains && rounds >= LEAST_ROUNDS && rounds % SENTINEL_ROUNDS != 0;
        let left = self.limits.left(self.history).max(0.0);
        let affordable = ((left + 1e-9) / self.workloads() as f64).min(1e6) as usize;
        let beside = usize::from(self.table.out(reference).is_none() && !rests);
        let field = if rounds == 0 {
            // Rather fewer finalists than so few rounds that nothing can be told.
            MOST_FINALISTS.min((affordable / LEAST_ROUNDS).saturating_sub(beside)).max(1)
        } else {
            let first = MOST_FINALISTS.min(raced.len());
            let field = first.div_ceil(1 << (rounds / ROUNDS_A_FIELD)).max(2);
            field.min(affordable.saturating_sub(beside))
        };
        let is_left = |index: &CandidateIndex| {
            *index != reference && self.eligible.binary_search(index).is_ok()
        };
        let open = !raced.iter().any(is_left) || affordable >= ROUNDS_FOR_A_GAIN * (field + beside);
        let finalists: Vec<CandidateIndex> = by_chance(belief)
            .into_iter()
            .filter(|&index| index != reference)
            .filter(|index| open || raced.binary_search(index).is_ok())
            .take(field)
            .collect();
        if finalists.is_empty() || affordable < finalists.len() + beside {
            let stop = if sure { SearchEnd::SureEnough { probability } } else { SearchEnd::Budget };
            return StrategyPlan::Done(stop);
        }
        if rounds >= MOST_ROUNDS {
            return StrategyPlan::Done(SearchEnd::Exhausted);
        }
        let reference = (beside > 0).then_some(reference);
        let racing: Vec<CandidateIndex> = reference.into_iter().chain(finalists).collect();
        StrategyPlan::Try(Self::confirming(&racing, &self.first_half(rounds)))
    }
}

/// The candidates by their probability of being the best, then by their means; before all the one
/// of the highest mean, which would be chosen now.
fn by_chance(belief: &Belief) -> Vec<CandidateIndex> {
    let mut order: Vec<usize> = (0..belief.candidates.len()).collect();
    order.sort_by(|&a, &b| {
        belief.best[b].total_cmp(&belief.best[a]).then(belief.means[b].total_cmp(&belief.means[a]))
    });
    let leader = highest(&belief.means).map(|(at, _)| at);
    order.sort_by_key(|at| Some(*at) != leader);
    order.into_iter().map(|at| belief.candidates[at]).collect()
}
