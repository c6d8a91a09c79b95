//! What a run comes to: the trials as the search was told them, and the answer that follows.

use flashfit_host::{ExitClass, Explain};
use flashfit_search::{CandidateIndex, Told};

use crate::course::{Cost, Course, Rules};
use crate::problem::{Problem, ProblemError};
use crate::recommend::Recommendation;
use crate::record::TrialRecord;
use crate::space::Space;
use crate::spec::RunSpec;
use crate::told::{self, NoFigure};

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

impl Explain for ConclusionError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Problem(error) => error.class(),
            Self::NoFigure(_) => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Problem(error) => error.hint(),
            Self::NoFigure(_) => Some("rank by another merit: --by throughput".to_owned()),
        }
    }
}

/// A search, made or under way, and its answer.
#[derive(Debug)]
pub struct Conclusion {
    /// What was searched.
    pub problem: Problem,
    /// What the search was told.
    pub history: Vec<Told>,
    /// What that cost.
    pub costs: Vec<Cost>,
    /// The answer; `None` before anything that may be chosen was measured.
    pub recommendation: Option<Recommendation>,
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
        let known: Vec<TrialRecord> =
            trials.iter().filter(|trial| problem.has(&trial.key)).cloned().collect();
        let history = told::history(&problem, spec.judge(), &known)?;
        let costs = known.iter().map(TrialRecord::cost).collect();
        Ok(Self::of(problem, history, costs, &spec.rules()))
    }

    /// Of what a search was told.
    pub fn of(problem: Problem, history: Vec<Told>, costs: Vec<Cost>, rules: &Rules) -> Self {
        let winner = Course::new(&problem, rules).choice(&history, &costs);
        let recommendation = winner.map(|winner| {
            let mut found = Recommendation::of(&problem, &history, winner);
            let riskier = if_all_were_allowed(&problem, rules, &history, &costs);
            found.better_but_less_safe = riskier
                .filter(|other| !problem.space.candidates[*other].allowed)
                .map(|other| problem.setups[other].clone());
            found
        });
        Self { problem, history, costs, recommendation }
    }
}

/// What would be chosen if everything were safe enough.
fn if_all_were_allowed(
    problem: &Problem,
    rules: &Rules,
    history: &[Told],
    costs: &[Cost],
) -> Option<CandidateIndex> {
    let mut all = problem.clone();
    all.space.candidates.iter_mut().for_each(|candidate| candidate.allowed = true);
    Course::new(&all, rules).choice(history, costs)
}
