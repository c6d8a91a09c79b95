//! Where work begins: with its own backup, or where it was left unfinished.

use std::path::{Path, PathBuf};

use crate::backup::{self, Backup};
use crate::error::ApplyError;
use crate::fingerprint::DeviceFingerprint;
use crate::journal::{self, ApplyJournal, ApplyStage};
use crate::steps::{ApplyEvent, ApplyRequest, ApplySteps, ApplyTools};
use crate::unfinished::{UnfinishedChange, unfinished};

impl<'a> ApplySteps<'a> {
    /// The folder to go on in, or a new one with a complete backup in it.
    pub(crate) fn begin(
        tools: &'a ApplyTools<'a>,
        request: &'a ApplyRequest<'a>,
    ) -> Result<Self, ApplyError> {
        let device = request.consent.device();
        let who = DeviceFingerprint::of(tools.system, device);
        let found = unfinished(tools.system, device, tools.records)?;
        let lines = request.work.lines(request.consent.path());
        let earlier = found.map(|found| earlier(&found, request, &who)).transpose()?;
        let Some(folder) = earlier.flatten() else { return save(tools, request, who, lines) };
        let mut journal = ApplyJournal::read(&folder)?.ok_or_else(|| ApplyError::Damaged {
            path: folder.join(journal::FILE),
            reason: "it is missing".to_owned(),
        })?;
        Backup::read(&folder)?;
        (tools.on_event)(&ApplyEvent::Resumed { backup: folder.clone() });
        if journal.work != lines {
            // Another plan begins again, with the backup of what was there in the first place.
            journal.uuid = None;
            journal.work = lines;
        }
        journal.set_device(who);
        journal.resume_command = (request.resume_command)(&folder);
        journal.restore_command = (request.restore_command)(&folder);
        Ok(Self { tools, request, folder, journal, notes: Vec::new() })
    }
}

/// Where unfinished work can be taken up; `None` where the user gave up what was saved before.
fn earlier(
    found: &UnfinishedChange,
    request: &ApplyRequest<'_>,
    who: &DeviceFingerprint,
) -> Result<Option<PathBuf>, ApplyError> {
    let given = request.backup_is_given.then_some(&request.backup);
    if let (false, Some(folder), Some(_)) = (found.is_sure, &found.backup, found.stage) {
        // To go on with another device would erase it without a backup.
        return match given {
            Some(given) if absolute(given)? != *folder => Ok(None),
            _ => Err(ApplyError::PerhapsAnother {
                backup: folder.clone(),
                restore_command: found.restore_command.clone().unwrap_or_default(),
            }),
        };
    }
    match (&found.backup, found.stage, given) {
        (Some(folder), Some(_), Some(given))
            if Backup::is_in(folder) && absolute(given)? != *folder =>
        {
            Err(ApplyError::UnfinishedThere {
                backup: folder.clone(),
                resume_command: found.resume_command.clone().unwrap_or_default(),
            })
        }
        (Some(folder), Some(_), _) if Backup::is_in(folder) => Ok(Some(folder.clone())),
        (_, _, Some(given)) if Backup::is_in(given) => brought(given, who).map(Some),
        (_, _, Some(_)) => Ok(None),
        (folder, _, None) => Err(ApplyError::BackupElsewhere {
            folder: folder.clone().unwrap_or_else(|| "somewhere".into()),
        }),
    }
}

/// A folder of this device's unfinished work that was brought from elsewhere; not one of work that
/// was finished long ago.
fn brought(given: &Path, who: &DeviceFingerprint) -> Result<PathBuf, ApplyError> {
    let backup = Backup::read(given)?;
    if let Some(what) = backup.manifest().device.difference(who) {
        return Err(ApplyError::OtherDevice { folder: given.to_owned(), what });
    }
    if backup.manifest().device.file.is_some() != who.file.is_some() {
        let what = "only one of them is an image file".to_owned();
        return Err(ApplyError::OtherDevice { folder: given.to_owned(), what });
    }
    let unfinished = |journal: ApplyJournal| journal.stage().is_unfinished();
    if ApplyJournal::read(given)?.is_some_and(unfinished) {
        absolute(given)
    } else {
        Err(ApplyError::Occupied { path: given.to_owned() })
    }
}

fn save<'a>(
    tools: &'a ApplyTools<'a>,
    request: &'a ApplyRequest<'a>,
    who: DeviceFingerprint,
    lines: Vec<String>,
) -> Result<ApplySteps<'a>, ApplyError> {
    let folder = absolute(&request.backup)?;
    let was_there = folder.exists();
    let saving = |journal: ApplyJournal| journal.stage() == ApplyStage::Saving;
    if ApplyJournal::read(&folder)?.is_some_and(saving) {
        // Nothing was written to the device since, so that what it holds now is what to save.
        Backup::forget(&folder)?;
    }
    (tools.on_event)(&ApplyEvent::StageStarted(ApplyStage::Saving));
    backup::claim(tools.system, request.consent.device(), &folder)?;
    let (resume_command, restore_command) =
        ((request.resume_command)(&folder), (request.restore_command)(&folder));
    let mut journal = ApplyJournal::new(who, lines, &resume_command, &restore_command);
    let saved = journal.begin(&folder, ApplyStage::Saving).and_then(|()| {
        Backup::make(tools.system, tools.runner, request.consent.device(), &folder).map(drop)
    });
    saved.inspect_err(|_| {
        if !was_there {
            // A folder of our own with half a backup in it; the device was not touched.
            let _ = std::fs::remove_dir_all(&folder);
        }
    })?;
    Ok(ApplySteps { tools, request, folder, journal, notes: Vec::new() })
}

/// The name of a folder that is valid wherever the next command is typed.
fn absolute(path: &Path) -> Result<PathBuf, ApplyError> {
    std::path::absolute(path).map_err(ApplyError::file(path))
}
