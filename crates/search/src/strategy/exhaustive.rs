//! Tries every candidate under every workload, `repeats` times. For small spaces, and for grids
//! that other strategies are compared on. Limit: with very many candidates, the luckiest one wins.

use crate::history::Observation;
use crate::settings::SearchSettings;
use crate::space::{CandidateIndex, SearchSpace};

use super::scores::Scores;
use super::{SearchEnd, Strategy, StrategyPlan};

/// The most trials per batch; failed candidates are dropped after each batch. The first batch is
/// small, to detect early that everything fails.
const FIRST_TRIALS: usize = 256;
const BATCH_TRIALS: usize = 4096;

#[derive(Debug, Clone, Copy, Default)]
pub struct Exhaustive;

impl Strategy for Exhaustive {
    fn plan(
        &self,
        space: &SearchSpace,
        history: &[Observation],
        settings: &SearchSettings,
    ) -> StrategyPlan {
        let all: Vec<CandidateIndex> = (0..space.candidates.len()).collect();
        let missing = Scores::of(space, history, settings).missing(&all);
        if missing.is_empty() {
            return StrategyPlan::Done(SearchEnd::Exhausted);
        }
        let size = if history.is_empty() { FIRST_TRIALS } else { BATCH_TRIALS };
        StrategyPlan::Try(missing.into_iter().take(size).collect())
    }

    fn max_trials(&self, space: &SearchSpace, settings: &SearchSettings) -> f64 {
        (space.candidates.len() * space.workloads.len()) as f64 * f64::from(settings.repeats)
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
