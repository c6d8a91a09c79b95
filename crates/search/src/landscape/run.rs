//! Runs a search on a landscape from the first trial to the last.

use crate::history::{Observation, TrialLength, TrialOutcome};
use crate::settings::{SearchError, SearchSettings};
use crate::space::CandidateIndex;
use crate::strategy::{NextStep, SearchEnd, Strategy, next_step};

use super::Landscape;

/// The result of a search on a landscape.
#[derive(Debug, Clone)]
pub struct SearchTrace {
    pub history: Vec<Observation>,
    pub stop: SearchEnd,
    pub choice: Option<CandidateIndex>,
}

impl Landscape {
    /// Simulates the `visit`th trial in time.
    pub fn measure(&self, proposal: &crate::history::Proposal, visit: u64) -> TrialOutcome {
        if self.failing.contains(&proposal.candidate) {
            return TrialOutcome::Failed;
        }
        let bias = if proposal.length == TrialLength::Short {
            self.short_bias[proposal.candidate]
        } else {
            0.0
        };
        let log_merit = self.truth[proposal.candidate][proposal.workload]
            + bias
            + self.noise.draw(proposal, visit);
        TrialOutcome::Measured { log_merit, excess: None }
    }
}

/// Runs a strategy until it is done.
///
/// # Errors
/// If the settings do not allow a search.
pub fn run(
    strategy: &dyn Strategy,
    landscape: &Landscape,
    settings: &SearchSettings,
) -> Result<SearchTrace, SearchError> {
    run_from(strategy, landscape, settings, settings)
}

/// The same as a search whose budget is a time: what a trial costs is known after a first batch
/// with a budget of one full-length trial of each family.
///
/// # Errors
/// If the settings do not allow a search.
pub fn run_timed(
    strategy: &dyn Strategy,
    landscape: &Landscape,
    settings: &SearchSettings,
) -> Result<SearchTrace, SearchError> {
    let families = landscape.space.families().len() as f64;
    let first = SearchSettings { trials: Some(families), ..settings.clone() };
    run_from(strategy, landscape, &first, settings)
}

/// `first` are the settings of the first batch.
fn run_from(
    strategy: &dyn Strategy,
    landscape: &Landscape,
    first: &SearchSettings,
    later: &SearchSettings,
) -> Result<SearchTrace, SearchError> {
    let mut history: Vec<Observation> = Vec::new();
    loop {
        let settings = if history.is_empty() { first } else { later };
        match next_step(strategy, &landscape.space, &history, settings)? {
            NextStep::Done(stop) => {
                let choice = strategy.choice(&landscape.space, &history, settings);
                return Ok(SearchTrace { history, stop, choice });
            }
            NextStep::Try(proposals) => {
                for proposal in proposals {
                    let visit = history.len() as u64;
                    let outcome = landscape.measure(&proposal, visit);
                    history.push(Observation { proposal, visit, start: 0, outcome });
                }
            }
        }
    }
}
