//! What the exit code of a campaign says.

use flashfit_crash::campaign::SetupResult;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::rendering::crash_states::Counted;

/// Refuses a result of nothing.
pub fn check_something_checked(
    results: &[SetupResult],
    counted: Counted,
) -> Result<(), CommandError> {
    let (what, more) = match counted {
        Counted::States => ("state", "give it more time with --for, or a number with --states"),
        Counted::Cuts => ("power cut", "give it more time with --for, or a number with --cuts"),
    };
    let unknown = results.iter().filter(|result| result.counts.states == 0);
    let unknown: Vec<&str> = unknown.map(|result| result.label.as_str()).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let message = format!("cannot tell: no {what} of {} was checked", unknown.join(", "));
    Err(CommandError::new(ExitClass::Usage, message, Some(more)))
}

/// A bad verdict where a promise was broken.
pub fn verdict(results: &[SetupResult]) -> Result<(), CommandError> {
    let broken: Vec<&str> = results
        .iter()
        .filter(|result| result.counts.broken > 0)
        .map(|result| result.label.as_str())
        .collect();
    if broken.is_empty() {
        return Ok(());
    }
    let message = format!("power cuts broke promises of {}", broken.join(", "));
    Err(CommandError::new(ExitClass::BadVerdict, message, None))
}
