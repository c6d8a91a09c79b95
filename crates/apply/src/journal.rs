//! How far the work on a device has come, kept next to its backup (`apply.json`), and a record on
//! this machine that leads there. Both are written before the step that they name is begun, and
//! synced, so that a step that was begun is always known.

use std::path::{Path, PathBuf};

use flashfit_host::calendar::unix_seconds;
use flashfit_host::dir::DirHandle;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::error::ApplyError;
use crate::fingerprint::DeviceFingerprint;

pub(crate) const FILE: &str = "apply.json";
/// More than any journal or record has.
const FILE_BYTES: u64 = 1 << 20;
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
            Self::Saving => "saving the backup",
            Self::Marking => "marking it",
            Self::Partitioning => "partitioning it",
            Self::Making => "making the file system",
            Self::Verifying => "verifying it",
            Self::Installing => "writing the system's files",
            Self::Finishing => "removing the mark",
            Self::Done => "nothing: it is complete",
            Self::Restoring => "restoring the backup",
            Self::Restored => "nothing: the backup is restored",
        })
    }
}

/// A stage and when it was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedStage {
    pub stage: ApplyStage,
    /// When, in seconds since 1970.
    pub unix_s: u64,
}

/// The contents of `apply.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyJournal {
    pub schema: String,
    pub schema_version: u32,
    #[serde(rename = "medium")]
    pub device: DeviceFingerprint,
    /// The start of the machine in which `device` was seen, by the kernel's `boot_id`.
    pub boot: Option<String>,
    /// What is made of it, so that another plan is not taken for this one.
    pub work: Vec<String>,
    /// The command that goes on.
    #[serde(rename = "again")]
    pub resume_command: String,
    /// The command that takes it back.
    #[serde(rename = "undo")]
    pub restore_command: String,
    /// The file system's UUID or serial number, once it is made.
    pub uuid: Option<String>,
    /// The scheduler that the queue had before.
    pub scheduler_before: Option<String>,
    /// Every stage that was begun.
    pub stages: Vec<StartedStage>,
}

impl ApplyJournal {
    /// A journal that is not written yet.
    pub fn new(
        device: DeviceFingerprint,
        work: Vec<String>,
        resume_command: &str,
        restore_command: &str,
    ) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            schema_version: SCHEMA_VERSION,
            device,
            boot: boot(),
            work,
            resume_command: resume_command.to_owned(),
            restore_command: restore_command.to_owned(),
            uuid: None,
            scheduler_before: None,
            stages: Vec::new(),
        }
    }

    /// Takes `device` for the one that this is about: it may be called otherwise here and today.
    pub(crate) fn set_device(&mut self, device: DeviceFingerprint) {
        self.device = device;
        self.boot = boot();
    }

    /// Whether `now` is surely the device that this is about.
    pub(crate) fn is_surely_of(&self, now: &DeviceFingerprint) -> bool {
        self.device.is_surely(now, self.boot.is_some() && self.boot == boot())
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
        let Some(dir) = opened(folder)? else { return Ok(None) };
        let Some(journal) = read_json::<Self>(&dir, FILE)? else { return Ok(None) };
        if journal.schema == SCHEMA && journal.schema_version == SCHEMA_VERSION {
            return Ok(Some(journal));
        }
        let reason = format!("a format of version {}", journal.schema_version);
        Err(ApplyError::Damaged { path: folder.join(FILE), reason })
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
        write_json(&DirHandle::open(folder)?, FILE, self)
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
    #[serde(rename = "medium")]
    pub(crate) device: DeviceFingerprint,
    #[serde(with = "flashfit_host::path_text::document")]
    pub(crate) backup: PathBuf,
}

impl UnfinishedRecords {
    /// Records in the state folder of flashfit, `/var/lib/flashfit` unless the user says otherwise.
    pub fn in_folder(state: &Path) -> Self {
        Self { folder: state.join("unfinished") }
    }

    /// The records of changes that keep the data, next to these.
    pub(crate) fn improvements(&self) -> Self {
        Self { folder: self.folder.with_file_name("unfinished-improvements") }
    }

    pub(crate) fn find(
        &self,
        device: &DeviceFingerprint,
    ) -> Result<Option<BackupPointer>, ApplyError> {
        let Some(dir) = opened(&self.folder)? else { return Ok(None) };
        let record: Option<BackupPointer> = read_json(&dir, &file_name(device))?;
        Ok(record.filter(|record| record.device.is(device)))
    }

    pub(crate) fn put(&self, record: &BackupPointer) -> Result<(), ApplyError> {
        write_json(&DirHandle::create(&self.folder, 0o755)?, &file_name(&record.device), record)
    }

    /// Forgets interrupted changes that keep the data, on `device` and on its partitions: what they
    /// changed is about to be overwritten.
    pub(crate) fn end_improvements(&self, device: &DeviceFingerprint) -> Result<(), ApplyError> {
        let records = self.improvements();
        let Some(dir) = opened(&records.folder)? else { return Ok(()) };
        for name in dir.names()? {
            let name = name.to_string_lossy();
            // One that cannot be read is left for whoever looks for it.
            let Ok(Some(record)) = read_json::<BackupPointer>(&dir, &name) else { continue };
            // That of another card in the same reader stays.
            if device.surely_includes(&record.device) {
                dir.remove(&name)?;
            }
        }
        Ok(())
    }

    pub(crate) fn remove(&self, device: &DeviceFingerprint) -> Result<(), ApplyError> {
        let Some(dir) = opened(&self.folder)? else { return Ok(()) };
        Ok(dir.remove(&file_name(device))?)
    }
}

/// The file about a device.
fn file_name(device: &DeviceFingerprint) -> String {
    format!("{}.json", device.key())
}

/// Which start of the machine this is (random(4)).
fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

pub(crate) fn opened(folder: &Path) -> Result<Option<DirHandle>, ApplyError> {
    match DirHandle::open(folder) {
        Ok(dir) => Ok(Some(dir)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn read_json<T: DeserializeOwned>(
    dir: &DirHandle,
    name: &str,
) -> Result<Option<T>, ApplyError> {
    let Some(text) = dir.read(name, FILE_BYTES)? else { return Ok(None) };
    let damaged = |error: serde_json::Error| ApplyError::Damaged {
        path: dir.path().join(name),
        reason: error.to_string(),
    };
    serde_json::from_slice(&text).map(Some).map_err(damaged)
}

pub(crate) fn write_json<T: Serialize>(
    dir: &DirHandle,
    name: &str,
    value: &T,
) -> Result<(), ApplyError> {
    let text = serde_json::to_string_pretty(value).expect("it is plain data");
    Ok(dir.write(name, text.as_bytes(), 0o644)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use flashfit_device::DeviceKind;
    use flashfit_host::dir::DirError;

    use super::*;

    fn device() -> DeviceFingerprint {
        DeviceFingerprint {
            path: "/dev/sdx".into(),
            kind: DeviceKind::Usb,
            capacity: flashfit_device::Bytes::mib(1),
            partition_start: None,
            identity: flashfit_device::identity::DeviceIdentity::default(),
            file: None,
            offset: flashfit_device::Bytes(0),
        }
    }

    fn is_refused<T: std::fmt::Debug>(result: Result<T, ApplyError>) {
        let error = result.unwrap_err();
        assert!(matches!(error, ApplyError::Dir(DirError::Invalid { .. })), "{error}");
    }

    #[test]
    fn a_journal_is_neither_written_nor_read_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (at, theirs) = (folder.path().join("saved"), folder.path().join("theirs"));
        std::fs::create_dir(&at).unwrap();
        std::fs::write(&theirs, "theirs").unwrap();
        for name in [FILE, "apply.json.part"] {
            symlink(&theirs, at.join(name)).unwrap();
        }
        is_refused(ApplyJournal::read(&at));
        let mut journal = ApplyJournal::new(device(), Vec::new(), "again", "undo");
        journal.begin(&at, ApplyStage::Saving).unwrap();
        assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "theirs");
        assert_eq!(ApplyJournal::read(&at).unwrap(), Some(journal.clone()));
        let link = folder.path().join("link");
        symlink(&at, &link).unwrap();
        is_refused(journal.begin(&link, ApplyStage::Marking));
    }

    #[test]
    fn records_are_neither_written_nor_read_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (state, theirs) = (folder.path().join("state"), folder.path().join("theirs"));
        for path in [&state, &theirs] {
            std::fs::create_dir(path).unwrap();
        }
        let records = UnfinishedRecords::in_folder(&state);
        let record = BackupPointer { device: device(), backup: "/saved".into() };
        symlink(&theirs, state.join("unfinished")).unwrap();
        is_refused(records.put(&record));
        is_refused(records.find(&device()));
        assert_eq!(std::fs::read_dir(&theirs).unwrap().count(), 0);
        std::fs::remove_file(state.join("unfinished")).unwrap();
        assert_eq!(records.find(&device()).unwrap(), None);
        records.put(&record).unwrap();
        assert_eq!(records.find(&device()).unwrap(), Some(record));
        records.remove(&device()).unwrap();
        assert_eq!(records.find(&device()).unwrap(), None);
    }

    #[test]
    fn an_apply_ends_the_changes_of_its_device_and_of_its_partitions() {
        let state = tempfile::tempdir().unwrap();
        let records = UnfinishedRecords::in_folder(state.path());
        records.end_improvements(&device()).unwrap();
        let named = |serial: &str| {
            let mut named = DeviceFingerprint { kind: DeviceKind::Disk, ..device() };
            named.identity.serial = Some(serial.to_owned());
            named
        };
        let part = |of: DeviceFingerprint| {
            let (start, size) = (flashfit_device::Bytes(512), flashfit_device::Bytes(1024));
            DeviceFingerprint { partition_start: Some(start), capacity: size, ..of }
        };
        // It may be of another card in the same reader.
        let unsure = DeviceFingerprint { kind: DeviceKind::Usb, ..named("c") };
        let all = [named("a"), part(named("a")), named("b"), part(named("b")), unsure.clone()];
        for device in all.clone() {
            records.improvements().put(&BackupPointer { device, backup: "/saved".into() }).unwrap();
        }
        let left = || all.each_ref().map(|it| records.improvements().find(it).unwrap().is_some());
        records.end_improvements(&part(named("b"))).unwrap();
        assert_eq!(left(), [true, true, true, false, true]);
        records.end_improvements(&named("a")).unwrap();
        records.end_improvements(&unsure).unwrap();
        assert_eq!(left(), [false, false, true, false, true]);
    }
}
