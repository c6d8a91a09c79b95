//! An interrupted `apply --keep-data`: continued by the same request, and refused to another one.

use std::path::{Path, PathBuf};

use flashfit_apply::keep_data::{
    ChangeRequest, Improved, ImprovementJournal, UnfinishedImprovement, unfinished,
};
use flashfit_device::{Device, SystemRoots};
use flashfit_filesystem::Improvement;
use flashfit_host::path_text;
use flashfit_report::text::plain;
use flashfit_user_error::ExitClass;

use super::args::{ApplyArgs, KeepDataArgs};
use crate::command_error::CommandError;
use crate::output::note_with_commands;
use crate::state::records;

/// Changes that were interrupted and that this call is about.
pub struct EarlierChange {
    pub found: UnfinishedImprovement,
    pub journal: ImprovementJournal,
}

impl EarlierChange {
    /// What was interrupted on the device, if this call continues it. What is complete but for the
    /// end of its journal is ended.
    ///
    /// # Errors
    /// When the call asks for something else than what was interrupted.
    pub fn of(args: &ApplyArgs, device: &Device) -> Result<Option<Self>, CommandError> {
        let Some(found) = unfinished(&SystemRoots::default(), device, &records())? else {
            return Ok(None);
        };
        let Some(journal) = ImprovementJournal::read(&found.folder)? else { return Ok(None) };
        let given = args.backup.as_deref().map(absolute);
        let is_elsewhere = given.as_ref().is_some_and(|given| *given != found.folder);
        let is_same = is_same(args, journal.asked.as_ref());
        if found.is_complete {
            if !args.agreed.dry_run {
                journal.clone().end(&records())?;
            }
            if !found.is_restoring && given.as_ref() == Some(&found.folder) && is_same {
                return Ok(Some(Self { found, journal }));
            }
            note_complete(&found);
            return Ok(None);
        }
        if is_elsewhere && !found.is_sure {
            // It may be another device with the same identity, and gets its own journal.
            return Ok(None);
        }
        if found.is_restoring {
            return Err(restoring(&found));
        }
        if is_elsewhere || !is_same {
            return Err(other_request(&found));
        }
        Ok(Some(Self { found, journal }))
    }

    /// What is reported where all steps had been made.
    pub fn improved(&self) -> Improved {
        let (folder, steps) = (self.found.folder.clone(), self.journal.steps.clone());
        Improved { folder, steps, notes: Vec::new() }
    }

    /// The system whose files it changes.
    pub fn root(&self) -> Option<&Path> {
        self.journal.asked.as_ref().map(|asked| asked.root.as_path())
    }
}

/// What this call asks for, to be kept in the journal.
pub fn asked(args: &ApplyArgs, improvements: &[Improvement]) -> ChangeRequest {
    let (words, root) = (words(&args.keep), absolute(&args.root));
    ChangeRequest { words, root, improvements: improvements.to_vec() }
}

/// Whether a call that names these settings, or none, continues what was asked for.
fn is_same(args: &ApplyArgs, asked: Option<&ChangeRequest>) -> bool {
    let words = words(&args.keep);
    let Some(asked) = asked else { return words.is_empty() };
    let is_plain = words.is_empty() && args.root == Path::new("/");
    is_plain || (words.is_empty() || words == asked.words) && absolute(&args.root) == asked.root
}

/// The settings that the user named, in an order that does not depend on the command line.
fn words(keep: &KeepDataArgs) -> Vec<String> {
    let mut words: Vec<String> =
        keep.with.iter().map(|(fs, option)| format!("{fs}:{option}")).collect();
    words.extend(keep.run.iter().map(|dir| format!("run {}", absolute(dir).display())));
    words.extend(keep.scheduler.iter().map(|name| format!("scheduler {name}")));
    let sizes = [
        ("read-ahead", keep.read_ahead),
        ("erase block", keep.erase_block),
        ("write unit", keep.write_unit),
    ];
    let given = sizes.into_iter().filter_map(|(name, size)| Some((name, size?)));
    words.extend(given.map(|(name, size)| format!("{name} {}", size.0)));
    words.sort();
    words.dedup();
    words
}

pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn note_complete(found: &UnfinishedImprovement) {
    let mut text = format!("{found}. No step of it is left.");
    if !found.is_restoring {
        text.push_str(&format!(" To take it back:\n  {}", found.restore_command));
    }
    note_with_commands(&text.lines().map(plain).collect::<Vec<_>>().join("\n"));
}

/// What helps where the change may be of another device.
pub fn if_another(found: &UnfinishedImprovement) -> &'static str {
    if found.is_sure { "" } else { "; if it is of another device, add --backup NEW-DIRECTORY" }
}

fn restoring(found: &UnfinishedImprovement) -> CommandError {
    CommandError::new(
        ExitClass::Refused,
        format!("an interrupted restore has its journal in {}", path_text::to_text(&found.folder)),
        Some(&format!("continue with: {}{}", found.restore_command, if_another(found))),
    )
}

fn other_request(found: &UnfinishedImprovement) -> CommandError {
    let UnfinishedImprovement { folder, done, all, resume_command, restore_command, .. } = found;
    CommandError::new(
        ExitClass::Refused,
        format!(
            "an interrupted change has its journal in {}, and this is another request: {done} of \
             {all} steps are made",
            path_text::to_text(folder)
        ),
        Some(&format!(
            "continue with: {resume_command}; or restore it with: {restore_command}; then repeat \
             this command{}",
            if_another(found)
        )),
    )
}
