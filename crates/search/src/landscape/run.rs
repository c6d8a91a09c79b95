//! A search on a landscape, from the first trial to the last.

use crate::history::{Length, Outcome, Told};
use crate::limits::{Limits, SearchError};
use crate::space::CandidateIndex;
use crate::strategy::{Step, Stop, Strategy, next_step};

use super::Landscape;

/// What a search on a landscape did.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Every trial.
    pub history: Vec<Told>,
    /// Why it ended.
    pub stop: Stop,
    /// What it chose.
    pub choice: Option<CandidateIndex>,
}

impl Landscape {
    /// What a trial gives that is the `visit`th in time.
    pub fn measure(&self, ask: &crate::history::Ask, visit: u64) -> Outcome {
        if self.failing.contains(&ask.candidate) {
            return Outcome::Failed;
        }
        let bias = if ask.length == Length::Short { self.short_bias[ask.candidate] } else { 0.0 };
        let log_merit =
            self.truth[ask.candidate][ask.workload] + bias + self.noise.draw(ask, visit);
        Outcome::Measured { log_merit, excess: None }
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
) -> Result<Trace, SearchError> {
    let mut history: Vec<Told> = Vec::new();
    loop {
        match next_step(strategy, &landscape.space, &history, limits)? {
            Step::Done(stop) => {
                let choice = strategy.choice(&landscape.space, &history, limits);
                return Ok(Trace { history, stop, choice });
            }
            Step::Try(asks) => {
                for ask in asks {
                    let visit = history.len() as u64;
                    let outcome = landscape.measure(&ask, visit);
                    history.push(Told { ask, visit, outcome });
                }
            }
        }
    }
}
