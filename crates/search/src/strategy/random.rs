//! Tries allowed candidates in random order until the budget is spent: the minimum that any other
//! strategy has to beat.

use crate::history::Observation;
use crate::random::RandomStream;
use crate::settings::SearchSettings;
use crate::space::{CandidateIndex, SearchSpace};

use super::scores::Scores;
use super::{SearchEnd, Strategy, StrategyPlan};

const BATCH_CANDIDATES: usize = 8;

/// Random sampling without replacement.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomSearch;

impl Strategy for RandomSearch {
    fn plan(
        &self,
        space: &SearchSpace,
        history: &[Observation],
        settings: &SearchSettings,
    ) -> StrategyPlan {
        let mut order: Vec<CandidateIndex> =
            (0..space.candidates.len()).filter(|&index| space.candidates[index].allowed).collect();
        RandomStream::stream(settings.seed, 0x7a4d).shuffle(&mut order);
        let scores = Scores::of(space, history, settings);
        let due = order.into_iter().filter(|&index| !scores.missing(&[index]).is_empty());
        let batch: Vec<CandidateIndex> = due.take(BATCH_CANDIDATES).collect();
        if batch.is_empty() {
            return StrategyPlan::Done(SearchEnd::Exhausted);
        }
        StrategyPlan::Try(scores.missing(&batch))
    }

    fn max_trials(&self, space: &SearchSpace, settings: &SearchSettings) -> f64 {
        let allowed = space.candidates.iter().filter(|candidate| candidate.allowed).count();
        (allowed * space.workloads.len()) as f64 * f64::from(settings.repeats)
    }

    fn choice(
        &self,
        space: &SearchSpace,
        history: &[Observation],
        settings: &SearchSettings,
    ) -> Option<CandidateIndex> {
        Scores::of(space, history, settings).choice()
    }
}
