//! What a run comes to: the trials as the search was told them, and the answer that follows.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_search::{Answer, CandidateIndex, Observation, Purpose};
use flashfit_user_error::{ExitClass, UserError};

use crate::budget::TrialCost;
use crate::choice::StrategyKind;
use crate::constraint;
use crate::drift::drift;
use crate::driver::{DriverRules, SearchDriver};
use crate::objective::{self, NoFigure, Objective};
use crate::pareto::{RelativeFigures, profiles};
use crate::problem::{Problem, ProblemError};
use crate::recommend::Recommendation;
use crate::record::TrialRecord;
use crate::space::Space;
use crate::spec::RunSpec;
use crate::spread::DeviceEffects;
use crate::stats::Estimate;

/// Wear that differs by less does not decide between setups: 5 %.
const WEAR_STEP: f64 = 0.05;

/// Why nothing can be concluded.
#[derive(Debug, thiserror::Error)]
pub enum ConclusionError {
    /// There is nothing to search.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// A trial does not tell what the run is judged by.
    #[error(transparent)]
    NoFigure(#[from] NoFigure),
}

impl UserError for ConclusionError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Problem(error) => error.class(),
            Self::NoFigure(_) => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Problem(error) => error.hint(),
            Self::NoFigure(_) => None,
        }
    }
}

/// A search, made or under way, and its answer.
#[derive(Debug)]
pub struct Conclusion {
    /// What was searched.
    pub problem: Problem,
    /// What the search was told.
    pub history: Vec<Observation>,
    /// What that cost.
    pub costs: Vec<TrialCost>,
    /// What the search says; `None` before anything that may be chosen was measured.
    pub answer: Option<Answer>,
    /// What follows from it for the user.
    pub recommendation: Option<Recommendation>,
    /// Setups that break the demand beyond noise, and by how much, as a logarithm.
    pub broken: BTreeMap<CandidateIndex, f64>,
    /// How the baseline changed over time, where that can be told.
    pub drift: Option<Estimate>,
    /// What setups are like in every respect.
    pub profiles: Vec<RelativeFigures>,
}

impl Conclusion {
    /// Of a run's trials.
    ///
    /// # Errors
    /// As [`ConclusionError`] tells.
    pub fn of_run(
        space: &Space,
        spec: &RunSpec,
        trials: &[TrialRecord],
    ) -> Result<Self, ConclusionError> {
        let problem = Problem::of_run(space, spec)?;
        let trials = &DeviceEffects::of_whole_batches(trials).applied_to_all(trials);
        let known: Vec<TrialRecord> =
            trials.iter().filter(|trial| problem.has(&trial.key)).cloned().collect();
        let history = objective::history(&problem, Objective::of(spec), &known)?;
        let costs = known.iter().map(TrialRecord::cost).collect();
        Ok(Self::of(problem, history, costs, &DriverRules::of(spec), &known, &[]))
    }

    /// Of what a search was told, with the records that it was told of. Where confirming trials may
    /// repeat each other, `copied` tells it of each trial (else it is empty): a setup's round that
    /// has a copy confirms nothing.
    pub fn of(
        problem: Problem,
        history: Vec<Observation>,
        costs: Vec<TrialCost>,
        rules: &DriverRules,
        trials: &[TrialRecord],
        copied: &[bool],
    ) -> Self {
        let profiles = profiles(&problem, trials);
        let mut wear: Vec<Option<f64>> = vec![None; problem.setups.len()];
        for profile in &profiles {
            wear[profile.candidate] = profile.wear.map(|wear| -(wear / WEAR_STEP).round());
        }
        let evidence = without_copied_rounds(&history, copied);
        let course = SearchDriver::new(&problem, rules);
        let winner = course.choice(&history, &costs);
        let answer = winner.map(|winner| course.answer(winner, &evidence, &costs, &wear));
        let recommendation = answer.as_ref().map(|answer| {
            let chosen_before = rules.strategy != StrategyKind::Adaptive;
            let mut found = Recommendation::of(&problem, &evidence, answer, chosen_before);
            let riskier = if_all_were_allowed(&problem, rules, &history, &costs);
            found.better_but_less_safe = riskier
                .filter(|other| !problem.space.candidates[*other].allowed)
                .map(|other| problem.setups[other].clone());
            found
        });
        let broken = constraint::broken(&history);
        let drift = drift(&problem, &history);
        Self { problem, history, costs, answer, recommendation, broken, drift, profiles }
    }
}

/// The same trials, with those of a candidate's round that has a copy in it no longer confirming.
fn without_copied_rounds(history: &[Observation], copied: &[bool]) -> Vec<Observation> {
    let round = |told: &Observation| (told.proposal.candidate, told.proposal.repeat);
    let spoiled: BTreeSet<(CandidateIndex, u32)> = history
        .iter()
        .zip(copied)
        .filter(|(_, copied)| **copied)
        .map(|(told, _)| round(told))
        .collect();
    let mut evidence = history.to_vec();
    for told in &mut evidence {
        if told.proposal.purpose == Purpose::Confirm && spoiled.contains(&round(told)) {
            told.proposal.purpose = Purpose::Search;
        }
    }
    evidence
}

/// What would be chosen if everything were safe enough.
fn if_all_were_allowed(
    problem: &Problem,
    rules: &DriverRules,
    history: &[Observation],
    costs: &[TrialCost],
) -> Option<CandidateIndex> {
    let mut all = problem.clone();
    all.space.candidates.iter_mut().for_each(|candidate| candidate.allowed = true);
    SearchDriver::new(&all, rules).choice(history, costs)
}
