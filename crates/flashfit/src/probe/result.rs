//! Shows and keeps what a probe found; what ended it decides the exit code.

use std::path::PathBuf;

use flashfit_filesystem::FileSystemCatalog;
use flashfit_probe::{ProbeDocument, ProbeOutcome, ProbeSettings};
use flashfit_target::InspectedTarget;
use flashfit_user_error::{ExitClass, UserError};

use super::args::ProbeArgs;
use super::next;
use super::twin::fitted;
use super::watch::ProbeProgress;
use crate::command_error::CommandError;
use crate::output;
use crate::output_file::OutputKind;
use crate::rendering::probe as rendering;
use crate::survey;

pub fn present(
    args: &ProbeArgs,
    settings: ProbeSettings,
    outcome: ProbeOutcome,
    target: Option<&InspectedTarget>,
    fs_catalog: &FileSystemCatalog,
    progress: &mut ProbeProgress,
) -> Result<(), CommandError> {
    let twin = fitted(args, &settings.target, &outcome, progress);
    let ProbeOutcome { probed, failure, .. } = outcome;
    let class = failure.as_ref().map(UserError::class);
    let has_failed = matches!(class, Some(ExitClass::Io | ExitClass::Environment));
    // The guard ends a probe that writes as an interruption does.
    let interrupted =
        has_failed || matches!(class, Some(ExitClass::Interrupted | ExitClass::Refused));
    let mut document = ProbeDocument::new(settings, probed, interrupted);
    // The probe is shown also where no twin could be made of it.
    let no_twin = twin.map(|twin| document.twin = twin).err();
    let board = args.client.reached_as.as_deref();
    if !has_failed {
        document.next = next::next(&document, target, fs_catalog, (args.saved_as(), board));
    }
    // A probe that wrote cannot be repeated for free: no failure stops the other outputs.
    let shown = match args.json {
        true => output::whole_document(&document.text()),
        false => output::print(&rendering::text(&document, output::width())),
    };
    let write = |path: &Option<PathBuf>, kind, text: &dyn Fn() -> String| {
        path.as_ref().map_or(Ok(()), |path| args.write(path, kind, &text()))
    };
    let saved = write(&args.output, OutputKind::Geometry, &|| document.text());
    let drawn = write(&args.svg, OutputKind::Drawing, &|| rendering::chart::draw(&document));
    // The user's survey is on the client's machine.
    let mentioned = if board.is_some() { Ok(()) } else { mention(args, &document) };
    let failure = failure.map(CommandError::from);
    let fault = document.tested_capacity().fault();
    let verdict = failure.or(fault.map(CommandError::from)).or(no_twin);
    let lost = [shown, saved, drawn, mentioned].into_iter().filter_map(Result::err);
    all_or_none(verdict.into_iter().chain(lost))
}

/// Notes what the survey has of the probed device.
pub fn mention(args: &ProbeArgs, document: &ProbeDocument) -> Result<(), CommandError> {
    let Some(device) = document.device.as_ref().filter(|_| !document.simulated) else {
        return Ok(());
    };
    let place = (device.capacity_bytes, device.partition_start_bytes.is_some());
    survey::mention(&args.survey, device.kind, &device.identity, &document.declared, place)
}

/// All errors as one, whose exit code is that of the first.
pub fn all_or_none(errors: impl Iterator<Item = CommandError>) -> Result<(), CommandError> {
    let errors: Vec<_> = errors.collect();
    if errors.is_empty() { Ok(()) } else { Err(CommandError::joined(errors)) }
}
