//! The conclusion of a run: the history as seen by the search, its analysis and the recommendation.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_search::{Answer, CandidateIndex, MAX_WITHOUT_FIGURE, Observation, Purpose};
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::bimodal::{self, TwoModes};
use crate::budget::TrialCost;
use crate::choice::StrategyKind;
use crate::constraint::{self, ConstraintEvidence, ConstraintViolation};
use crate::drift::{self, BaselineCheck};
use crate::driver::{DriverRules, SearchDriver};
use crate::life::SetupLives;
use crate::objective::{self, NoFigure, NoFigures, Objective, SetupWithoutFigure};
use crate::pareto::{RelativeFigures, profiles};
use crate::problem::{Problem, ProblemError};
use crate::recommend::Recommendation;
use crate::record::TrialRecord;
use crate::space::Space;
use crate::spec::RunSpec;
use crate::spread::DeviceEffects;
use crate::start_effect::{self, StartEffect};

/// The step that differences in wear are rounded to: 5 %.
const WEAR_STEP: f64 = 0.05;
/// The least probability to be within the goal's distance of the best with which a setup is named
/// that is not confirmed, where the baseline cannot be kept.
const LEAST_WITHIN: f64 = 0.5;

/// Why a run has no conclusion.
#[derive(Debug, thiserror::Error)]
pub enum ConclusionError {
    /// There is nothing to search.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// No trial has the figure that the run is ranked by.
    #[error(transparent)]
    NoFigures(#[from] NoFigures),
}

impl UserError for ConclusionError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Problem(error) => error.class(),
            Self::NoFigures(_) => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Problem(error) => error.hint(),
            Self::NoFigures(_) => None,
        }
    }
}

/// A finished or running search with its analysis.
#[derive(Debug)]
pub struct Conclusion {
    pub problem: Problem,
    /// The history as seen by the search.
    pub history: Vec<Observation>,
    /// The same, in which each record counts once.
    pub(crate) evidence: Vec<Observation>,
    /// Whether the strategy chooses the winner before the confirming trials.
    pub(crate) chosen_before: bool,
    pub costs: Vec<TrialCost>,
    /// `None` before any allowed setup was measured.
    pub answer: Option<Answer>,
    /// `None` also where too little was measured to recommend one of the setups to choose from.
    pub recommendation: Option<Recommendation>,
    /// Whether a candidate may be recommended by its safety and what the run lists, apart from
    /// constraints.
    pub choosable: Vec<bool>,
    /// Setups that significantly violate the constraint.
    pub broken: BTreeMap<CandidateIndex, ConstraintViolation>,
    /// With a constraint: the setups that were measured under every workload, the nearest to the
    /// constraint first. Only those that are shown to meet it can be recommended.
    pub constraint: Option<Vec<ConstraintEvidence>>,
    /// How long setups last, where a usage model was given.
    pub lives: Option<SetupLives>,
    /// Why completed trials lack the figure that the run is ranked by, in their order.
    pub without_figure: Vec<NoFigure>,
    /// Setups that are excluded because of that.
    pub setups_without_figure: Vec<SetupWithoutFigure>,
    /// What the repeats of the baseline show.
    pub baseline_check: BaselineCheck,
    /// Setups whose trials fall into two groups.
    pub two_modes: Vec<TwoModes>,
    /// Where the state in which a workload starts changes its result.
    pub start_effects: Vec<StartEffect>,
    /// Figures of every setup relative to the baseline.
    pub profiles: Vec<RelativeFigures>,
}

impl Conclusion {
    /// The conclusion of a run's trials.
    ///
    /// # Errors
    /// See [`ConclusionError`].
    pub fn of_run(
        space: &Space,
        spec: &RunSpec,
        trials: &[TrialRecord],
    ) -> Result<Self, ConclusionError> {
        let problem = Problem::of_run(space, spec)?;
        let trials = &DeviceEffects::of_whole_batches(trials).applied_to_all(trials);
        let known: Vec<TrialRecord> =
            trials.iter().filter(|trial| problem.has(&trial.key)).cloned().collect();
        let objective = Objective::of(spec);
        let history = objective::history(&problem, objective, &known);
        let is_any_measured = history.iter().any(|trial| trial.log_merit().is_some());
        let few = if is_any_measured { MAX_WITHOUT_FIGURE - 1 } else { 0 };
        objective.check_figures(known.iter(), few)?;
        let costs = known.iter().map(TrialRecord::cost).collect();
        let start_effects = start_effect::of_run(&problem, objective, &known);
        let found = Self::of(problem, history, costs, &DriverRules::of(spec), &known, &[]);
        let without_figure = known.iter().filter_map(|trial| objective.no_figure(trial)).collect();
        let setups_without_figure =
            objective.setups_without_figure(&found.problem, &found.history, &known);
        Ok(Self { start_effects, without_figure, setups_without_figure, ..found })
    }

    /// The conclusion of a history with its records. If trials may repeat each other, `copied`
    /// marks the copies (otherwise it is empty): they are no evidence, and a setup's round with a
    /// copy confirms nothing.
    pub fn of(
        problem: Problem,
        history: Vec<Observation>,
        costs: Vec<TrialCost>,
        rules: &DriverRules,
        trials: &[TrialRecord],
        copied: &[bool],
    ) -> Self {
        let lives = SetupLives::of(&problem, trials);
        let profiles = profiles(&problem, trials, lives.as_ref());
        let mut wear: Vec<Option<f64>> = vec![None; problem.setups.len()];
        for profile in &profiles {
            // Without the 0, differences to be ignored are -0 and 0, which are ordered.
            wear[profile.candidate] = profile.wear.map(|wear| 0.0 - (wear / WEAR_STEP).round());
        }
        let (evidence, evidence_costs) = without_copies(&history, &costs, copied);
        let constraint =
            constraint::is_set(&evidence).then(|| constraint::evidence(&problem.space, &evidence));
        let safe_enough: Vec<bool> =
            problem.space.candidates.iter().map(|candidate| candidate.allowed).collect();
        let lasting = lives.as_ref().filter(|lives| lives.min_years().is_some());
        let unconstrained = (constraint.is_some() || lasting.is_some()).then(|| problem.clone());
        let problem = match &constraint {
            Some(evidence) => shown_only(problem, evidence),
            None => problem,
        };
        let problem = match lasting {
            Some(lives) => lasting_only(problem, lives),
            None => problem,
        };
        let chosen_before = rules.strategy != StrategyKind::Adaptive;
        let driver = SearchDriver::new(&problem, rules);
        let winner = driver.choice(&history, &costs);
        let answer = winner.map(|winner| driver.answer(winner, &evidence, &evidence_costs, &wear));
        let recommendation = answer.as_ref().and_then(|answer| {
            let baseline = problem.space.baseline;
            let others = |at: &CandidateIndex| *at != baseline && safe_enough[*at];
            let is_a_choice = (0..problem.setups.len()).filter(others).count() > 1;
            // Of those that meet a constraint, few or one may be left, and it is the best of them.
            let is_probable = unconstrained.is_none() && answer.recommended_within >= LEAST_WITHIN;
            let is_a_guess = is_a_choice && !is_probable;
            let mut found =
                Recommendation::of(&problem, &evidence, answer, chosen_before, is_a_guess)?;
            let is_listed = problem.baseline_is_listed;
            found.baseline_violates |= (is_listed && !safe_enough[baseline])
                || lives.as_ref().is_some_and(|lives| lives.is_shown_to_be_short(baseline));
            let riskier = if_all_were_allowed(&problem, rules, &history, &costs);
            found.better_but_less_safe = riskier
                .filter(|other| !safe_enough[*other] && (is_listed || *other != baseline))
                .map(|other| problem.setups[other].clone());
            let Some(unconstrained) = &unconstrained else { return Some(found) };
            let driver = if_undecided_were_met(unconstrained, lives.as_ref(), rules);
            let is_undecided = |best: &CandidateIndex| {
                *best != baseline && !problem.space.candidates[*best].allowed
            };
            if let Some(best) = driver.choice(&history, &costs).filter(is_undecided) {
                found = found.with_better_but_undecided(&problem.setups[best]);
            }
            Some(match found.keeps_baseline() {
                true => found.among(&driver.answer(baseline, &evidence, &evidence_costs, &wear)),
                false => found,
            })
        });
        let broken = constraint::broken(&evidence);
        let choosable = safe_enough;
        let baseline_check = drift::check(&problem, &evidence);
        let two_modes = bimodal::two_modes(&evidence);
        Self {
            problem,
            history,
            evidence,
            chosen_before,
            costs,
            answer,
            recommendation,
            choosable,
            broken,
            constraint,
            lives,
            without_figure: Vec::new(),
            setups_without_figure: Vec::new(),
            baseline_check,
            two_modes,
            start_effects: Vec::new(),
            profiles,
        }
    }
}

impl Conclusion {
    /// The evidence of those that may be recommended if they meet the constraint, the nearest to it
    /// first; `None` without a constraint.
    pub fn choosable_evidence(&self) -> Option<Vec<&ConstraintEvidence>> {
        let evidence = self.constraint.as_ref()?;
        Some(evidence.iter().filter(|found| self.choosable[found.candidate]).collect())
    }

    /// The setup that lasts longest of those that may be recommended if they last long enough; one
    /// that was measured if there is any.
    pub fn longest_lasting(&self) -> Option<CandidateIndex> {
        self.lives.as_ref()?.longest_lasting(|candidate| self.choosable[candidate])
    }

    /// Whether further trials could show that some setup that may be recommended lasts as long as
    /// it must.
    pub fn can_any_be_shown_to_last(&self) -> bool {
        let Some(lives) = &self.lives else { return true };
        let short_lived = lives.cannot_be_shown();
        (0..self.choosable.len())
            .any(|candidate| self.choosable[candidate] && !short_lived.contains(&candidate))
    }

    /// Whether some setup that may be recommended is shown to last as long as it must.
    pub fn is_any_shown_to_last(&self) -> bool {
        self.lives.as_ref().is_some_and(|lives| {
            (0..self.choosable.len())
                .any(|candidate| self.choosable[candidate] && lives.is_shown_to_last(candidate))
        })
    }
}

/// The problem in which only setups that are shown to meet the constraint are allowed.
fn shown_only(mut problem: Problem, evidence: &[ConstraintEvidence]) -> Problem {
    for (index, candidate) in problem.space.candidates.iter_mut().enumerate() {
        let is_shown = |found: &ConstraintEvidence| found.candidate == index && found.is_shown;
        candidate.allowed &= evidence.iter().any(is_shown);
    }
    problem
}

/// The problem in which only setups that are shown to last long enough are allowed.
fn lasting_only(mut problem: Problem, lives: &SetupLives) -> Problem {
    for (index, candidate) in problem.space.candidates.iter_mut().enumerate() {
        candidate.allowed &= lives.is_shown_to_last(index);
    }
    problem
}

/// The history without copies, and its costs. Rounds of a candidate that contain one no longer
/// count as confirming.
fn without_copies(
    history: &[Observation],
    costs: &[TrialCost],
    copied: &[bool],
) -> (Vec<Observation>, Vec<TrialCost>) {
    if !copied.contains(&true) {
        return (history.to_vec(), costs.to_vec());
    }
    let round =
        |observation: &Observation| (observation.proposal.candidate, observation.proposal.repeat);
    let confirms = |observation: &Observation| observation.proposal.purpose == Purpose::Confirm;
    let spoiled: BTreeSet<(CandidateIndex, u32)> = history
        .iter()
        .zip(copied)
        .filter(|(observation, copied)| **copied && confirms(observation))
        .map(|(observation, _)| round(observation))
        .collect();
    let kept = history.iter().zip(costs).zip(copied).filter(|(_, copied)| !**copied);
    let evidence = kept.map(|((observation, cost), _)| {
        let mut observation = *observation;
        if confirms(&observation) && spoiled.contains(&round(&observation)) {
            observation.proposal.purpose = Purpose::Search;
        }
        (observation, *cost)
    });
    evidence.unzip()
}

/// The search if setups met the constraints that they are not shown to violate.
fn if_undecided_were_met<'a>(
    unconstrained: &'a Problem,
    lives: Option<&SetupLives>,
    rules: &'a DriverRules,
) -> SearchDriver<'a> {
    let is_short = |candidate: &CandidateIndex| {
        lives.is_some_and(|lives| lives.is_shown_to_be_short(*candidate))
    };
    let short_lived = (0..unconstrained.setups.len()).filter(is_short).collect();
    SearchDriver::new(unconstrained, rules).excluding(short_lived)
}

/// The choice if every setup were safe enough.
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

#[cfg(test)]
mod tests {
    use flashfit_search::{Batch, Proposal, TrialLength, TrialOutcome};

    use super::*;

    #[test]
    fn copies_are_no_evidence_and_their_rounds_confirm_nothing() {
        let made = |candidate, workload, purpose, repeat| {
            let batch = Batch { number: 0, size: 5 };
            let length = TrialLength::Full;
            let proposal = Proposal { candidate, workload, length, purpose, repeat, batch };
            let outcome = TrialOutcome::Measured { log_merit: 1.0, excess: None };
            Observation { proposal, visit: 0, start: 0, outcome }
        };
        let history = [
            made(0, 0, Purpose::Search, 0),
            made(0, 0, Purpose::Confirm, 0),
            made(0, 1, Purpose::Confirm, 0),
            made(0, 0, Purpose::Confirm, 1),
            made(0, 1, Purpose::Confirm, 1),
        ];
        let costs = [1, 2, 3, 4, 5].map(|time_ns| TrialCost { time_ns, ..TrialCost::default() });
        let copied = [true, false, false, true, false];
        let (evidence, kept) = without_copies(&history, &costs, &copied);
        assert_eq!(kept, [costs[1], costs[2], costs[4]]);
        let purposes: Vec<Purpose> = evidence.iter().map(|of| of.proposal.purpose).collect();
        assert_eq!(purposes, [Purpose::Confirm, Purpose::Confirm, Purpose::Search]);
        assert_eq!(without_copies(&history, &costs, &[]).0.len(), 5);
    }
}
