//! `flashfit restore DIR TARGET`: writes back what apply saved.

use std::path::Path;

use flashfit_apply::keep_data::ImprovementJournal;
use flashfit_apply::{ApplyJournal, ApplyStage, Backup, DeviceFingerprint};
use flashfit_device::{Bytes, Device, DeviceKind, SystemRoots};
use flashfit_host::{SystemRunner, calendar, path_text};
use flashfit_report::text::plain;
use flashfit_user_error::ExitClass;
use schemars::JsonSchema;
use serde::Serialize;

use super::args::RestoreArgs;
use super::context::{ApplyContext, environment};
use super::{left, look, restore_command, show, with_objection};
use crate::command_error::CommandError;
use crate::consent;
use crate::output::{self, note_with_commands};

const WHAT_RETURNS: &str = "The partition table and the first and last 4 MiB return. The rest is \
                            not written: file contents that were overwritten are lost.";

pub const ANOTHER_FILE: &str = "This is not the file or device that the backup was made from, but \
                                one of the same size. Restore to a copy of it only.";

#[derive(JsonSchema, Serialize)]
pub struct RestoredDocument {
    backup: String,
    saved_unix_s: u64,
    restored_bytes: u64,
    done: bool,
}

pub fn run(args: &RestoreArgs) -> Result<(), CommandError> {
    let runner = SystemRunner::default();
    let device = look(&args.target, &runner)?;
    if let Some(journal) = ImprovementJournal::read(&args.dir)? {
        return super::restore_keep_data::run(args, &device, journal);
    }
    let backup = Backup::read(&args.dir)?;
    let system = SystemRoots::default();
    if let Some(what) =
        backup.manifest().device.difference(&DeviceFingerprint::of(&system, &device))
    {
        let folder = args.dir.clone();
        return Err(flashfit_apply::ApplyError::OtherDevice { folder, what }.into());
    }
    let mut lost = show::lost(&runner, &device);
    let now = DeviceFingerprint::of(&system, &device);
    let is_copy = backup.manifest().device.is_other_file(&now);
    if is_copy {
        lost = format!("{lost}\n{}", ANOTHER_FILE);
    }
    if args.agreed.dry_run {
        lost = with_objection(lost, &device);
    }
    let shown = shown(&lost, &backup, &args.dir);
    if args.agreed.dry_run {
        return match args.agreed.json {
            true => output::json(document(&backup, false)),
            false => output::print_with_commands(&format!("{shown}\nNothing was changed.")),
        };
    }
    consent::refuse_early(&device)?;
    environment(["blockdev"])?;
    note_with_commands(&shown);
    refuse_copy(is_copy, args, &device)?;
    let means = ApplyContext::take(&device, &args.agreed)?;
    let consent = means.held.consent();
    let has_queue = device.kind != DeviceKind::Image;
    let dir = std::path::absolute(&args.dir).unwrap_or_else(|_| args.dir.clone());
    let resume_command = restore_command(&device, &dir);
    flashfit_apply::restore(&means.tools(), consent, &backup, has_queue, &resume_command)
        .map_err(|error| left(error.into(), consent.device()))?;
    present(args, &backup, &device)
}

/// Refuses what the backup was not made from, unless the user names it as a copy, or is asked.
pub fn refuse_copy(is_copy: bool, args: &RestoreArgs, device: &Device) -> Result<(), CommandError> {
    if !is_copy || args.to_copy || args.agreed.confirm.is_none() {
        return Ok(());
    }
    Err(CommandError::new(
        ExitClass::Refused,
        format!(
            "{} is not the file or device that the backup was made from",
            path_text::to_text(&device.path)
        ),
        Some("if it is a copy of that: add --to-copy"),
    ))
}

fn shown(lost: &str, backup: &Backup, dir: &Path) -> String {
    let manifest = backup.manifest();
    let lines: Vec<String> = manifest
        .pieces
        .iter()
        .map(|piece| format!("  {} at {}", Bytes(piece.length_bytes), Bytes(piece.offset_bytes)))
        .collect();
    format!(
        "{lost}\nWhat will be written, from {} (saved of {} at {} UTC):\n{}\n{WHAT_RETURNS}{}",
        path_text::to_text(dir),
        plain(&path_text::to_text(&manifest.device.path)),
        calendar::stamp(manifest.created_unix_s),
        lines.join("\n"),
        stays(dir)
    )
}

/// What is not on the device and so does not go back with it.
fn stays(dir: &Path) -> &'static str {
    let installed = |journal: &ApplyJournal| {
        journal.stages.iter().any(|begun| begun.stage == ApplyStage::Installing)
    };
    match ApplyJournal::read(dir) {
        Ok(Some(journal)) if installed(&journal) => {
            "\nThe fstab line and the udev rule that --install wrote stay; remove the `# flashfit \
             begin` block of this device there."
        }
        _ => "",
    }
}

fn document(backup: &Backup, done: bool) -> RestoredDocument {
    let manifest = backup.manifest();
    RestoredDocument {
        backup: path_text::to_text(backup.folder()),
        saved_unix_s: manifest.created_unix_s,
        restored_bytes: manifest.pieces.iter().map(|piece| piece.length_bytes).sum(),
        done,
    }
}

fn present(args: &RestoreArgs, backup: &Backup, device: &Device) -> Result<(), CommandError> {
    if args.agreed.json {
        return output::json(document(backup, true));
    }
    let path = path_text::to_text(&device.path);
    let stays = stays(&args.dir);
    output::print_with_commands(&format!(
        "The backup is restored to {path}.\n{WHAT_RETURNS}{stays}"
    ))
}
