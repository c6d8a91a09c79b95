//! What the exit code of a campaign says. Setups of which nothing was checked do not hide what was
//! found of others.

use flashfit_crash::campaign::SetupResult;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::rendering::crash_states::Counted;

/// Refuses a result of nothing at all.
pub fn check_something_checked(
    results: &[SetupResult],
    counted: Counted,
) -> Result<(), CommandError> {
    if results.iter().any(|result| result.counts.states > 0) {
        return Ok(());
    }
    verdict(results, counted)
}

/// A bad verdict where a promise was broken, and else an error where nothing was checked.
pub fn verdict(results: &[SetupResult], counted: Counted) -> Result<(), CommandError> {
    let labels = |is_meant: fn(&SetupResult) -> bool| {
        let meant = results.iter().filter(|result| is_meant(result));
        meant.map(|result| result.label.as_str()).collect::<Vec<_>>().join(", ")
    };
    let broken = labels(|result| result.counts.broken > 0);
    if !broken.is_empty() {
        let message = format!("power cuts broke promises of {broken}");
        return Err(CommandError::new(ExitClass::BadVerdict, message, None));
    }
    let unknown = labels(|result| result.counts.states == 0);
    if unknown.is_empty() {
        return Ok(());
    }
    let (what, more) = match counted {
        Counted::States => ("state", "give it more time with --for, or a number with --states"),
        Counted::Cuts => ("power cut", "give it more time with --for, or a number with --cuts"),
    };
    let message = format!("cannot tell: no {what} of {unknown} was checked");
    Err(CommandError::new(ExitClass::Usage, message, Some(more)))
}
