//! How far the work on a device has come, kept beside its backup (`apply.json`), and a record on
//! this machine that leads there. Both are written before the step that they name is begun, and
//! synced, so that a step that was begun is always known.

use std::path::{Path, PathBuf};

use flashfit_host::durable;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::clock::unix_seconds;
use crate::error::ApplyError;
use crate::fingerprint::DeviceFingerprint;

pub(crate) const FILE: &str = "apply.json";
const SCHEMA: &str = "flashfit.apply";
const SCHEMA_VERSION: u32 = 1;

/// What has been begun. The order is that of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApplyStage {
    /// Nothing but the backup: the device is as it was.
    Saving,
    /// Writing the marker that names the device as unfinished.
    Marking,
    /// Writing the partition table.
    Partitioning,
    /// Making the file system.
    Making,
    /// Comparing what the kernel reports with what was planned.
    Verifying,
    /// Writing the system's files.
    Installing,
    /// Removing the marker: the device is as planned.
    Finishing,
    /// All is done.
    Done,
    /// Writing back what was saved.
    Restoring,
    /// What was saved is written back.
    Restored,
}

impl ApplyStage {
    /// Whether the device is in the middle of something.
    pub fn is_unfinished(self) -> bool {
        !matches!(self, Self::Saving | Self::Done | Self::Restored)
    }
}

impl std::fmt::Display for ApplyStage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Saving => "saving what it holds",
            Self::Marking => "marking it",
            Self::Partitioning => "partitioning it",
            Self::Making => "making the file system",
            Self::Verifying => "verifying it",
            Self::Installing => "writing the system's files",
            Self::Finishing => "removing the mark",
            Self::Done => "nothing: all is done",
            Self::Restoring => "writing back what was saved",
            Self::Restored => "nothing: what was saved is written back",
        })
    }
}

/// A stage and when it was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedStage {
    /// The stage.
    pub stage: ApplyStage,
    /// When, in seconds since 1970.
    pub unix_s: u64,
}

/// What `apply.json` holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyJournal {
    /// The name of the format.
    pub schema: String,
    /// Its version.
    pub schema_version: u32,
    /// The device.
    pub medium: DeviceFingerprint,
    /// The start of the machine in which `medium` was seen, by the kernel's `boot_id`.
    pub boot: Option<String>,
    /// What is made of it, so that another plan is not taken for this one.
    pub work: Vec<String>,
    /// The command that goes on.
    pub again: String,
    /// The command that takes it back.
    pub undo: String,
    /// The file system's UUID or serial number, once it is made.
    pub uuid: Option<String>,
    /// The scheduler that the queue had before.
    pub scheduler_before: Option<String>,
    /// Every stage that was begun.
    pub stages: Vec<StartedStage>,
}

impl ApplyJournal {
    /// A journal that is not written yet.
    pub fn new(medium: DeviceFingerprint, work: Vec<String>, again: &str, undo: &str) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            schema_version: SCHEMA_VERSION,
            medium,
            boot: boot(),
            work,
            again: again.to_owned(),
            undo: undo.to_owned(),
            uuid: None,
            scheduler_before: None,
            stages: Vec::new(),
        }
    }

    /// Takes `medium` for the one that this is about: it may be called otherwise here and today.
    pub(crate) fn set_medium(&mut self, medium: DeviceFingerprint) {
        self.medium = medium;
        self.boot = boot();
    }

    /// Whether `now` is surely the device that this is about.
    pub(crate) fn is_surely_of(&self, now: &DeviceFingerprint) -> bool {
        self.medium.is_surely(now, self.boot.is_some() && self.boot == boot())
    }

    /// The stage that was begun last.
    pub fn stage(&self) -> ApplyStage {
        self.stages.last().map_or(ApplyStage::Saving, |begun| begun.stage)
    }

    /// Reads the journal in `folder`; `None` when there is none.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    pub fn read(folder: &Path) -> Result<Option<Self>, ApplyError> {
        let path = folder.join(FILE);
        let Some(journal) = read_json::<Self>(&path)? else { return Ok(None) };
        if journal.schema == SCHEMA && journal.schema_version == SCHEMA_VERSION {
            return Ok(Some(journal));
        }
        let reason = format!("a format of version {}", journal.schema_version);
        Err(ApplyError::Damaged { path, reason })
    }

    /// Writes down that `stage` begins.
    ///
    /// # Errors
    /// When there is no room or right to.
    pub fn begin(&mut self, folder: &Path, stage: ApplyStage) -> Result<(), ApplyError> {
        self.stages.push(StartedStage { stage, unix_s: unix_seconds() });
        self.write(folder)
    }

    /// Writes it.
    ///
    /// # Errors
    /// When there is no room or right to.
    pub fn write(&self, folder: &Path) -> Result<(), ApplyError> {
        write_json(&folder.join(FILE), self)
    }
}

/// Where this machine remembers which devices it left unfinished: on a device itself there is not
/// always a place that survives every step.
#[derive(Debug, Clone)]
pub struct UnfinishedRecords {
    folder: PathBuf,
}

/// Leads from a device to its backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BackupPointer {
    pub(crate) medium: DeviceFingerprint,
    pub(crate) backup: PathBuf,
}

impl UnfinishedRecords {
    /// Records in the state folder of flashfit, `/var/lib/flashfit` unless the user says otherwise.
    pub fn in_folder(state: &Path) -> Self {
        Self { folder: state.join("unfinished") }
    }

    /// The file about a device.
    pub(crate) fn path(&self, medium: &DeviceFingerprint) -> PathBuf {
        self.folder.join(format!("{}.json", medium.key()))
    }

    pub(crate) fn find(
        &self,
        medium: &DeviceFingerprint,
    ) -> Result<Option<BackupPointer>, ApplyError> {
        let record: Option<BackupPointer> = read_json(&self.path(medium))?;
        Ok(record.filter(|record| record.medium.is(medium)))
    }

    pub(crate) fn put(&self, record: &BackupPointer) -> Result<(), ApplyError> {
        durable::create_folders(&self.folder, 0o777).map_err(ApplyError::file(&self.folder))?;
        write_json(&self.path(&record.medium), record)
    }

    pub(crate) fn remove(&self, medium: &DeviceFingerprint) -> Result<(), ApplyError> {
        let path = self.path(medium);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(ApplyError::File { path, source: error })
            }
            _ => Ok(()),
        }
    }
}

/// Which start of the machine this is (random(4)).
fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ApplyError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ApplyError::File { path: path.to_owned(), source }),
    };
    let damaged = |error: serde_json::Error| ApplyError::Damaged {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    serde_json::from_str(&text).map(Some).map_err(damaged)
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), ApplyError> {
    let text = serde_json::to_string_pretty(value).expect("it is plain data");
    durable::write(path, text.as_bytes()).map_err(ApplyError::file(path))
}
