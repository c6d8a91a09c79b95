//! `flashfit tune --twin-first`: the twin that is fitted to what the probe measured.

use std::path::Path;

use flashfit_host::program::quote_path;
use flashfit_probe::{ProbeDocument, TwinMeasurements, fit_twin};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::output::note;
use crate::output_file::{OutputFile, OutputKind};
use crate::probe::watch::ProbeProgress;
use crate::tune::repeat_command::RepeatCommand;

/// The files of a probe and its twin.
#[derive(Clone, Copy)]
pub struct TwinFiles<'a> {
    pub document: &'a Path,
    pub measured: &'a Path,
    pub twin: &'a Path,
}

/// Fits the twin of `target` and writes it. What was measured stays where that fails.
pub fn fit(
    files: TwinFiles<'_>,
    target: &str,
    again: &RepeatCommand,
    progress: &mut ProbeProgress,
) -> Result<(), CommandError> {
    let found = OutputFile::check(files.document, OutputKind::Geometry, false)?;
    let output = OutputFile::check(files.twin, OutputKind::CardModel, false)?;
    let mut document = ProbeDocument::read(files.document)?;
    let measured = TwinMeasurements::read(files.measured).map_err(|error| {
        let hint = format!("remove it to probe again: {}", quote_path(files.measured));
        CommandError::from(error).with_hint(&hint)
    })?;
    let fitted = fit_twin(&measured, target, files.twin, progress);
    progress.finish();
    let (twin, text) = fitted.map_err(|error| {
        let error = CommandError::from(error);
        let hint = match error.class() {
            ExitClass::Interrupted => {
                format!("the probe is kept; to fit the twin to it: {}", again.text())
            }
            _ => format!(
                "the probe is kept; to tune without a twin: {}",
                again.without_twin(files.document)
            ),
        };
        error.with_hint(&hint)
    })?;
    let median_error = twin.median_error_thousandths as f64 / 1000.0;
    document.twin = Some(twin);
    found.write(&document.text())?;
    output.write(&text)?;
    // The twin has it all; a file that stays does no harm.
    let _ = std::fs::remove_file(files.measured);
    note(&format!(
        "the twin is in {}; its rates and the measured ones differ by a factor of \
         {median_error:.2} in the median",
        files.twin.display()
    ));
    Ok(())
}
