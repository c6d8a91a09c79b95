//! The course of a search: which trials are next, given all that were made. The same for trials on
//! a device and for a replay.
//!
//! It adds two things to a strategy. Limits of time and of writing become a number of trials by the
//! mean trial so far, always as it was at the beginning of a batch, so that an interrupted batch is
//! found again. And strategies that only rank get confirming trials at their end: the choice, the
//! runner-up and the baseline afresh, in turn.

use std::collections::BTreeSet;

use flashfit_search::{
    self as search, Batch, CandidateIndex, Goal, NextStep, Observation, Proposal, Purpose,
    SearchEnd, SearchError, ShortRun, Strategy,
};

use crate::budget::{Budget, Spent, TrialCost};
use crate::choice::StrategyKind;
use crate::constraint;
use crate::order;
use crate::problem::Problem;
use crate::spec::RunSpec;

/// How sure a search is to be before it stops.
const PROBABILITY: f64 = 0.9;
/// The share of a whole trial that a short one costs where that was not measured yet.
const SHORT_COST: f64 = 0.4;
/// With fewer trials of either length their costs are not compared.
const ENOUGH_FOR_COST: usize = 3;

/// What a course depends on beside the history.
#[derive(Debug, Clone, PartialEq)]
pub struct DriverRules {
    /// How trials are chosen.
    pub strategy: StrategyKind,
    /// Trials of each setup under each workload, of the strategies that fix it.
    pub repeats: u32,
    /// Rounds of confirming trials at the end of strategies that only rank.
    pub confirm_rounds: u32,
    /// What may be spent.
    pub limits: Budget,
    /// The seed of everything random.
    pub seed: u64,
    /// Whether short trials can be made.
    pub short: bool,
}

impl DriverRules {
    /// The rules of a run.
    pub fn of(spec: &RunSpec) -> Self {
        Self {
            strategy: spec.strategy,
            repeats: spec.repeats,
            confirm_rounds: spec.confirm_rounds,
            limits: spec.limits.clone(),
            seed: spec.seed,
            short: true,
        }
    }
}

/// The strategy of that kind.
pub fn strategy(kind: StrategyKind) -> Box<dyn Strategy> {
    match kind {
        StrategyKind::Adaptive => Box::new(search::Adaptive::default()),
        StrategyKind::Greedy => Box::new(search::Greedy),
        StrategyKind::Exhaustive => Box::new(search::Exhaustive),
        StrategyKind::Random => Box::new(search::RandomSearch),
    }
}

/// The course of one search.
pub struct SearchDriver<'a> {
    problem: &'a Problem,
    rules: &'a DriverRules,
    strategy: Box<dyn Strategy>,
}

impl<'a> SearchDriver<'a> {
    /// By these rules.
    pub fn new(problem: &'a Problem, rules: &'a DriverRules) -> Self {
        Self { problem, rules, strategy: strategy(rules.strategy) }
    }

    /// The trials to make next, in this order. `costs` are those of the history, one each.
    ///
    /// # Errors
    /// When the space or the limits make no search possible.
    pub fn next(
        &self,
        history: &[Observation],
        costs: &[TrialCost],
    ) -> Result<NextStep, SearchError> {
        if self.turns_to_confirming(history, costs) {
            return Ok(self
                .confirming(history)
                .map_or(NextStep::Done(SearchEnd::Budget), NextStep::Try));
        }
        let limits = self.limits(history, costs);
        let before = whole_batches(history);
        let known: Vec<Observation> = history.iter().filter(|told| before(told)).copied().collect();
        let space = constraint::without_broken(&self.problem.space, &known);
        if !space.candidates.iter().any(|candidate| candidate.allowed) {
            // Nothing that may be tried meets the demand.
            self.problem.space.check().map_err(SearchError::from)?;
            return Ok(NextStep::Done(SearchEnd::Exhausted));
        }
        let plain = without_demands(history);
        match search::next_step(self.strategy.as_ref(), &space, &plain, &limits)? {
            NextStep::Done(stop) if !self.confirms_itself() => {
                Ok(self.confirming(history).map_or(NextStep::Done(stop), NextStep::Try))
            }
            step => Ok(step),
        }
    }

    /// What is chosen after these trials.
    pub fn choice(&self, history: &[Observation], costs: &[TrialCost]) -> Option<CandidateIndex> {
        let limits = self.limits(history, costs);
        let space = constraint::without_broken(&self.problem.space, history);
        if self.confirms_itself() {
            return self.strategy.choice(&space, &without_demands(history), &limits);
        }
        self.strategy.choice(&space, &without_demands(&searched(history)), &limits)
    }

    /// What these trials say of the candidate that was chosen after them. `wear` is that of each
    /// candidate where it is known, less being better.
    pub fn answer(
        &self,
        winner: CandidateIndex,
        history: &[Observation],
        costs: &[TrialCost],
        wear: &[Option<f64>],
    ) -> search::Answer {
        let space = constraint::without_broken(&self.problem.space, history);
        let limits = self.limits(history, costs);
        search::answer(&space, &without_demands(history), &limits, winner, wear)
    }

    /// How many trials will be made at the most, as far as that is known.
    pub fn most_trials(&self, history: &[Observation], costs: &[TrialCost]) -> f64 {
        let limits = self.limits(history, costs);
        let strategy = self.strategy.max_trials(&self.problem.space, &limits);
        let confirming = if self.confirms_itself() { 0.0 } else { self.confirming_cost() };
        let most = strategy + confirming;
        // What is left for confirming was taken out of the search's own limit.
        limits.trials.map_or(most, |trials| most.min(trials + confirming))
    }

    /// Whether what is left only suffices to confirm, or confirming has begun; never for a strategy
    /// that sees to that itself.
    pub fn turns_to_confirming(&self, history: &[Observation], costs: &[TrialCost]) -> bool {
        let limits = &self.rules.limits;
        let limited = limits.budget_ns.is_some() || limits.max_write_bytes.is_some();
        if !limited
            || self.confirms_itself()
            || self.rules.confirm_rounds == 0
            || history.is_empty()
        {
            return false;
        }
        if history.iter().any(|told| told.proposal.purpose == Purpose::Confirm) {
            return true;
        }
        let left = limits.trials_left(&spent(costs));
        left.is_some_and(|left| to_f64(left) < self.confirming_cost() + 1.0)
    }

    /// The limits as the strategy is given them: those at the beginning of the batch under way.
    fn limits(&self, history: &[Observation], costs: &[TrialCost]) -> search::SearchSettings {
        let DriverRules { limits, repeats, seed, short, .. } = self.rules;
        let before = whole_batches(history);
        let known: Vec<(&Observation, &TrialCost)> =
            history.iter().zip(costs).filter(|(told, _)| before(told)).collect();
        let mut found = search::SearchSettings {
            trials: limits.trials.map(f64::from),
            short: short.then(|| ShortRun { cost: short_cost(&known) }),
            goal: Goal {
                within: f64::from(limits.within_hundredths.max(1)) / 10_000.0,
                probability: PROBABILITY,
            },
            repeats: (*repeats).max(1),
            seed: *seed,
        };
        let costs: Vec<TrialCost> = known.iter().map(|(_, cost)| **cost).collect();
        if let Some(left) = limits.trials_left(&spent(&costs)) {
            let told: Vec<Observation> = known.iter().map(|(told, _)| **told).collect();
            let made = search::spent(&told, &found);
            // Those that are left are like those that were made, short ones among them.
            let affordable = made + to_f64(left) * made / to_f64(count(told.len())).max(1.0);
            found.trials = Some(found.trials.map_or(affordable, |trials| trials.min(affordable)));
        }
        if !self.confirms_itself() {
            let least = to_f64(count(self.problem.families()));
            found.trials = found.trials.map(|trials| {
                let without = trials - self.confirming_cost();
                if without >= least { without } else { trials }
            });
        }
        found
    }

    /// How many rounds of confirming the limit of trials leaves, where the search made so many.
    fn affordable_rounds(&self, searched: u64, a_round: u64) -> u32 {
        let wanted = self.rules.confirm_rounds;
        let Some(trials) = self.rules.limits.trials else { return wanted };
        let left = u64::from(trials).saturating_sub(searched) / a_round.max(1);
        u32::try_from(left).unwrap_or(u32::MAX).min(wanted)
    }

    /// Whether the strategy compares its finalists afresh.
    fn confirms_itself(&self) -> bool {
        self.rules.strategy == StrategyKind::Adaptive
    }

    /// Winner, runner-up and two untuned setups, in every round under every workload.
    fn confirming_cost(&self) -> f64 {
        4.0 * f64::from(self.rules.confirm_rounds) * to_f64(count(self.problem.workloads.len()))
    }

    /// The confirming trials that are still to be made, if any.
    fn confirming(&self, history: &[Observation]) -> Option<Vec<Proposal>> {
        let reference = self.problem.space.baseline;
        let searched = searched(history);
        let plain = without_demands(&searched);
        let limits = search::SearchSettings {
            repeats: self.rules.repeats.max(1),
            ..search::SearchSettings::default()
        };
        let space = constraint::without_broken(&self.problem.space, &searched);
        let winner = self.strategy.choice(&space, &plain, &limits)?;
        if winner == reference {
            return None;
        }
        let mut others = space;
        others.candidates[winner].allowed = false;
        let second = self.strategy.choice(&others, &plain, &limits);
        let mut finalists = vec![winner, reference];
        finalists.extend(second);
        finalists.extend(self.problem.own_untuned(winner));
        let mut seen = BTreeSet::new();
        finalists.retain(|finalist| seen.insert(*finalist));
        let a_round = count(finalists.len() * self.problem.workloads.len());
        let rounds = self.affordable_rounds(count(searched.len()), a_round);
        let total = a_round.saturating_mul(u64::from(rounds));
        let begun = history.iter().find(|told| told.proposal.purpose == Purpose::Confirm);
        let last = history.iter().map(|told| told.proposal.batch.number).max();
        let number = begun.map_or_else(
            || last.map_or(0, |last| last.saturating_add(1)),
            |told| told.proposal.batch.number,
        );
        let batch = Batch { number, size: u32::try_from(total).unwrap_or(u32::MAX) };
        let mut asks = Vec::new();
        for repeat in 0..rounds {
            let mut round = Vec::new();
            for &candidate in finalists.iter().filter(|candidate| !is_out(history, **candidate)) {
                for workload in 0..self.problem.workloads.len() {
                    let ask = Proposal {
                        candidate,
                        workload,
                        length: search::TrialLength::Full,
                        purpose: Purpose::Confirm,
                        repeat,
                        batch,
                    };
                    let same = |told: &Observation| Proposal { batch, ..told.proposal } == ask;
                    if !history.iter().any(same) {
                        round.push(ask);
                    }
                }
            }
            asks.extend(order::shuffled(round, self.rules.seed, repeat));
        }
        // Nothing is told by the baseline alone.
        let of_winner = asks.iter().any(|ask| ask.candidate != reference);
        (of_winner || begun.is_some() && !asks.is_empty()).then_some(asks)
    }
}

/// Why a search cannot begin, in the words of who asked for it.
pub(crate) fn in_words(error: &SearchError) -> String {
    match error {
        SearchError::TooFewTrials { trials, least } => format!(
            "a limit of {trials} is too few trials: one of each of {least} file systems is the least"
        ),
        other => other.to_string(),
    }
}

/// Whether a trial of a candidate failed or could not be made: no more are made of it.
pub fn is_out(history: &[Observation], candidate: CandidateIndex) -> bool {
    history.iter().any(|told| told.proposal.candidate == candidate && told.log_merit().is_none())
}

/// The last batch is over although trials of candidates that are out were not made: it counts as
/// whole. A run that goes on finds the same, because it passes over the same.
pub fn close_batch(history: &mut [Observation]) {
    let Some(last) = history.iter().map(|told| told.proposal.batch.number).max() else { return };
    let made = history.iter().filter(|told| told.proposal.batch.number == last).count();
    for told in history.iter_mut().filter(|told| told.proposal.batch.number == last) {
        told.proposal.batch.size = u32::try_from(made).expect("a batch is far below 2^32 trials");
    }
}

/// Without what breaks demands: who is out for that is told by the space, where it is beyond noise.
fn without_demands(history: &[Observation]) -> Vec<Observation> {
    let plain = |told: &Observation| match told.outcome {
        search::TrialOutcome::Measured { log_merit, .. } => Observation {
            outcome: search::TrialOutcome::Measured { log_merit, excess: None },
            ..*told
        },
        _ => *told,
    };
    history.iter().map(plain).collect()
}

/// Without confirming trials: what a strategy that only ranks has chosen by.
fn searched(history: &[Observation]) -> Vec<Observation> {
    history.iter().filter(|told| told.proposal.purpose != Purpose::Confirm).copied().collect()
}

/// Tells the trials of whole batches from those of one under way.
pub(crate) fn whole_batches(history: &[Observation]) -> impl Fn(&Observation) -> bool + use<> {
    let last = history.iter().map(|told| told.proposal.batch.number).max().unwrap_or(0);
    let of_last = || history.iter().filter(|told| told.proposal.batch.number == last);
    let size = of_last().next().map_or(0, |told| told.proposal.batch.size);
    let is_whole = of_last().count() >= usize::try_from(size).expect("at least 32 bits");
    move |told| is_whole || told.proposal.batch.number < last
}

/// What trials cost together, in full-length ones: short ones by their time beside that of whole
/// ones.
pub fn full_length_trials(history: &[Observation], costs: &[TrialCost]) -> f64 {
    let known: Vec<(&Observation, &TrialCost)> = history.iter().zip(costs).collect();
    let short = Some(ShortRun { cost: short_cost(&known) });
    search::spent(history, &search::SearchSettings { short, ..search::SearchSettings::default() })
}

fn spent(costs: &[TrialCost]) -> Spent {
    let mut spent = Spent::default();
    for cost in costs {
        spent.add(*cost);
    }
    spent
}

/// What a short trial costs beside a whole one, by the mean time of both.
fn short_cost(known: &[(&Observation, &TrialCost)]) -> f64 {
    let mean = |length: search::TrialLength| {
        let times: Vec<u64> = known
            .iter()
            .filter(|(told, cost)| told.proposal.length == length && cost.time_ns > 0)
            .map(|(_, cost)| cost.time_ns)
            .collect();
        (times.len() >= ENOUGH_FOR_COST)
            .then(|| times.iter().map(|ns| to_f64(*ns)).sum::<f64>() / to_f64(count(times.len())))
    };
    match (mean(search::TrialLength::Short), mean(search::TrialLength::Full)) {
        (Some(short), Some(full)) => (short / full).clamp(0.05, 0.95),
        _ => SHORT_COST,
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).expect("at most 64 bits")
}

fn to_f64(value: u64) -> f64 {
    value as f64
}
