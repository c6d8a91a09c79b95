//! A search on a landscape, from the first trial to the last.

use crate::history::{Observation, TrialLength, TrialOutcome};
use crate::limits::{Limits, SearchError};
use crate::space::CandidateIndex;
use crate::strategy::{NextStep, SearchEnd, Strategy, next_step};

use super::Landscape;

/// What a search on a landscape did.
#[derive(Debug, Clone)]
pub struct SearchTrace {
    /// Every trial.
    pub history: Vec<Observation>,
    /// Why it ended.
    pub stop: SearchEnd,
    /// What it chose.
    pub choice: Option<CandidateIndex>,
}

impl Landscape {
    /// What a trial gives that is the `visit`th in time.
    pub fn measure(&self, ask: &crate::history::Proposal, visit: u64) -> TrialOutcome {
        if self.failing.contains(&ask.candidate) {
            return TrialOutcome::Failed;
        }
        let bias =
            if ask.length == TrialLength::Short { self.short_bias[ask.candidate] } else { 0.0 };
        let log_merit =
            self.truth[ask.candidate][ask.workload] + bias + self.noise.draw(ask, visit);
        TrialOutcome::Measured { log_merit, excess: None }
    }
}

/// Searches a landscape to the end.
///
/// # Errors
/// When no search is possible with these limits.
pub fn run(
    strategy: &dyn Strategy,
    landscape: &Landscape,
    limits: &Limits,
) -> Result<SearchTrace, SearchError> {
    let mut history: Vec<Observation> = Vec::new();
    loop {
        match next_step(strategy, &landscape.space, &history, limits)? {
            NextStep::Done(stop) => {
                let choice = strategy.choice(&landscape.space, &history, limits);
                return Ok(SearchTrace { history, stop, choice });
            }
            NextStep::Try(asks) => {
                for ask in asks {
                    let visit = history.len() as u64;
                    let outcome = landscape.measure(&ask, visit);
                    history.push(Observation { ask, visit, outcome });
                }
            }
        }
    }
}
