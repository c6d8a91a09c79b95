//! A setup of a run by the name that the user typed.

use flashfit_search::CandidateIndex;
use flashfit_user_error::ExitClass;

use super::RunView;
use crate::command_error::CommandError;

/// The setup with this name: as `analyze` prints it, or `baseline`, `winner` or `recommended`.
///
/// # Errors
/// If the run has none.
pub fn find(view: &RunView<'_>, name: &str) -> Result<CandidateIndex, CommandError> {
    let problem = &view.conclusion.problem;
    let recommendation = view.recommendation();
    let setup = match name {
        "baseline" => return Ok(problem.space.baseline),
        "winner" => recommendation.map(|found| found.winner.clone()),
        "recommended" => recommendation.map(|found| found.recommended().clone()),
        _ => problem.setups.iter().find(|setup| setup.label() == name).cloned(),
    };
    setup.and_then(|setup| problem.candidate(&setup)).ok_or_else(|| {
        let known: Vec<String> = view.results.setups().map(|setup| setup.label()).collect();
        let words = ["baseline", "winner", "recommended"];
        let known = known.iter().map(String::as_str).chain(words);
        let hint = flashfit_catalog::nearest(name, known).filter(|found| found != name);
        let hint = hint.map_or_else(
            || "type it as analyze shows it, in quotes, or: baseline, winner, recommended".into(),
            |found| format!("did you mean '{found}'?"),
        );
        let message = format!("`{name}`: this run has no such setup");
        CommandError::new(ExitClass::Usage, message, Some(&hint))
    })
}
