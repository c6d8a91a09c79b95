//! The race: rounds in which the finalists and the baseline run under every workload at full
//! length.
//!
//! Every two rounds, the weaker half according to the model of all trials drops out (sequential
//! halving: Karnin, Koren and Somekh, 2013). A candidate that becomes more likely to be the best
//! than a finalist joins the race if the budget allows enough rounds for it to win, or if all
//! finalists have failed. These trials are the confirming trials. While the leader's gain over the
//! baseline is significant, most rounds skip the baseline and spend its trials on the finalists.
//!
//! With many workloads, a round consists of two batches with half of the workloads each, so that an
//! effect shared by the trials of a visit affects only half a round.

use crate::confirm::ConfirmingTrials;
use crate::history::{Observation, Purpose, TrialLength};
use crate::model::{Belief, highest};
use crate::random::RandomStream;
use crate::space::{CandidateIndex, WorkloadIndex};
use crate::strategy::{Request, SearchEnd, StrategyPlan};

use super::{MAX_ROUNDS, PlanContext};

/// The most candidates per round in addition to the baseline.
pub(super) const MAX_FINALISTS: usize = 5;
/// Rounds between halvings of the field.
const ROUNDS_PER_FIELD: usize = 2;
/// The fewest rounds before a race is decided, and the rounds after which the leader's gain over
/// the baseline counts as settled even if it is not significant.
const MIN_ROUNDS: usize = 3;
const ROUNDS_FOR_A_GAIN: usize = 6;
/// The fewest workloads for which a round is split in two batches.
const MIN_WORKLOADS_TO_HALVE: usize = 4;
/// Selects the random stream that splits the workloads.
const HALVING: u64 = 0x6861_6c76;
/// Rounds between repeats of a skipped baseline, which detect drift.
const BASELINE_EVERY_ROUNDS: usize = 3;

impl PlanContext<'_> {
    /// All candidates that were in the race so far, sorted.
    pub(super) fn raced_candidates(&self) -> Vec<CandidateIndex> {
        let race = self
            .history
            .iter()
            .filter(|observation| observation.proposal.purpose == Purpose::Confirm);
        let mut raced_candidates: Vec<CandidateIndex> =
            race.map(|observation| observation.proposal.candidate).collect();
        raced_candidates.sort_unstable();
        raced_candidates.dedup();
        raced_candidates
    }

    fn rounds(&self) -> usize {
        let race = self
            .history
            .iter()
            .filter(|observation| observation.proposal.purpose == Purpose::Confirm);
        let mut rounds: Vec<u32> = race.map(|observation| observation.proposal.repeat).collect();
        rounds.sort_unstable();
        rounds.dedup();
        rounds.len()
    }

    /// The workloads of the first batch of a round.
    fn first_half(&self, round: usize) -> Vec<WorkloadIndex> {
        let mut workloads: Vec<WorkloadIndex> = (0..self.workloads()).collect();
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
        let race = self
            .history
            .iter()
            .filter(|observation| observation.proposal.purpose == Purpose::Confirm);
        let round = race.clone().map(|observation| observation.proposal.repeat).max()?;
        let made: Vec<&Observation> =
            race.filter(|observation| observation.proposal.repeat == round).collect();
        let is_new = |workload: &WorkloadIndex| {
            made.iter().all(|observation| observation.proposal.workload != *workload)
        };
        let workloads: Vec<WorkloadIndex> = (0..self.workloads()).filter(is_new).collect();
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

    fn confirming(racing: &[CandidateIndex], workloads: &[WorkloadIndex]) -> Vec<Request> {
        let of = |&candidate: &CandidateIndex| {
            workloads.iter().map(move |&workload| Request {
                purpose: Purpose::Confirm,
                ..Self::request(candidate, workload, TrialLength::Full)
            })
        };
        racing.iter().flat_map(of).collect()
    }

    /// Whether the leader's gain over the baseline is significant in the rounds that contain both.
    fn beats_baseline(&self, leader: CandidateIndex) -> bool {
        let gain = ConfirmingTrials::of(self.space, self.history).gain(leader, self.space.baseline);
        gain.is_some_and(|gain| gain.is_significant())
    }

    /// The next round or the end. `probability` is the probability that the choice reaches the
    /// goal.
    pub(super) fn race(&self, belief: &Belief, probability: f64) -> StrategyPlan {
        let rounds = self.rounds();
        let raced_candidates = self.raced_candidates();
        let baseline = self.space.baseline;
        let confident = probability >= self.settings.goal.probability;
        let is_raced = |index: &&CandidateIndex| raced_candidates.binary_search(index).is_ok();
        let leader = belief.candidates.iter().find(is_raced);
        let gain_is_significant = leader.is_some_and(|&leader| self.beats_baseline(leader));
        let gain_is_settled =
            gain_is_significant || rounds >= ROUNDS_FOR_A_GAIN || leader == Some(&baseline);
        if confident && rounds >= MIN_ROUNDS && gain_is_settled {
            return StrategyPlan::Done(SearchEnd::Confident { probability });
        }
        let baseline_rests =
            gain_is_significant && rounds >= MIN_ROUNDS && rounds % BASELINE_EVERY_ROUNDS != 0;
        let left = self.settings.remaining(self.history).max(0.0);
        let affordable = ((left + 1e-9) / self.workloads() as f64).min(1e6) as usize;
        let baseline_slots =
            usize::from(self.table.excluded(baseline).is_none() && !baseline_rests);
        let field = if rounds == 0 {
            // Prefer fewer finalists to too few rounds for a decision.
            MAX_FINALISTS.min((affordable / MIN_ROUNDS).saturating_sub(baseline_slots)).max(1)
        } else {
            let first = MAX_FINALISTS.min(raced_candidates.len());
            let field = first.div_ceil(1 << (rounds / ROUNDS_PER_FIELD)).max(2);
            field.min(affordable.saturating_sub(baseline_slots))
        };
        let is_left = |index: &CandidateIndex| {
            *index != baseline && self.eligible.binary_search(index).is_ok()
        };
        let open = !raced_candidates.iter().any(is_left)
            || affordable >= ROUNDS_FOR_A_GAIN * (field + baseline_slots);
        let finalists: Vec<CandidateIndex> = by_probability_of_best(belief)
            .into_iter()
            .filter(|&index| index != baseline)
            .filter(|index| open || raced_candidates.binary_search(index).is_ok())
            .take(field)
            .collect();
        if finalists.is_empty() || affordable < finalists.len() + baseline_slots {
            let stop =
                if confident { SearchEnd::Confident { probability } } else { SearchEnd::Budget };
            return StrategyPlan::Done(stop);
        }
        if rounds >= MAX_ROUNDS {
            return StrategyPlan::Done(SearchEnd::Exhausted);
        }
        let baseline = (baseline_slots > 0).then_some(baseline);
        let racing: Vec<CandidateIndex> = baseline.into_iter().chain(finalists).collect();
        StrategyPlan::Try(Self::confirming(&racing, &self.first_half(rounds)))
    }
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
