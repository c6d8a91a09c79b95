//! The search on recorded trials, and how its choice compares with what is recorded of all setups.
//!
//! What is recorded of a setup is the weighted mean over the workloads of the mean logarithm of all
//! its whole trials. Limit: with few repeats the best by that is flattered itself, so that the
//! distance of a good choice from it is overstated rather than understated.

use flashfit_filesystem::{Durability, FileSystemCatalog, Setup};
use flashfit_search::{CandidateIndex, NextStep, Observation, SearchEnd, TrialOutcome};

use super::recording::{Recording, ReplayError};
use super::sampler::ReplaySampler;
use crate::budget::BudgetReached;
use crate::budget::TrialCost;
use crate::driver::{self, DriverRules, SearchDriver};
use crate::objective::{self, Objective};
use crate::problem::{Problem, SetupStanding};
use crate::record::RecordedOutcome as Recorded;
use crate::session::RunEnd;

/// What is asked of a recording.
#[derive(Clone)]
pub struct ReplayRequest<'a> {
    /// How trials are chosen, and how many.
    pub rules: DriverRules,
    /// By what they are judged.
    pub judge: Objective,
    /// The workloads that count; all that were recorded where there are none.
    pub workloads: Vec<String>,
    /// How much a workload counts.
    pub weight: &'a dyn Fn(&str) -> f64,
    /// The least safety of what may be chosen.
    pub allow: Durability,
    /// Which setups are looked at.
    pub wanted: &'a dyn Fn(&Setup) -> bool,
}

/// A search that was made on a recording.
#[derive(Debug)]
pub struct Replayed {
    /// What was searched.
    pub problem: Problem,
    /// The trials that were drawn.
    pub history: Vec<Observation>,
    /// What they cost when they were made.
    pub costs: Vec<TrialCost>,
    /// Of each trial whether it is a confirming one that repeats an earlier confirming one.
    pub copied: Vec<bool>,
    /// Why it ended.
    pub ended: RunEnd,
    /// What was chosen, if anything could be.
    pub choice: Option<CandidateIndex>,
    /// The recorded merit of each candidate as a logarithm relative to the baseline; `None`
    /// where a workload is missing, a trial failed, a demand is broken or it may not be chosen.
    pub recorded: Vec<Option<f64>>,
    /// Draws that repeated a trial.
    pub drawn_again: u64,
    /// Setups that lack a trial under some workload.
    pub incomplete: Vec<CandidateIndex>,
    /// Setups of which a trial failed.
    pub failed: Vec<CandidateIndex>,
}

impl Replayed {
    /// What the trials cost together, in full-length ones.
    pub fn full_length_trials(&self) -> f64 {
        driver::full_length_trials(&self.history, &self.costs)
    }

    /// The place of a candidate by what is recorded, from 1, and of how many.
    pub fn rank(&self, candidate: CandidateIndex) -> Option<(usize, usize)> {
        let own = self.recorded[candidate]?;
        let known: Vec<f64> = self.recorded.iter().flatten().copied().collect();
        Some((1 + known.iter().filter(|other| **other > own).count(), known.len()))
    }

    /// The best by what is recorded.
    pub fn best(&self) -> Option<CandidateIndex> {
        let known = self.recorded.iter().enumerate();
        let known = known.filter_map(|(index, merit)| Some((index, (*merit)?)));
        known.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
    }

    /// How far below the best a candidate is by what is recorded, as a logarithm of at least 0.
    pub fn regret(&self, candidate: CandidateIndex) -> Option<f64> {
        Some(self.recorded[self.best()?]? - self.recorded[candidate]?)
    }
}

/// Searches a recording.
///
/// # Errors
/// As [`ReplayError`] tells.
pub fn replay(
    recording: &Recording,
    question: &ReplayRequest<'_>,
    catalogue: &FileSystemCatalog,
) -> Result<Replayed, ReplayError> {
    let workloads = workloads(recording, question)?;
    let reference = recording.reference()?;
    let setups: Vec<Setup> =
        recording.setups().into_iter().filter(|setup| (question.wanted)(setup)).collect();
    let standing = |setup: &Setup, listed: bool| {
        let verdict = catalogue
            .filesystem(&setup.filesystem)
            .ok()
            .and_then(|filesystem| setup.durability(filesystem).ok());
        // Nothing is known against what the catalog does not have.
        let durability = verdict.map_or(Durability::Safe, |verdict| verdict.durability);
        SetupStanding { durability, allowed: listed && durability <= question.allow }
    };
    let order: Vec<String> = catalogue
        .filesystems()
        .iter()
        .flat_map(|found| found.options.iter().map(|o| format!("{}/{}", found.name, o.name)))
        .collect();
    let problem = Problem::new(setups, &reference, &order, &workloads, question.weight, standing)?;
    let mut urn = urn(recording, question, &problem)?;
    let (incomplete, failed) = gaps(&problem, &urn);
    let recorded = recorded(&problem, &urn);
    if incomplete.len() == problem.setups.len() {
        return Err(ReplayError::NoCompleteSetup { workloads });
    }
    let rules =
        DriverRules { short: question.rules.short && urn.has_short(), ..question.rules.clone() };
    let course = SearchDriver::new(&problem, &rules);
    let mut history: Vec<Observation> = Vec::new();
    let mut costs: Vec<TrialCost> = Vec::new();
    let mut copied: Vec<bool> = Vec::new();
    let ended = 'search: loop {
        let asks = match course.next(&history, &costs)? {
            NextStep::Done(stop) => break RunEnd::Search(stop),
            NextStep::Try(asks) => asks,
        };
        let confirms = course.turns_to_confirming(&history, &costs);
        for ask in asks {
            if let Some(reached) = reached(&rules, &costs) {
                break 'search RunEnd::Limit(reached);
            }
            if !confirms && course.turns_to_confirming(&history, &costs) {
                break;
            }
            if driver::is_out(&history, ask.candidate) {
                continue;
            }
            let draw = urn.draw(&ask);
            let visit = u64::try_from(history.len()).expect("at most 64 bits");
            history.push(Observation { proposal: ask, visit, outcome: draw.outcome });
            costs.push(draw.cost);
            copied.push(draw.copied);
        }
        driver::close_batch(&mut history);
    };
    if !history.iter().any(|told| told.log_merit().is_some()) {
        return Err(all_failed(recording, ended));
    }
    let choice = course.choice(&history, &costs);
    let drawn_again = urn.drawn_again();
    Ok(Replayed {
        problem,
        history,
        costs,
        copied,
        ended,
        choice,
        recorded,
        drawn_again,
        incomplete,
        failed,
    })
}

fn reached(rules: &DriverRules, costs: &[TrialCost]) -> Option<BudgetReached> {
    let mut spent = crate::budget::Spent::default();
    costs.iter().filter(|cost| **cost != TrialCost::default()).for_each(|cost| spent.add(*cost));
    rules.limits.reached(&spent)
}

fn all_failed(recording: &Recording, ended: RunEnd) -> ReplayError {
    let last = recording.trials.iter().rev().find_map(|trial| match &trial.outcome {
        Recorded::Failed { message } => Some(message.clone()),
        Recorded::Completed { .. } => None,
    });
    let last = last.unwrap_or_else(|| match ended {
        RunEnd::Search(SearchEnd::Budget) => {
            "the trials were spent on setups without a record".to_owned()
        }
        _ => "nothing".to_owned(),
    });
    ReplayError::AllFailed { last }
}

/// The workloads that count, all of which were recorded.
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

fn urn(
    recording: &Recording,
    question: &ReplayRequest<'_>,
    problem: &Problem,
) -> Result<ReplaySampler, ReplayError> {
    let mut trials = Vec::new();
    for trial in &recording.trials {
        let key = &trial.key;
        let place = (problem.candidate(&key.setup), problem.workload(&key.workload));
        let (Some(candidate), Some(workload)) = place else { continue };
        let outcome = question.judge.outcome(trial)?;
        trials.push((candidate, workload, objective::length(key.length), outcome, trial.cost()));
    }
    Ok(ReplaySampler::new(trials, question.rules.seed))
}

/// The candidates that lack a workload, and those of which a trial failed.
fn gaps(problem: &Problem, urn: &ReplaySampler) -> (Vec<CandidateIndex>, Vec<CandidateIndex>) {
    let workloads = 0..problem.workloads.len();
    let failed: Vec<CandidateIndex> = (0..problem.setups.len())
        .filter(|&candidate| {
            workloads.clone().any(|workload| {
                let trials = urn.recorded(candidate, workload);
                trials.iter().any(|(outcome, _)| *outcome == TrialOutcome::Failed)
            })
        })
        .collect();
    let incomplete = (0..problem.setups.len())
        .filter(|candidate| !failed.contains(candidate))
        .filter(|&candidate| {
            workloads.clone().any(|workload| urn.recorded(candidate, workload).is_empty())
        })
        .collect();
    (incomplete, failed)
}

/// What is recorded of each candidate, relative to the baseline.
fn recorded(problem: &Problem, urn: &ReplaySampler) -> Vec<Option<f64>> {
    let weights = problem.space.weights();
    let merit = |candidate: CandidateIndex| {
        let mut sum = 0.0;
        for (workload, weight) in weights.iter().enumerate() {
            let trials = urn.recorded(candidate, workload);
            let mut logs = Vec::new();
            let mut excesses = Vec::new();
            for (outcome, _) in trials {
                let TrialOutcome::Measured { log_merit, excess } = outcome else { return None };
                logs.push(*log_merit);
                excesses.extend(*excess);
            }
            if logs.is_empty() || crate::stats::median(&excesses).is_some_and(|most| most > 0.0) {
                return None;
            }
            sum += weight * crate::stats::mean(&logs);
        }
        Some(sum)
    };
    let reference = merit(problem.space.baseline);
    (0..problem.setups.len())
        .map(|candidate| {
            // The baseline can always be kept.
            let may =
                problem.space.candidates[candidate].allowed || candidate == problem.space.baseline;
            Some(merit(candidate).filter(|_| may)? - reference.unwrap_or(0.0))
        })
        .collect()
}
