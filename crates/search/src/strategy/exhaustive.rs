//! Every candidate, under every workload, as often as asked: for small spaces, and for grids to
//! compare other strategies with. Limit: of very many candidates the luckiest wins.

use crate::history::Observation;
use crate::limits::Limits;
use crate::space::{CandidateIndex, SearchSpace};

use super::scores::Scores;
use super::{SearchEnd, Strategy, StrategyPlan};

/// How many trials a batch has at the most: after each, those that failed are left out. The first
/// is small, so that it is soon known when everything fails.
const FIRST_TRIALS: usize = 256;
const BATCH_TRIALS: usize = 4096;

/// Tries every candidate.
#[derive(Debug, Clone, Copy, Default)]
pub struct Exhaustive;

impl Strategy for Exhaustive {
    fn plan(&self, space: &SearchSpace, history: &[Observation], limits: &Limits) -> StrategyPlan {
        let all: Vec<CandidateIndex> = (0..space.candidates.len()).collect();
        let missing = Scores::of(space, history, limits).missing(&all);
        if missing.is_empty() {
            return StrategyPlan::Done(SearchEnd::Exhausted);
        }
        let size = if history.is_empty() { FIRST_TRIALS } else { BATCH_TRIALS };
        StrategyPlan::Try(missing.into_iter().take(size).collect())
    }

    fn most_trials(&self, space: &SearchSpace, limits: &Limits) -> f64 {
        (space.candidates.len() * space.workloads.len()) as f64 * f64::from(limits.repeats)
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
