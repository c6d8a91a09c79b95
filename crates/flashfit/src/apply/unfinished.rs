//! What the user can type when a device is left unfinished.

use std::path::Path;

use flashfit_apply::{UnfinishedChange, keep_data};
use flashfit_device::{Device, SystemRoots};
use flashfit_filesystem::check::UnfinishedApply;
use flashfit_host::program::{quote, quote_path};
use flashfit_report::text::plain;

use super::args::ApplyArgs;
use crate::command_error::CommandError;
use crate::commands::plan::again::second as second_argument;
use crate::output::{note_with_commands, warn};
use crate::state;

/// The command that goes on with the same, to be typed anywhere.
pub fn resume_command(args: &ApplyArgs, source: &Path, device: &Device, folder: &Path) -> String {
    let mut words = vec![
        "flashfit".to_owned(),
        "apply".to_owned(),
        shown(source),
        shown(&device.path),
        "--backup".to_owned(),
        shown(folder),
    ];
    if args.install {
        words.push("--install".to_owned());
        if args.root != Path::new("/") {
            words.extend(["--root".to_owned(), shown(&args.root)]);
        }
    }
    if let Some(from) = &args.from {
        words.extend(["--from".to_owned(), shown(from)]);
    }
    if let Some(label) = &args.additions.label {
        words.extend(["--label".to_owned(), quote(label)]);
    }
    if let Some(second) = &args.additions.second {
        words.extend(["--second".to_owned(), second_argument(second)]);
    }
    if let Some(point) = &args.mount_point {
        words.extend(["--mount-point".to_owned(), shown(point)]);
    }
    words.join(" ")
}

fn shown(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    quote_path(&absolute)
}

/// The command that continues the changes whose journal is in `folder`.
pub fn keep_data_command(root: &Path, device: &Device, folder: &Path) -> String {
    let mut words = ["flashfit", "apply", "--keep-data"].map(str::to_owned).to_vec();
    words.push(shown(&device.path));
    if root != Path::new("/") {
        words.extend(["--root".to_owned(), shown(root)]);
    }
    words.extend(["--backup".to_owned(), shown(folder)]);
    words.join(" ")
}

/// An error that ends the changes reports how far they are.
pub fn left_improvement(failure: CommandError, device: &Device) -> CommandError {
    let found = keep_data::unfinished(&SystemRoots::default(), device, &state::records());
    let Ok(Some(found)) = found else { return failure };
    warn(&plain(&found.to_string()));
    let mut ways = format!("continue with:\n  {}", plain(&found.resume_command));
    if found.resume_command != found.restore_command {
        ways.push_str(&format!("\nor restore it with:\n  {}", plain(&found.restore_command)));
    }
    note_with_commands(&ways);
    let another = super::keep_earlier::if_another(&found);
    failure.or_hint(&format!("continue with: {}{another}", found.resume_command))
}

/// The command that takes it back.
pub fn restore_command(device: &Device, folder: &Path) -> String {
    let words = [folder, &device.path].map(quote_path);
    format!("flashfit restore {}", words.join(" "))
}

pub fn unfinished(device: &Device) -> Result<Option<UnfinishedChange>, flashfit_apply::ApplyError> {
    flashfit_apply::unfinished(&SystemRoots::default(), device, &state::records())
}

/// An error that ends the work reports the state of the device.
pub fn left(failure: CommandError, device: &Device) -> CommandError {
    let Ok(Some(UnfinishedChange {
        stage,
        resume_command: Some(resume_command),
        restore_command: Some(restore_command),
        ..
    })) = unfinished(device)
    else {
        return failure;
    };
    let doing = stage.map_or_else(String::new, |stage| format!(", while {stage}"));
    warn(&format!("the device is unfinished{doing}; flashfit check reports it"));
    let mut ways = format!("continue with:\n  {}", plain(&resume_command));
    if resume_command != restore_command {
        ways.push_str(&format!("\nor restore it with:\n  {}", plain(&restore_command)));
    }
    note_with_commands(&ways);
    failure.or_hint(&format!("continue with: {resume_command}"))
}

/// A mount that fails when all else is done: the file system was made.
pub fn only_not_mounted(failure: CommandError, device: &Device, backup: &Path) -> CommandError {
    let restore_command = restore_command(device, backup);
    failure
        .at("the file system was made, but cannot be mounted")
        .with_hint(&format!("mount it yourself, or restore the backup: {restore_command}"))
}

/// What an interrupted apply left, according to the device and to the records on this machine.
pub fn unfinished_apply(
    system: &SystemRoots,
    device: &Device,
) -> Result<Option<UnfinishedApply>, CommandError> {
    let found = flashfit_apply::unfinished(system, device, &state::records())?;
    let shown = |left: &flashfit_apply::UnfinishedChange| UnfinishedApply {
        what: left.to_string(),
        repair: left.resume_command.clone().or_else(|| left.restore_command.clone()),
    };
    Ok(found.as_ref().map(shown))
}

/// What an interrupted `apply --keep-data` left, according to the records on this machine.
pub fn unfinished_improvement(
    system: &SystemRoots,
    device: &Device,
) -> Result<Option<UnfinishedApply>, CommandError> {
    let found = keep_data::unfinished(system, device, &state::records())?;
    // One that is complete is finished by the next command.
    Ok(found
        .filter(|left| !left.is_complete)
        .map(|left| UnfinishedApply { what: left.to_string(), repair: Some(left.resume_command) }))
}
