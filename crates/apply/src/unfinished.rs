//! Whether a device was left in the middle of something. Reads only.

use std::path::PathBuf;

use flashfit_device::{Device, SystemRoots};
use flashfit_host::dir::DirError;

use crate::error::ApplyError;
use crate::fingerprint::DeviceFingerprint;
use crate::journal::{ApplyJournal, ApplyStage, UnfinishedRecords};
use crate::marker::{self, ApplyMarker};

/// A device that is neither what it was nor what was planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedChange {
    /// The folder with what the device held before, where it is known.
    pub backup: Option<PathBuf>,
    /// The machine on which it was begun, where the device records it.
    pub host: Option<String>,
    /// What was under way, where the journal is here.
    pub stage: Option<ApplyStage>,
    /// Whether it is surely this device: it carries the mark, or says who it is. Otherwise it is
    /// one that is tied with the unfinished one, such as another card in the same reader.
    pub is_sure: bool,
    /// The command that goes on, where the journal is here.
    pub resume_command: Option<String>,
    /// The command that takes it back, where the journal is here.
    pub restore_command: Option<String>,
}

impl std::fmt::Display for UnfinishedChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_sure {
            "an interrupted apply left this device unfinished"
        } else {
            "an interrupted apply left this device, or one with the same identity, unfinished"
        })?;
        if let Some(stage) = self.stage {
            write!(f, ", while {stage}")?;
        }
        match (&self.backup, &self.host) {
            (Some(folder), Some(host)) if self.stage.is_none() => {
                write!(f, "; its backup is on {host} in {}", folder.display())
            }
            (Some(folder), _) => write!(f, "; its backup is in {}", folder.display()),
            (None, _) => Ok(()),
        }
    }
}

/// Looks whether `device` was left unfinished: by the marker on it, and by what this machine
/// remembers.
///
/// # Errors
/// When the device or a file of ours cannot be read.
pub fn unfinished(
    system: &SystemRoots,
    device: &Device,
    records: &UnfinishedRecords,
) -> Result<Option<UnfinishedChange>, ApplyError> {
    let who = DeviceFingerprint::of(system, device);
    let marker = marker::find(device)?;
    let remembered = records.find(&who)?.map(|record| record.backup);
    let marked = marker.as_ref().and_then(|marker| marker.backup.clone());
    // What this machine remembers goes first, unless the mark on the device names another folder
    // that is of this device: one reader may have held two cards that were left.
    let mut candidates = Vec::new();
    for folder in [&remembered, &marked].into_iter().flatten() {
        let journal = match ApplyJournal::read(folder) {
            // A marker may name any folder: a link, or one that others may change, is not ours.
            Err(ApplyError::Dir(DirError::Invalid { .. })) => None,
            read => read?.filter(|journal| journal.device.is(&who)),
        };
        let Some(journal) = journal else { continue };
        let is_marked = match &marker {
            Some(marker) => marker.backup.as_ref().is_none_or(|named| named == folder),
            None => false,
        };
        let is_sure = is_marked || (marker.is_none() && journal.is_surely_of(&who));
        candidates.push((is_sure, folder.clone(), journal));
    }
    candidates.sort_by_key(|(is_sure, ..)| !is_sure);
    if let Some((is_sure, folder, journal)) = candidates.into_iter().next() {
        if marker.is_none() && !journal.stage().is_unfinished() {
            return Ok(None);
        }
        return Ok(Some(named(is_sure, folder, journal, marker)));
    }
    if marker.is_none() && remembered.is_none() {
        return Ok(None);
    }
    let is_sure = marker.is_some();
    let host = marker.map(|marker| marker.host).filter(|host| !host.is_empty());
    let backup = marked.or(remembered);
    Ok(Some(UnfinishedChange {
        backup,
        host,
        stage: None,
        is_sure,
        resume_command: None,
        restore_command: None,
    }))
}

/// Work that was half undone continues with undoing it.
fn named(
    is_sure: bool,
    folder: PathBuf,
    journal: ApplyJournal,
    marker: Option<ApplyMarker>,
) -> UnfinishedChange {
    let stage = journal.stage();
    let resume_command = if stage == ApplyStage::Restoring {
        &journal.restore_command
    } else {
        &journal.resume_command
    };
    UnfinishedChange {
        backup: Some(folder),
        host: marker.map(|marker| marker.host),
        stage: Some(stage),
        is_sure,
        resume_command: Some(resume_command.clone()),
        restore_command: Some(journal.restore_command),
    }
}
