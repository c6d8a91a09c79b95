//! Which trials next: the strategies behind one trait, and what holds for all of them.
//!
//! A strategy sees whole batches. [`next_step`] turns it into something that can be interrupted at
//! any trial: the rest of an unfinished batch is found again by planning it again, which gives the
//! same batch because a plan is a function of what was known before it.

mod adaptive;
mod exhaustive;
mod greedy;
mod random;
mod scores;

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Batch, Observation, Proposal, Purpose, TrialLength};
use crate::limits::{Limits, SearchError};
use crate::random::RandomStream;
use crate::space::{CandidateIndex, SearchSpace, WorkloadIndex};

pub use adaptive::Adaptive;
pub use exhaustive::Exhaustive;
pub use greedy::Greedy;
pub use random::RandomSearch;

/// A trial as a strategy names it; [`next_step`] numbers repeats and batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// Of what.
    pub candidate: CandidateIndex,
    /// Under what.
    pub workload: WorkloadIndex,
    /// How long.
    pub length: TrialLength,
    /// What for.
    pub purpose: Purpose,
}

/// What a strategy wants.
#[derive(Debug, Clone, PartialEq)]
pub enum StrategyPlan {
    /// These trials; not none. Those that the budget does not reach are cut off at the end.
    Try(Vec<Request>),
    /// Nothing more.
    Done(SearchEnd),
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum NextStep {
    /// Make these trials, in this order; not none.
    Try(Vec<Proposal>),
    /// The search has ended.
    Done(SearchEnd),
}

/// Why a search has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SearchEnd {
    /// The choice is within the asked distance of the best with the asked probability.
    SureEnough {
        /// With this probability.
        probability: f64,
    },
    /// The trials are spent.
    Budget,
    /// The strategy has nothing more to try.
    Exhausted,
    /// Every trial failed.
    AllFailed {
        /// How many candidates were tried.
        candidates: usize,
    },
}

/// A way to search a space.
pub trait Strategy {
    /// What to try after these trials, which are whole batches. A pure function of its arguments.
    fn plan(&self, space: &SearchSpace, history: &[Observation], limits: &Limits) -> StrategyPlan;

    /// How many full-length trials' worth will be spent at the most, were there no budget.
    fn most_trials(&self, space: &SearchSpace, limits: &Limits) -> f64;

    /// What is chosen after these trials: the best that may be chosen, as the strategy sees it.
    /// `None` before anything that may be chosen was measured.
    fn choice(
        &self,
        space: &SearchSpace,
        history: &[Observation],
        limits: &Limits,
    ) -> Option<CandidateIndex>;
}

/// So many candidates that all failed end a search, if the families are not more than half that.
const FAILURES_ENOUGH: usize = 12;

/// The trials to make now: the rest of the last batch, or else a new one.
///
/// The order within a batch is random, so that drift touches all alike, and by repeat first.
///
/// # Errors
/// When the space or the limits make no search possible.
pub fn next_step(
    strategy: &dyn Strategy,
    space: &SearchSpace,
    history: &[Observation],
    limits: &Limits,
) -> Result<NextStep, SearchError> {
    space.check()?;
    limits.check()?;
    let least = space.families().len() as f64;
    if let Some(trials) = limits.trials.filter(|&trials| trials < least) {
        return Err(SearchError::TooFewTrials { trials, least });
    }
    let last = history.iter().map(|told| told.ask.batch.number).max();
    let Some(last) = last else { return Ok(planned(strategy, space, &[], limits, 0)) };
    let made: Vec<Proposal> =
        history.iter().map(|told| told.ask).filter(|ask| ask.batch.number == last).collect();
    let unfinished = made.first().is_some_and(|ask| made.len() < ask.batch.size as usize);
    if unfinished {
        let before: Vec<Observation> =
            history.iter().filter(|told| told.ask.batch.number < last).copied().collect();
        if let NextStep::Try(mut asks) = planned(strategy, space, &before, limits, last) {
            // Who goes on with other limits has planned a batch of another size.
            asks.retain(|ask| {
                !made.iter().any(|made| Proposal { batch: ask.batch, ..*made } == *ask)
            });
            if !asks.is_empty() {
                return Ok(NextStep::Try(asks));
            }
        }
    }
    Ok(planned(strategy, space, history, limits, last + 1))
}

fn planned(
    strategy: &dyn Strategy,
    space: &SearchSpace,
    history: &[Observation],
    limits: &Limits,
    number: u32,
) -> NextStep {
    if let Some(candidates) = all_failed(space, history) {
        return NextStep::Done(SearchEnd::AllFailed { candidates });
    }
    let failed = failed_so_far(history);
    let wishes = match strategy.plan(space, history, limits) {
        StrategyPlan::Done(stop) => {
            let all_failed = failed.map(|candidates| SearchEnd::AllFailed { candidates });
            return NextStep::Done(all_failed.unwrap_or(stop));
        }
        StrategyPlan::Try(wishes) => within_budget(wishes, limits.left(history), limits),
    };
    if wishes.is_empty() {
        return NextStep::Done(SearchEnd::Budget);
    }
    // Not counted but looked up: a record may have lost some.
    let mut repeats: BTreeMap<Request, BTreeSet<u32>> = BTreeMap::new();
    for told in history {
        let Proposal { candidate, workload, length, purpose, repeat, .. } = told.ask;
        let wish = Request { candidate, workload, length, purpose };
        repeats.entry(wish).or_default().insert(repeat);
    }
    let round = next_round(history, &wishes);
    let size = u32::try_from(wishes.len()).expect("a batch is far below 2^32 trials");
    let mut asks: Vec<Proposal> = wishes
        .into_iter()
        .map(|wish| {
            let used = repeats.entry(wish).or_default();
            let first = round.filter(|_| wish.purpose == Purpose::Confirm).unwrap_or(0);
            let repeat = (first..).find(|repeat| !used.contains(repeat)).expect("few are used");
            used.insert(repeat);
            let Request { candidate, workload, length, purpose } = wish;
            Proposal { candidate, workload, length, purpose, repeat, batch: Batch { number, size } }
        })
        .collect();
    let mut random = RandomStream::stream(limits.seed, u64::from(number) << 8);
    random.shuffle(&mut asks);
    asks.sort_by_key(|ask| ask.repeat);
    NextStep::Try(asks)
}

/// The round that confirming trials are of: those of one batch are one round, whoever was in the
/// rounds before; and of the last one if that was under other workloads. `None` before any.
fn next_round(history: &[Observation], wishes: &[Request]) -> Option<u32> {
    let race = history.iter().filter(|told| told.ask.purpose == Purpose::Confirm);
    let last = race.clone().map(|told| told.ask.repeat).max()?;
    let is_again =
        |told: &Observation| wishes.iter().any(|wish| wish.workload == told.ask.workload);
    let again = race.filter(|told| told.ask.repeat == last).any(is_again);
    Some(if again { last + 1 } else { last })
}

/// As many of the wishes as can be paid for, from the first.
fn within_budget(wishes: Vec<Request>, left: f64, limits: &Limits) -> Vec<Request> {
    let mut left = left + 1e-9;
    let affordable = |wish: &Request| {
        left -= limits.cost(wish.length);
        left >= 0.0
    };
    wishes.into_iter().take_while(affordable).collect()
}

/// How many candidates were tried, when that is enough to end a search and all of them failed.
pub fn all_failed(space: &SearchSpace, history: &[Observation]) -> Option<usize> {
    let enough = FAILURES_ENOUGH.max(2 * space.families().len()).min(space.candidates.len());
    failed_so_far(history).filter(|&candidates| candidates >= enough)
}

/// How many candidates were tried, when all of them failed.
fn failed_so_far(history: &[Observation]) -> Option<usize> {
    if history.iter().any(|told| told.log_merit().is_some()) {
        return None;
    }
    let mut tried: Vec<CandidateIndex> = history.iter().map(|told| told.ask.candidate).collect();
    tried.sort_unstable();
    tried.dedup();
    (!tried.is_empty()).then_some(tried.len())
}
