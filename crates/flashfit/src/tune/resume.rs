//! `flashfit tune --resume DIR`: what a recorded run continues with, and how an error says that it
//! can be continued.

use std::path::Path;

use flashfit_host::path_text::to_text;
use flashfit_host::program::quote_path;
use flashfit_tune::run::Catalogs;
use flashfit_tune::{StoredRun, TuneError};

use super::args::TuneArgs;
use super::extend;
use super::resolved::ResolvedSpec;
use crate::command_error::CommandError;
use crate::output::note;
use crate::test_beds::again_words::again_words;

/// What a recorded run continues with. It decides alone neither on programs nor on places outside
/// its directory: docs/run-format.md says which of them the command line names again.
pub fn recorded(
    args: &TuneArgs,
    dir: &Path,
    catalog: Option<&Path>,
) -> Result<(ResolvedSpec, Option<StoredRun>), CommandError> {
    let run = StoredRun::read(dir)?;
    let mut spec = Catalogs::recorded(&run.header, catalog)?;
    spec.on = args.stand.again(&spec.on, dir)?;
    if let Some(elsewhere) = spec.mount_dir.take() {
        note(&format!(
            "note: file systems are mounted in {}, not in {}",
            to_text(&dir.join("mnt")),
            to_text(&elsewhere)
        ));
    }
    let recorded = match run.trials.len() {
        1 => "1 trial was recorded".to_owned(),
        count => format!("{count} trials were recorded"),
    };
    note(&format!("resuming {}: {recorded}", to_text(dir)));
    spec.crash_states = args.crash_states.or(spec.crash_states);
    let spec = extend::extended(args, spec, &run.trials)?;
    let resolved = ResolvedSpec { spec, dir: dir.to_owned(), end_requested: false, probe: None };
    Ok((resolved, Some(run)))
}

/// An error that ends a run says how to go on.
pub fn resumable(error: TuneError, resolved: &ResolvedSpec) -> CommandError {
    let error = CommandError::from(error).in_dir(&resumed_dir(resolved));
    error.or_hint(&hint(resolved))
}

/// How to go on.
pub fn hint(resolved: &ResolvedSpec) -> String {
    if !resolved.dir.exists() {
        return "the run directory was removed, and the trials with it; start a new run".to_owned();
    }
    let dir = resumed_dir(resolved);
    format!("the recorded trials are kept; continue with: flashfit tune --resume {dir}")
}

fn resumed_dir(ResolvedSpec { spec, dir, .. }: &ResolvedSpec) -> String {
    format!("{}{}", quote_path(dir), again_words(spec))
}
