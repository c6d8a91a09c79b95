//! Drives a search: determines the next trials from the history, for runs on devices and for
//! replays.
//!
//! It adds two things to a strategy. Time and write budgets are converted to a number of trials by
//! the mean cost of a trial, evaluated at the start of a batch so that an interrupted batch can be
//! reproduced. Strategies that only rank get confirming trials at the end: rounds of the choice,
//! the runner-up and the baseline.

use std::collections::BTreeSet;

use flashfit_search::{
    self as search, Batch, CandidateIndex, Goal, NextStep, Observation, Proposal, Purpose,
    SearchEnd, SearchError, SearchPrior, ShortRun, Strategy, least_trials,
};

use crate::budget::{Budget, Spent, TrialCost};
use crate::choice::StrategyKind;
use crate::constraint;
use crate::order;
use crate::problem::Problem;
use crate::spec::RunSpec;

/// The probability at which a search stops.
const PROBABILITY: f64 = 0.9;
/// Assumed cost of a short trial relative to a full-length one before it is measured.
const SHORT_COST: f64 = 0.4;
/// And where the budget is not more than so many times the least that can confirm a result: mkfs
/// and the state in which a trial starts take as long before a short one, and too many of those
/// would leave too few confirming trials.
const CAREFUL_SHORT_COST: f64 = 0.95;
const TIGHT: f64 = 2.0;
/// The fewest trials of each length for comparing their costs.
const ENOUGH_FOR_COST: usize = 3;

/// The parameters of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct DriverRules {
    pub strategy: StrategyKind,
    /// Trials of each setup under each workload, for strategies with a fixed number.
    pub repeats: u32,
    /// Rounds of confirming trials at the end of strategies that only rank.
    pub confirm_rounds: u32,
    pub limits: Budget,
    /// The seed of everything random.
    pub seed: u64,
    /// Whether short trials are possible.
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

/// A strategy; only the adaptive search uses what is known of similar devices.
fn strategy(kind: StrategyKind, prior: Option<SearchPrior>) -> Box<dyn Strategy> {
    match kind {
        StrategyKind::Adaptive => Box::new(search::Adaptive::with_prior(prior)),
        StrategyKind::Greedy => Box::new(search::Greedy),
        StrategyKind::Exhaustive => Box::new(search::Exhaustive),
        StrategyKind::Random => Box::new(search::RandomSearch),
    }
}

pub struct SearchDriver<'a> {
    problem: &'a Problem,
    rules: &'a DriverRules,
    strategy: Box<dyn Strategy>,
    /// Candidates that may not be chosen besides those that the history excludes.
    excluded: BTreeSet<CandidateIndex>,
}

impl<'a> SearchDriver<'a> {
    pub fn new(problem: &'a Problem, rules: &'a DriverRules) -> Self {
        let excluded = BTreeSet::new();
        let strategy = strategy(rules.strategy, problem.prior.clone());
        Self { problem, rules, strategy, excluded }
    }

    /// The same, without these candidates.
    #[must_use]
    pub fn excluding(self, excluded: BTreeSet<CandidateIndex>) -> Self {
        Self { excluded, ..self }
    }

    /// The space without what the history or a constraint excludes.
    fn allowed_space(&self, history: &[Observation]) -> search::SearchSpace {
        let mut space = constraint::without_broken(&self.problem.space, history);
        for candidate in &self.excluded {
            space.candidates[*candidate].allowed = false;
        }
        space
    }

    /// The trials to make next, in order. `costs` has one entry per trial of the history.
    ///
    /// # Errors
    /// If the space or the budget allow no search.
    pub fn next(
        &self,
        history: &[Observation],
        costs: &[TrialCost],
    ) -> Result<NextStep, SearchError> {
        if self.must_confirm_now(history, costs) {
            return Ok(self
                .confirming(history)
                .map_or(NextStep::Done(SearchEnd::Budget), NextStep::Try));
        }
        let limits = self.limits(history, costs);
        let before = whole_batches(history);
        let known: Vec<Observation> =
            history.iter().filter(|observation| before(observation)).copied().collect();
        let space = self.allowed_space(&known);
        if !space.candidates.iter().any(|candidate| candidate.allowed) {
            // No allowed setup meets the constraint.
            self.problem.space.check().map_err(SearchError::from)?;
            return Ok(NextStep::Done(SearchEnd::Exhausted));
        }
        let plain = without_constraints(history);
        if let Some(others) = constraint::without_suspects(&space, &known) {
            // What exceeds the constraint so far waits until nothing else is to be tried.
            let step = search::next_step(self.strategy.as_ref(), &others, &plain, &limits)?;
            if let NextStep::Try(_) = step {
                return Ok(step);
            }
        }
        match search::next_step(self.strategy.as_ref(), &space, &plain, &limits)? {
            NextStep::Done(stop) if !self.strategy_confirms() => {
                Ok(self.confirming(history).map_or(NextStep::Done(stop), NextStep::Try))
            }
            step => Ok(step),
        }
    }

    /// The best candidate after these trials.
    pub fn choice(&self, history: &[Observation], costs: &[TrialCost]) -> Option<CandidateIndex> {
        let limits = self.limits(history, costs);
        let space = self.allowed_space(history);
        if self.strategy_confirms() {
            return self.strategy.choice(&space, &without_constraints(history), &limits);
        }
        self.strategy.choice(&space, &without_constraints(&searched(history)), &limits)
    }

    /// Analyzes the trials for the chosen candidate. `wear` is the wear of each candidate if known;
    /// less is better.
    pub fn answer(
        &self,
        winner: CandidateIndex,
        history: &[Observation],
        costs: &[TrialCost],
        wear: &[Option<f64>],
    ) -> search::Answer {
        let space = self.allowed_space(history);
        let limits = self.limits(history, costs);
        search::answer(&space, &without_constraints(history), &limits, winner, wear)
    }

    /// The largest total number of trials, if known.
    pub fn max_trials(&self, history: &[Observation], costs: &[TrialCost]) -> f64 {
        let mut limits = self.limits(history, costs);
        let given = &self.rules.limits;
        if !history.is_empty() && given.budget_ns.or(given.max_write_bytes).is_some() {
            // What these allow is known only after the first batch, and in trials of mean cost,
            // while the search counts short trials by their share of a whole one.
            limits.trials = given.trials.map(f64::from);
        }
        let strategy = self.strategy.max_trials(&self.problem.space, &limits);
        let confirming = if self.strategy_confirms() { 0.0 } else { self.confirming_cost() };
        let most = strategy + confirming;
        // The confirming trials were subtracted from the search's budget.
        limits.trials.map_or(most, |trials| most.min(trials + confirming))
    }

    /// The fewest further trials after which the search may be confident; 0 if it may be now.
    pub fn least_trials(&self, history: &[Observation]) -> u64 {
        if !self.strategy_confirms() {
            return 0;
        }
        let confirming =
            history.iter().filter(|observation| observation.proposal.purpose == Purpose::Confirm);
        let rounds =
            confirming.map(|observation| observation.proposal.repeat + 1).max().unwrap_or(0);
        let rounds = (search::MIN_ROUNDS as u64).saturating_sub(u64::from(rounds));
        // One finalist and the baseline.
        rounds * 2 * count(self.problem.workloads.len())
    }

    /// Whether the remaining budget only suffices for confirming trials, or these have started.
    /// Always false for strategies that confirm themselves.
    pub fn must_confirm_now(&self, history: &[Observation], costs: &[TrialCost]) -> bool {
        let limits = &self.rules.limits;
        let limited = limits.budget_ns.is_some() || limits.max_write_bytes.is_some();
        if !limited
            || self.strategy_confirms()
            || self.rules.confirm_rounds == 0
            || history.len() < self.problem.families().max(2)
        {
            // What a trial costs is known after one of each file system.
            return false;
        }
        if history.iter().any(|observation| observation.proposal.purpose == Purpose::Confirm) {
            return true;
        }
        let left = limits.trials_left(&spent(costs));
        left.is_some_and(|left| {
            let total = to_f64(left) + to_f64(count(history.len()));
            to_f64(left) < self.reserved(total) + 1.0
        })
    }

    /// The settings of the strategy, based on the costs at the start of the current batch.
    fn limits(&self, history: &[Observation], costs: &[TrialCost]) -> search::SearchSettings {
        let DriverRules { limits, repeats, seed, short, .. } = self.rules;
        let before = whole_batches(history);
        let known: Vec<(&Observation, &TrialCost)> =
            history.iter().zip(costs).filter(|(observation, _)| before(observation)).collect();
        let measured = short_cost(&known);
        // What a trial costs is not known yet: the first batch finds out, with one of each file
        // system.
        let finds_cost =
            known.is_empty() && (limits.budget_ns.is_some() || limits.max_write_bytes.is_some());
        let with_cost = |cost: f64| {
            let mut found = search::SearchSettings {
                trials: limits.trials.map(f64::from),
                short: short.then_some(ShortRun { cost }),
                goal: Goal {
                    within: f64::from(limits.within_hundredths.max(1)) / 10_000.0,
                    probability: PROBABILITY,
                },
                repeats: self.affordable_repeats(*repeats),
                seed: *seed,
            };
            if finds_cost {
                let families = to_f64(count(self.problem.families()));
                found.trials = Some(found.trials.map_or(families, |trials| trials.min(families)));
            }
            let costs: Vec<TrialCost> = known.iter().map(|(_, cost)| **cost).collect();
            if let Some(left) = limits.trials_left(&spent(&costs)) {
                let observation: Vec<Observation> =
                    known.iter().map(|(observation, _)| **observation).collect();
                let made = search::spent(&observation, &found);
                // Assumes the same share of short trials as before.
                let affordable =
                    made + to_f64(left) * made / to_f64(count(observation.len())).max(1.0);
                found.trials =
                    Some(found.trials.map_or(affordable, |trials| trials.min(affordable)));
            }
            found
        };
        let mut found = with_cost(measured.unwrap_or(SHORT_COST));
        let is_tight = found.trials.is_some_and(|trials| self.is_tight(trials));
        if measured.is_none() && is_tight && !finds_cost {
            found = with_cost(CAREFUL_SHORT_COST);
        }
        if !self.strategy_confirms() {
            let least = to_f64(count(self.problem.families()));
            found.trials =
                found.trials.map(|trials| (trials - self.reserved(trials)).max(least.min(trials)));
        }
        found
    }

    /// Whether so many trials hardly suffice to confirm what a search finds.
    fn is_tight(&self, trials: f64) -> bool {
        let space = &self.problem.space;
        let least =
            least_trials(space.candidates.len(), self.problem.families(), space.workloads.len());
        trials < TIGHT * to_f64(count(least))
    }

    /// The number of repeats with which a ranking strategy can finish within the trial budget: one
    /// whole pass is worth more than a part of several.
    fn affordable_repeats(&self, wanted: u32) -> u32 {
        let wanted = wanted.max(1);
        let Some(trials) = self.rules.limits.trials.filter(|_| !self.strategy_confirms()) else {
            return wanted;
        };
        let fits = |repeats: &u32| {
            let settings = search::SearchSettings { repeats: *repeats, ..Default::default() };
            let search = self.strategy.max_trials(&self.problem.space, &settings);
            search + self.confirming_cost() <= f64::from(trials)
        };
        (1..=wanted).rev().find(fits).unwrap_or(1)
    }

    /// The number of confirming rounds that the trial budget allows after this many search trials.
    fn affordable_rounds(&self, searched: u64, a_round: u64) -> u32 {
        let wanted = self.rules.confirm_rounds;
        let Some(trials) = self.rules.limits.trials else { return wanted };
        let left = u64::from(trials).saturating_sub(searched) / a_round.max(1);
        u32::try_from(left).unwrap_or(u32::MAX).min(wanted)
    }

    /// Whether the strategy makes its own confirming trials.
    fn strategy_confirms(&self) -> bool {
        self.rules.strategy == StrategyKind::Adaptive
    }

    /// Winner, runner-up and two baselines in every round under every workload.
    fn confirming_cost(&self) -> f64 {
        4.0 * f64::from(self.rules.confirm_rounds) * to_f64(count(self.problem.workloads.len()))
    }

    /// How many of so many trials are kept for confirming: half at most, because there must be
    /// something to confirm.
    fn reserved(&self, trials: f64) -> f64 {
        self.confirming_cost().min(trials / 2.0)
    }

    /// The remaining confirming trials, if any.
    fn confirming(&self, history: &[Observation]) -> Option<Vec<Proposal>> {
        let reference = self.problem.space.baseline;
        let searched = searched(history);
        let plain = without_constraints(&searched);
        let limits = search::SearchSettings {
            repeats: self.rules.repeats.max(1),
            ..search::SearchSettings::default()
        };
        let space = self.allowed_space(&searched);
        // Only a setup that is shown to meet the constraint will be recommended.
        let space = constraint::without_suspects(&space, &searched).unwrap_or(space);
        let winner = self.strategy.choice(&space, &plain, &limits)?;
        if winner == reference {
            return None;
        }
        let mut others = space;
        others.candidates[winner].allowed = false;
        let second = self.strategy.choice(&others, &plain, &limits);
        let mut finalists = vec![winner, reference];
        finalists.extend(second);
        finalists.extend(self.problem.own_baseline(winner));
        let mut seen = BTreeSet::new();
        finalists.retain(|finalist| seen.insert(*finalist));
        let a_round = count(finalists.len() * self.problem.workloads.len());
        let rounds = self.affordable_rounds(count(searched.len()), a_round);
        let total = a_round.saturating_mul(u64::from(rounds));
        let begun =
            history.iter().find(|observation| observation.proposal.purpose == Purpose::Confirm);
        let last = history.iter().map(|observation| observation.proposal.batch.number).max();
        let number = begun.map_or_else(
            || last.map_or(0, |last| last.saturating_add(1)),
            |observation| observation.proposal.batch.number,
        );
        let batch = Batch { number, size: u32::try_from(total).unwrap_or(u32::MAX) };
        let mut proposals = Vec::new();
        for repeat in 0..rounds {
            let mut round = Vec::new();
            for &candidate in
                finalists.iter().filter(|candidate| !is_excluded(history, **candidate))
            {
                for workload in 0..self.problem.workloads.len() {
                    let proposal = Proposal {
                        candidate,
                        workload,
                        length: search::TrialLength::Full,
                        purpose: Purpose::Confirm,
                        repeat,
                        batch,
                    };
                    let same = |observation: &Observation| {
                        Proposal { batch, ..observation.proposal } == proposal
                    };
                    if !history.iter().any(same) {
                        round.push(proposal);
                    }
                }
            }
            proposals.extend(order::shuffled(round, self.rules.seed, repeat));
        }
        // The baseline alone allows no comparison.
        let of_winner = proposals.iter().any(|proposal| proposal.candidate != reference);
        (of_winner || begun.is_some() && !proposals.is_empty()).then_some(proposals)
    }
}

/// The error of a search that cannot start, in the user's terms.
pub(crate) fn describe_search_error(error: &SearchError) -> String {
    match error {
        SearchError::TooFewTrials { trials, least } => {
            let are = if *trials == 1.0 { "is" } else { "are" };
            format!(
                "{trials} {are} too few trials: one of each of {least} file systems is required"
            )
        }
        other => other.to_string(),
    }
}

/// Whether a trial of a candidate failed or is missing, or too many lack the figure that it is
/// ranked by, which excludes the candidate.
pub fn is_excluded(history: &[Observation], candidate: CandidateIndex) -> bool {
    search::TrialTable::of(history, |_| false).excluded(candidate).is_some()
}

/// Marks the last batch as complete although trials of excluded candidates were skipped. A resumed
/// run skips the same trials.
pub fn close_batch(history: &mut [Observation]) {
    let Some(last) = history.iter().map(|observation| observation.proposal.batch.number).max()
    else {
        return;
    };
    let made =
        history.iter().filter(|observation| observation.proposal.batch.number == last).count();
    for observation in
        history.iter_mut().filter(|observation| observation.proposal.batch.number == last)
    {
        observation.proposal.batch.size =
            u32::try_from(made).expect("a batch is far below 2^32 trials");
    }
}

/// Removes violations: significant ones are already excluded from the space.
fn without_constraints(history: &[Observation]) -> Vec<Observation> {
    let plain = |observation: &Observation| match observation.outcome {
        search::TrialOutcome::Measured { log_merit, .. } => Observation {
            outcome: search::TrialOutcome::Measured { log_merit, excess: None },
            ..*observation
        },
        _ => *observation,
    };
    history.iter().map(plain).collect()
}

/// Removes confirming trials, which ranking strategies do not use.
fn searched(history: &[Observation]) -> Vec<Observation> {
    history
        .iter()
        .filter(|observation| observation.proposal.purpose != Purpose::Confirm)
        .copied()
        .collect()
}

/// Selects the trials of complete batches.
pub(crate) fn whole_batches(history: &[Observation]) -> impl Fn(&Observation) -> bool + use<> {
    let last =
        history.iter().map(|observation| observation.proposal.batch.number).max().unwrap_or(0);
    let of_last = || history.iter().filter(|observation| observation.proposal.batch.number == last);
    let size = of_last().next().map_or(0, |observation| observation.proposal.batch.size);
    let is_whole = of_last().count() >= usize::try_from(size).expect("at least 32 bits");
    move |observation| is_whole || observation.proposal.batch.number < last
}

/// The total cost in full-length trials; short ones count by their relative time.
pub fn full_length_trials(history: &[Observation], costs: &[TrialCost]) -> f64 {
    let known: Vec<(&Observation, &TrialCost)> = history.iter().zip(costs).collect();
    let short = Some(ShortRun { cost: short_cost(&known).unwrap_or(SHORT_COST) });
    search::spent(history, &search::SearchSettings { short, ..search::SearchSettings::default() })
}

fn spent(costs: &[TrialCost]) -> Spent {
    let mut spent = Spent::default();
    for cost in costs {
        spent.add(*cost);
    }
    spent
}

/// The relative cost of a short trial by the mean times; `None` before enough are measured.
fn short_cost(known: &[(&Observation, &TrialCost)]) -> Option<f64> {
    let mean = |length: search::TrialLength| {
        let times: Vec<u64> = known
            .iter()
            .filter(|(observation, cost)| observation.proposal.length == length && cost.time_ns > 0)
            .map(|(_, cost)| cost.time_ns)
            .collect();
        (times.len() >= ENOUGH_FOR_COST)
            .then(|| times.iter().map(|ns| to_f64(*ns)).sum::<f64>() / to_f64(count(times.len())))
    };
    let short = mean(search::TrialLength::Short)?;
    Some((short / mean(search::TrialLength::Full)?).clamp(0.05, 0.95))
}

fn count(length: usize) -> u64 {
    u64::try_from(length).expect("at most 64 bits")
}

fn to_f64(value: u64) -> f64 {
    value as f64
}
