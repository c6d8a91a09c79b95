//! The twin of `flashfit probe --twin`.

use flashfit_probe::{FittedTwin, ProbeOutcome, fit_twin};

use super::args::ProbeArgs;
use super::watch::ProbeProgress;
use crate::command_error::CommandError;
use crate::output_file::OutputKind;

/// The twin, where one was asked for and the probe came to its end.
pub fn fitted(
    args: &ProbeArgs,
    what: &str,
    outcome: &ProbeOutcome,
    progress: &mut ProbeProgress,
) -> Result<Option<FittedTwin>, CommandError> {
    let Some(path) = args.twin.as_deref().filter(|_| outcome.failure.is_none()) else {
        return Ok(None);
    };
    let twin = fit_twin(&outcome.twin, what, args.twin_named(path), progress);
    progress.finish();
    let (twin, text) = twin?;
    args.write(path, OutputKind::CardModel, &text)?;
    Ok(Some(twin))
}
