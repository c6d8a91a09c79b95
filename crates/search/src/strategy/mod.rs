//! Search strategies behind one trait, and the batching that all of them share.
//!
//! A strategy sees whole batches. [`next_step`] makes it resumable at any trial: it plans an
//! unfinished batch again, which gives the same batch because a plan depends only on the history
//! before it.

mod adaptive;
mod exhaustive;
mod greedy;
mod random;
mod scores;

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Batch, Observation, Proposal, Purpose, TrialLength, TrialTable};
use crate::random::RandomStream;
use crate::settings::{SearchError, SearchSettings};
use crate::space::{CandidateIndex, SearchSpace, WorkloadIndex};

pub(crate) use adaptive::Learned;
pub use adaptive::{Adaptive, MIN_TRIALS_PER_WORKLOAD, least_trials};
pub use exhaustive::Exhaustive;
pub use greedy::Greedy;
pub use random::RandomSearch;

/// A trial requested by a strategy; [`next_step`] adds repeat and batch numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    pub candidate: CandidateIndex,
    pub workload: WorkloadIndex,
    pub length: TrialLength,
    pub purpose: Purpose,
}

#[derive(Debug, Clone, PartialEq)]
pub enum StrategyPlan {
    /// These trials, at least one. Trials beyond the budget are dropped from the end.
    Try(Vec<Request>),
    Done(SearchEnd),
}

#[derive(Debug, Clone, PartialEq)]
pub enum NextStep {
    /// Run these trials in this order; at least one.
    Try(Vec<Proposal>),
    Done(SearchEnd),
}

/// Why a search has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SearchEnd {
    /// The goal's probability is reached.
    Confident { probability: f64 },
    /// The budget is spent.
    Budget,
    /// The strategy has no trials left to propose.
    Exhausted,
    /// No trial was measured, and so many candidates are excluded.
    AllFailed { candidates: usize },
}

/// A way to search a space.
pub trait Strategy {
    /// The next batch after a history of whole batches. A pure function of its arguments.
    fn plan(
        &self,
        space: &SearchSpace,
        history: &[Observation],
        settings: &SearchSettings,
    ) -> StrategyPlan;

    /// The most that would be spent without a budget, in full-length trials.
    fn max_trials(&self, space: &SearchSpace, settings: &SearchSettings) -> f64;

    /// The best allowed candidate according to the strategy; `None` before any allowed candidate
    /// was measured.
    fn choice(
        &self,
        space: &SearchSpace,
        history: &[Observation],
        settings: &SearchSettings,
    ) -> Option<CandidateIndex>;
}

/// If this many candidates are excluded and none was measured, the search ends. Raised to twice the
/// number of families if that is more.
const MAX_FAILURES: usize = 12;

/// The trials to run now: the rest of an unfinished batch, or a new batch.
///
/// Within a batch the order is random, so drift affects all candidates equally, with lower repeat
/// numbers first.
///
/// # Errors
/// If the space or the settings are invalid, or the budget is too small.
pub fn next_step(
    strategy: &dyn Strategy,
    space: &SearchSpace,
    history: &[Observation],
    settings: &SearchSettings,
) -> Result<NextStep, SearchError> {
    space.check()?;
    settings.check()?;
    let least = space.families().len() as f64;
    // Later, a budget in time may turn out to be worth fewer trials than were made.
    let too_few = settings.trials.filter(|&trials| trials < least && history.is_empty());
    if let Some(trials) = too_few {
        return Err(SearchError::TooFewTrials { trials, least });
    }
    let last = history.iter().map(|observation| observation.proposal.batch.number).max();
    let Some(last) = last else { return Ok(planned(strategy, space, &[], settings, 0)) };
    let made: Vec<Proposal> = history
        .iter()
        .map(|observation| observation.proposal)
        .filter(|proposal| proposal.batch.number == last)
        .collect();
    let unfinished = made.first().is_some_and(|proposal| made.len() < proposal.batch.size as usize);
    if unfinished {
        let before: Vec<Observation> = history
            .iter()
            .filter(|observation| observation.proposal.batch.number < last)
            .copied()
            .collect();
        if let NextStep::Try(mut proposals) = planned(strategy, space, &before, settings, last) {
            // With other settings than before, the new plan may have a different size.
            proposals.retain(|proposal| {
                !made.iter().any(|made| Proposal { batch: proposal.batch, ..*made } == *proposal)
            });
            if !proposals.is_empty() {
                return Ok(NextStep::Try(proposals));
            }
        }
    }
    Ok(planned(strategy, space, history, settings, last + 1))
}

fn planned(
    strategy: &dyn Strategy,
    space: &SearchSpace,
    history: &[Observation],
    settings: &SearchSettings,
    number: u32,
) -> NextStep {
    if let Some(candidates) = all_failed(space, history) {
        return NextStep::Done(SearchEnd::AllFailed { candidates });
    }
    let failed = excluded_of_none_measured(history);
    let requests = match strategy.plan(space, history, settings) {
        StrategyPlan::Done(stop) => {
            let all_failed = failed.map(|candidates| SearchEnd::AllFailed { candidates });
            return NextStep::Done(all_failed.unwrap_or(stop));
        }
        StrategyPlan::Try(requests) => {
            within_budget(requests, settings.remaining(history), settings)
        }
    };
    if requests.is_empty() {
        return NextStep::Done(SearchEnd::Budget);
    }
    // Looked up rather than counted because a record may have gaps.
    let mut repeats: BTreeMap<Request, BTreeSet<u32>> = BTreeMap::new();
    for observation in history {
        let Proposal { candidate, workload, length, purpose, repeat, .. } = observation.proposal;
        let request = Request { candidate, workload, length, purpose };
        repeats.entry(request).or_default().insert(repeat);
    }
    let round = next_round(history, &requests);
    let size = u32::try_from(requests.len()).expect("a batch is far below 2^32 trials");
    let mut proposals: Vec<Proposal> = requests
        .into_iter()
        .map(|request| {
            let used = repeats.entry(request).or_default();
            let first = round.filter(|_| request.purpose == Purpose::Confirm).unwrap_or(0);
            let repeat = (first..).find(|repeat| !used.contains(repeat)).expect("few are used");
            used.insert(repeat);
            let Request { candidate, workload, length, purpose } = request;
            Proposal { candidate, workload, length, purpose, repeat, batch: Batch { number, size } }
        })
        .collect();
    let mut random = RandomStream::stream(settings.seed, u64::from(number) << 8);
    random.shuffle(&mut proposals);
    proposals.sort_by_key(|proposal| proposal.repeat);
    NextStep::Try(proposals)
}

/// The round number of confirming trials. All trials of a batch share a round. A batch that covers
/// other workloads than the last round completes that round. `None` before any.
fn next_round(history: &[Observation], requests: &[Request]) -> Option<u32> {
    let race =
        history.iter().filter(|observation| observation.proposal.purpose == Purpose::Confirm);
    let last = race.clone().map(|observation| observation.proposal.repeat).max()?;
    let is_again = |observation: &Observation| {
        requests.iter().any(|request| request.workload == observation.proposal.workload)
    };
    let again = race.filter(|observation| observation.proposal.repeat == last).any(is_again);
    Some(if again { last + 1 } else { last })
}

/// The leading requests that fit the remaining budget.
fn within_budget(requests: Vec<Request>, left: f64, settings: &SearchSettings) -> Vec<Request> {
    let mut left = left + 1e-9;
    let affordable = |request: &Request| {
        left -= settings.cost(request.length);
        left >= 0.0
    };
    requests.into_iter().take_while(affordable).collect()
}

/// The number of excluded candidates if none was measured and they are enough to end the search.
pub fn all_failed(space: &SearchSpace, history: &[Observation]) -> Option<usize> {
    let enough = MAX_FAILURES.max(2 * space.families().len()).min(space.candidates.len());
    excluded_of_none_measured(history).filter(|&candidates| candidates >= enough)
}

/// The number of excluded candidates if there are any and none was measured. A candidate of which
/// only a few trials had no figure is not excluded.
fn excluded_of_none_measured(history: &[Observation]) -> Option<usize> {
    if history.iter().any(|observation| observation.log_merit().is_some()) {
        return None;
    }
    let excluded = TrialTable::of(history, |_| true).all_excluded().count();
    (excluded > 0).then_some(excluded)
}
