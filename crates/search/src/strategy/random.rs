//! Random candidates that may be chosen, each once, until the trials are spent: what any search has
//! to beat.

use crate::history::Observation;
use crate::limits::Limits;
use crate::random::RandomStream;
use crate::space::{CandidateIndex, SearchSpace};

use super::scores::Scores;
use super::{SearchEnd, Strategy, StrategyPlan};

/// How many candidates a batch has.
const BATCH_CANDIDATES: usize = 8;

/// Tries candidates in random order, without putting any back.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomSearch;

impl Strategy for RandomSearch {
    fn plan(&self, space: &SearchSpace, history: &[Observation], limits: &Limits) -> StrategyPlan {
        let mut order: Vec<CandidateIndex> =
            (0..space.candidates.len()).filter(|&index| space.candidates[index].allowed).collect();
        RandomStream::stream(limits.seed, 0x7a4d).shuffle(&mut order);
        let scores = Scores::of(space, history, limits);
        let due = order.into_iter().filter(|&index| !scores.missing(&[index]).is_empty());
        let batch: Vec<CandidateIndex> = due.take(BATCH_CANDIDATES).collect();
        if batch.is_empty() {
            return StrategyPlan::Done(SearchEnd::Exhausted);
        }
        StrategyPlan::Try(scores.missing(&batch))
    }

    fn most_trials(&self, space: &SearchSpace, limits: &Limits) -> f64 {
        let allowed = space.candidates.iter().filter(|candidate| candidate.allowed).count();
        (allowed * space.workloads.len()) as f64 * f64::from(limits.repeats)
    }

    fn choice(
        &self,
        space: &SearchSpace,
        history: &[Observation],
        limits: &Limits,
    ) -> Option<CandidateIndex> {
        Scores::of(space, history, limits).choice()
    }
}
