//! A search on recorded trials, and the comparison of its choice with all recorded setups.
//!
//! The recorded merit of a setup is the weighted mean over the workloads of the mean logarithm of
//! all its full-length trials. Limit: with few repeats, the recorded best is itself overestimated,
//! so the distance of a good choice from it is overestimated as well.

use flashfit_filesystem::{Durability, FileSystemCatalog, Setup};
use flashfit_search::{CandidateIndex, NextStep, Observation, TrialOutcome};

use super::recording::{Recording, ReplayError};
use super::sampler::{ReplaySampler, copies};
use crate::budget::BudgetReached;
use crate::budget::TrialCost;
use crate::driver::{self, DriverRules, SearchDriver};
use crate::life::SetupLives;
use crate::objective::{self, Objective};
use crate::prior;
use crate::problem::{Problem, SetupStanding};
use crate::record::{RecordedOutcome as Recorded, TrialRecord};
use crate::session::RunEnd;
use flashfit_run_format::{RunLife, RunPrior};

/// The parameters of a replay.
#[derive(Clone)]
pub struct ReplayRequest<'a> {
    pub rules: DriverRules,
    pub judge: Objective,
    /// Workloads to use; all recorded ones if empty.
    pub workloads: Vec<String>,
    pub weight: &'a dyn Fn(&str) -> f64,
    /// The required safety of the choice.
    pub allow: Durability,
    pub wanted: &'a dyn Fn(&Setup) -> bool,
    /// How long setups last.
    pub life: Option<RunLife>,
    /// What is known of similar devices.
    pub prior: Option<RunPrior>,
}

/// Why a candidate has no recorded merit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnrankedReason {
    /// It is not among the setups that may be chosen.
    NotAllowed,
    Failed,
    LacksWorkload,
    /// The median 99th percentile of its write latencies under a workload exceeds the constraint.
    SlowWrites,
    /// It probably lasts less than it must.
    ShortLived,
}

/// The result of a replay.
#[derive(Debug)]
pub struct Replayed {
    pub problem: Problem,
    pub history: Vec<Observation>,
    /// The recorded cost of each trial.
    pub costs: Vec<TrialCost>,
    /// By trial, whether it repeats a recorded trial that another one stands for.
    pub copied: Vec<bool>,
    pub ended: RunEnd,
    pub choice: Option<CandidateIndex>,
    /// The recorded log merit of each candidate.
    pub recorded: Vec<Result<f64, UnrankedReason>>,
    /// The recorded log merit of the baseline, even if it violates a constraint; `None` if it has a
    /// failed trial or lacks a workload.
    pub baseline_merit: Option<f64>,
    /// Number of repeated draws.
    pub drawn_again: u64,
    /// Setups without a full-length trial under some workload.
    pub incomplete: Vec<CandidateIndex>,
    /// Those of them that have at least a short trial under every workload.
    pub only_short: Vec<CandidateIndex>,
    /// Setups with a failed trial.
    pub failed: Vec<CandidateIndex>,
}

impl Replayed {
    /// The total cost in full-length trials.
    pub fn full_length_trials(&self) -> f64 {
        driver::full_length_trials(&self.history, &self.costs)
    }

    /// The rank of a candidate by recorded merit, from 1, and the number of ranked candidates.
    pub fn rank(&self, candidate: CandidateIndex) -> Option<(usize, usize)> {
        let own = self.recorded[candidate].ok()?;
        let known: Vec<f64> = self.recorded.iter().flatten().copied().collect();
        Some((1 + known.iter().filter(|other| **other > own).count(), known.len()))
    }

    /// The candidate with the best recorded merit.
    pub fn best(&self) -> Option<CandidateIndex> {
        let known = self.recorded.iter().enumerate();
        let known = known.filter_map(|(index, merit)| Some((index, (*merit).ok()?)));
        known.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
    }

    /// The distance of a candidate's recorded merit from the best, as a logarithm of at least 0.
    pub fn regret(&self, candidate: CandidateIndex) -> Option<f64> {
        Some(self.recorded[self.best()?].ok()? - self.recorded[candidate].ok()?)
    }

    /// The logarithm of a ranked candidate's recorded gain over the baseline.
    pub fn gain(&self, candidate: CandidateIndex) -> Option<f64> {
        Some(self.recorded[candidate].ok()? - self.baseline_merit?)
    }
}

/// Runs a search on a recording.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay(
    recording: &Recording,
    question: &ReplayRequest<'_>,
    catalog: &FileSystemCatalog,
) -> Result<Replayed, ReplayError> {
    let workloads = workloads(recording, question)?;
    let reference = recording.baseline()?;
    let setups: Vec<Setup> =
        recording.setups().into_iter().filter(|setup| (question.wanted)(setup)).collect();
    if setups.is_empty() {
        return Err(ReplayError::NothingWanted);
    }
    let standing = |setup: &Setup, listed: bool| {
        let verdict = catalog
            .filesystem(&setup.filesystem)
            .ok()
            .and_then(|filesystem| setup.durability(filesystem).ok());
        // Setups that are not in the catalog are assumed to be safe.
        let durability = verdict.map_or(Durability::Safe, |verdict| verdict.durability);
        SetupStanding { durability, allowed: listed && durability <= question.allow }
    };
    let order: Vec<String> = catalog
        .filesystems()
        .iter()
        .flat_map(|found| found.options.iter().map(|o| format!("{}/{}", found.name, o.name)))
        .collect();
    let mut problem =
        Problem::new(setups, &reference, &order, &workloads, question.weight, standing)?;
    problem.life.clone_from(&question.life);
    problem.prior = question.prior.as_ref().and_then(|known| prior::of(&problem, known));
    let mut sampler = sampler(recording, question, &problem)?;
    let (incomplete, failed) = gaps(&problem, &sampler);
    let has_all = |candidate: &CandidateIndex| {
        (0..problem.workloads.len()).all(|workload| sampler.has_any(*candidate, workload))
    };
    let only_short = incomplete.iter().copied().filter(has_all).collect();
    // Costs are not drawn with the trials: the whole record decides which setups last.
    let lives = SetupLives::of(&problem, &recording.trials);
    let short_lived = lives.as_ref().map(SetupLives::cannot_be_shown).unwrap_or_default();
    let baseline_merit = merit(&problem, &sampler, problem.space.baseline).ok();
    let baseline_merit = baseline_merit.map(|merit| merit.log);
    let recorded = recorded(&problem, &sampler, lives.as_ref());
    if incomplete.len() == problem.setups.len() {
        return Err(ReplayError::NoCompleteSetup { workloads });
    }
    // A search takes short trials of any setup, and one without a record excludes its setup. An
    // adaptive run has short trials of few setups only.
    let complete = (0..problem.setups.len())
        .filter(|candidate| !incomplete.contains(candidate) && !failed.contains(candidate));
    let has_short = sampler.has_short(complete, problem.workloads.len());
    let rules = DriverRules { short: question.rules.short && has_short, ..question.rules.clone() };
    let mut driver = SearchDriver::new(&problem, &rules);
    let mut history: Vec<Observation> = Vec::new();
    let mut costs: Vec<TrialCost> = Vec::new();
    let mut draws = Vec::new();
    let ended = 'search: loop {
        let proposals = match driver.next(&history, &costs)? {
            NextStep::Done(stop) => break RunEnd::Search(stop),
            NextStep::Try(proposals) => proposals,
        };
        let confirms = driver.must_confirm_now(&history, &costs);
        for proposal in proposals {
            if let Some(reached) = reached(&rules, &costs) {
                break 'search RunEnd::Limit(reached);
            }
            if !confirms && driver.must_confirm_now(&history, &costs) {
                break;
            }
            if driver::is_excluded(&history, proposal.candidate) {
                continue;
            }
            let draw = sampler.draw(&proposal);
            let visit = u64::try_from(history.len()).expect("at most 64 bits");
            // Recorded starts are drawn at random and not paired: they count as noise.
            history.push(Observation { proposal, visit, start: 0, outcome: draw.outcome });
            costs.push(draw.cost);
            draws.push((proposal, draw.place));
        }
        driver::close_batch(&mut history);
        driver = driver.excluding(short_lived.clone());
    };
    if !history.iter().any(|observation| observation.log_merit().is_some()) {
        return Err(none_measured(recording));
    }
    let choice = driver.choice(&history, &costs);
    let drawn_again = sampler.drawn_again();
    Ok(Replayed {
        problem,
        history,
        costs,
        copied: copies(&draws),
        ended,
        choice,
        recorded,
        baseline_merit,
        drawn_again,
        incomplete,
        only_short,
        failed,
    })
}

fn reached(rules: &DriverRules, costs: &[TrialCost]) -> Option<BudgetReached> {
    let mut spent = crate::budget::Spent::default();
    costs.iter().filter(|cost| **cost != TrialCost::default()).for_each(|cost| spent.add(*cost));
    rules.limits.reached(&spent)
}

fn none_measured(recording: &Recording) -> ReplayError {
    let last = recording.trials.iter().rev().find_map(|trial| match &trial.outcome {
        Recorded::Failed { message } => Some(message.clone()),
        Recorded::Completed { .. } => None,
    });
    match last {
        Some(last) => ReplayError::AllFailed { last },
        None => ReplayError::NothingDrawn,
    }
}

/// The selected workloads, all of which must be recorded.
fn workloads(
    recording: &Recording,
    question: &ReplayRequest<'_>,
) -> Result<Vec<String>, ReplayError> {
    if question.workloads.is_empty() {
        return Ok(recording.workloads.clone());
    }
    match question.workloads.iter().find(|name| !recording.workloads.contains(name)) {
        None => Ok(question.workloads.clone()),
        Some(name) => {
            Err(ReplayError::NoWorkload { name: name.clone(), known: recording.workloads.clone() })
        }
    }
}

fn sampler(
    recording: &Recording,
    question: &ReplayRequest<'_>,
    problem: &Problem,
) -> Result<ReplaySampler, ReplayError> {
    let place = |trial: &TrialRecord| {
        Some((problem.candidate(&trial.key.setup)?, problem.workload(&trial.key.workload)?))
    };
    let wanted = recording.trials.iter().filter(|trial| place(trial).is_some());
    question.judge.check_figures(wanted, 0)?;
    let mut trials = Vec::new();
    for trial in &recording.trials {
        let key = &trial.key;
        let Some((candidate, workload)) = place(trial) else { continue };
        let outcome = question.judge.outcome(trial);
        if outcome == TrialOutcome::NoFigure {
            // As if it had not been recorded: another one of its setup is drawn.
            continue;
        }
        trials.push((candidate, workload, objective::length(key.length), outcome, trial.cost()));
    }
    Ok(ReplaySampler::new(trials, question.rules.seed))
}

/// Candidates without some workload, and those with a failed trial.
fn gaps(problem: &Problem, sampler: &ReplaySampler) -> (Vec<CandidateIndex>, Vec<CandidateIndex>) {
    let workloads = 0..problem.workloads.len();
    let failed: Vec<CandidateIndex> = (0..problem.setups.len())
        .filter(|&candidate| {
            workloads.clone().any(|workload| {
                let trials = sampler.recorded(candidate, workload);
                trials.iter().any(|(outcome, _)| *outcome == TrialOutcome::Failed)
            })
        })
        .collect();
    let incomplete = (0..problem.setups.len())
        .filter(|candidate| !failed.contains(candidate))
        .filter(|&candidate| {
            workloads.clone().any(|workload| sampler.recorded(candidate, workload).is_empty())
        })
        .collect();
    (incomplete, failed)
}

/// The recorded merit of a candidate with trials under every workload.
struct RecordedMerit {
    log: f64,
    has_slow_writes: bool,
}

fn merit(
    problem: &Problem,
    sampler: &ReplaySampler,
    candidate: CandidateIndex,
) -> Result<RecordedMerit, UnrankedReason> {
    let mut found = RecordedMerit { log: 0.0, has_slow_writes: false };
    let mut lacks_workload = false;
    for (workload, weight) in problem.space.weights().iter().enumerate() {
        let mut logs = Vec::new();
        let mut excesses = Vec::new();
        for (outcome, _) in sampler.recorded(candidate, workload) {
            let TrialOutcome::Measured { log_merit, excess } = outcome else {
                return Err(UnrankedReason::Failed);
            };
            logs.push(*log_merit);
            excesses.extend(*excess);
        }
        lacks_workload |= logs.is_empty();
        found.has_slow_writes |= crate::stats::median(&excesses).is_some_and(|most| most > 0.0);
        found.log += weight * crate::stats::mean(&logs);
    }
    if lacks_workload { Err(UnrankedReason::LacksWorkload) } else { Ok(found) }
}

/// The recorded merit of each candidate that can be chosen.
fn recorded(
    problem: &Problem,
    sampler: &ReplaySampler,
    lives: Option<&SetupLives>,
) -> Vec<Result<f64, UnrankedReason>> {
    let ranked = |candidate: CandidateIndex| {
        // The baseline can always be kept.
        let is_baseline = candidate == problem.space.baseline;
        if !is_baseline && !problem.space.candidates[candidate].allowed {
            return Err(UnrankedReason::NotAllowed);
        }
        let found = merit(problem, sampler, candidate)?;
        if found.has_slow_writes {
            return Err(UnrankedReason::SlowWrites);
        }
        if lives.is_some_and(|lives| lives.is_probably_short(candidate)) {
            return Err(UnrankedReason::ShortLived);
        }
        Ok(found.log)
    };
    (0..problem.setups.len()).map(ranked).collect()
}
