//! `flashfit restore DIR TARGET` where the directory is of `apply --keep-data`.

use flashfit_apply::ApplyError;
use flashfit_apply::keep_data::{
    DeviceAccess, ImprovementJournal, JournalStep, PinnedDevice, restore,
};
use flashfit_device::{Device, DeviceLock, SystemRoots};
use flashfit_host::path_text;
use flashfit_report::text::plain;
use schemars::JsonSchema;
use serde::Serialize;

use super::args::RestoreArgs;
use super::context::{ApplyMeans, environment};
use super::restore::{ANOTHER_FILE, refuse_copy};
use super::unfinished::{left_improvement, restore_command};
use crate::command_error::CommandError;
use crate::consent;
use crate::output::{self, note_with_commands};

#[derive(JsonSchema, Serialize)]
pub struct RestoredImprovementDocument {
    backup: String,
    steps: Vec<JournalStep>,
    notes: Vec<String>,
    done: bool,
}

pub fn run(
    args: &RestoreArgs,
    device: &Device,
    journal: ImprovementJournal,
) -> Result<(), CommandError> {
    let system = SystemRoots::default();
    if let Some(what) = journal.difference(&system, device) {
        return Err(ApplyError::OtherDevice { folder: args.dir.clone(), what }.into());
    }
    let mut document = RestoredImprovementDocument {
        backup: path_text::to_text(&args.dir),
        steps: journal.steps.clone(),
        notes: Vec::new(),
        done: false,
    };
    let steps: Vec<String> =
        journal.left().map(|step| plain(&format!("  {}", step.step))).collect();
    let mut shown = match steps.as_slice() {
        [] => "Nothing is to be restored.".to_owned(),
        _ => format!("What will be undone, in this order:\n{}", steps.join("\n")),
    };
    let is_copy = journal.is_other_file(&system, device);
    if is_copy {
        shown = format!("{shown}\n{ANOTHER_FILE}");
    }
    if steps.is_empty() && !args.agreed.dry_run && !is_copy && !journal.is_finished {
        journal.end(&crate::state::records())?;
        return not_changed(args, &document, &shown);
    }
    if args.agreed.dry_run || steps.is_empty() {
        return not_changed(args, &document, &shown);
    }
    let refusal = consent::refuse_early(device).err();
    if let Some(refusal) = refusal.as_ref().filter(|_| !journal.restore_needs_exclusive()) {
        output::note(&format!("{refusal}; what is restored can be changed in use"));
    }
    let is_exclusive = match refusal {
        Some(refusal) if journal.restore_needs_exclusive() => return Err(refusal.into()),
        refusal => refusal.is_none(),
    };
    environment(["blkid"])?;
    let pinned = (!is_exclusive).then(|| PinnedDevice::open(&system, device)).transpose()?;
    note_with_commands(&shown);
    refuse_copy(is_copy, args, device)?;
    let consent = consent::for_settings(device, args.agreed.confirm.as_deref(), is_exclusive)?;
    let means = ApplyMeans::new()?;
    let access = match (pinned, consent) {
        (Some(pinned), _) => DeviceAccess::in_use(&system, pinned)?,
        (None, Some(consent)) => {
            DeviceAccess::Exclusive(DeviceLock::acquire(&means.runner, consent)?)
        }
        (None, None) => unreachable!("the guard gives its consent or refuses"),
    };
    let dir = std::path::absolute(&args.dir).unwrap_or_else(|_| args.dir.clone());
    let again = restore_command(device, &dir);
    let restored = restore(&means.tools(), &access, journal, &again)
        .map_err(|error| left_improvement(error.into(), device))?;
    document.steps = restored.steps;
    document.notes = restored.notes;
    document.done = true;
    if args.agreed.json {
        return output::json(document);
    }
    let notes = document.notes.iter().map(|note| format!("\nnote: {}", plain(note)));
    let notes: String = notes.collect();
    output::print(&format!(
        "{} has its earlier settings.{notes}\n",
        path_text::to_text(&device.path)
    ))
}

fn not_changed(
    args: &RestoreArgs,
    document: &RestoredImprovementDocument,
    shown: &str,
) -> Result<(), CommandError> {
    match args.agreed.json {
        true => output::json(document),
        false => output::print_with_commands(&format!("{shown}\nNothing was changed.")),
    }
}
