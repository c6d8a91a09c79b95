//! Records of client names on disk, so that the next process can release what a killed one left.
//!
//! A record is locked (flock(2)) while its process lives; the kernel unlocks it when the process
//! ends. So a record that can be locked belongs to a process that has ended. The file `lock`
//! serializes access to the directory.
//! Limit: processes must use the same directory of records.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use flashfit_host::durable::sync_folder;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::owner::Owner;

const SCHEMA_VERSION: u32 = 1;
/// File name extension of records.
const ENDING: &str = "json";

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldResources {
    schema_version: u32,
    pub(crate) coordinator: String,
    pub(crate) owner: Owner,
}

impl HeldResources {
    pub(crate) fn new(coordinator: &str, owner: &Owner) -> Self {
        let coordinator = coordinator.to_owned();
        Self { schema_version: SCHEMA_VERSION, coordinator, owner: owner.clone() }
    }
}

/// A locked record. It stays on disk until it is removed.
#[derive(Debug)]
pub(crate) struct LockRecord {
    path: PathBuf,
    // Holds the lock.
    _file: File,
}

impl LockRecord {
    /// Writes the record of this process to `folder`.
    pub(crate) fn create(folder: &Path, held: &HeldResources) -> Result<Self, LabError> {
        let _lock = lock_folder(folder)?;
        let path = folder.join(format!("{}.{ENDING}", held.owner.host));
        let text = serde_json::to_string(held).expect("a record has string keys and no odd values");
        let written =
            OpenOptions::new().write(true).create_new(true).open(&path).and_then(|mut file| {
                flock(&file, FlockOperation::NonBlockingLockExclusive)?;
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
                sync_folder(folder)?;
                Ok(file)
            });
        match written {
            Ok(file) => Ok(Self { path, _file: file }),
            Err(source) => Err(LabError::Record { path, source }),
        }
    }

    /// Locks and returns the records in `folder` of processes that have ended.
    pub(crate) fn abandoned(folder: &Path) -> Result<Vec<(Self, HeldResources)>, LabError> {
        let _lock = lock_folder(folder)?;
        let failed = |source| LabError::Record { path: folder.to_owned(), source };
        let mut left = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|ending| ending == ENDING) {
                let of_path = |source| LabError::Record { path: path.clone(), source };
                left.extend(left_at(&path).map_err(of_path)?);
            }
        }
        Ok(left)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn remove(self) -> Result<(), LabError> {
        std::fs::remove_file(&self.path)
            .map_err(|source| LabError::Record { path: self.path, source })
    }
}

fn left_at(path: &Path) -> io::Result<Option<(LockRecord, HeldResources)>> {
    let mut file = match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        locked => locked?,
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    if text.is_empty() {
        // Its process was killed before it could lock anything.
        std::fs::remove_file(path)?;
        return Ok(None);
    }
    let held = serde_json::from_slice::<HeldResources>(text.as_bytes()).ok();
    // Records of other versions or programs are not touched.
    let held = held.filter(|held| held.schema_version == SCHEMA_VERSION && held.owner.is_ours());
    Ok(held.map(|held| (LockRecord { path: path.to_owned(), _file: file }, held)))
}

/// Waits for exclusive access to the directory, until the returned file is dropped.
fn lock_folder(folder: &Path) -> Result<File, LabError> {
    let path = folder.join("lock");
    let locked = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .and_then(|()| OpenOptions::new().write(true).create(true).truncate(false).open(&path))
        .and_then(|file| {
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        });
    locked.map_err(|source| LabError::Record { path, source })
}

#[cfg(test)]
mod tests {
    use flashfit_host::program::ScriptedRunner;

    use super::*;

    fn held() -> HeldResources {
        HeldResources::new("127.0.0.1:20408", &Owner::of_this_process(&ScriptedRunner::new()))
    }

    fn records(folder: &Path) -> usize {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.filter(|entry| entry.as_ref().unwrap().path().extension().is_some()).count()
    }

    #[test]
    fn only_records_of_ended_processes_are_abandoned() {
        let folder = tempfile::tempdir().unwrap();
        let (alive, gone) = (held(), held());
        let ours = LockRecord::create(folder.path(), &alive).unwrap();
        drop(LockRecord::create(folder.path(), &gone).unwrap());
        let left = LockRecord::abandoned(folder.path()).unwrap();
        assert_eq!(left.iter().map(|(_, held)| held).collect::<Vec<_>>(), [&gone]);
        // Whoever looks meanwhile does not get the same.
        assert!(LockRecord::abandoned(folder.path()).unwrap().is_empty());
        for (record, _) in left {
            record.remove().unwrap();
        }
        assert_eq!(records(folder.path()), 1);
        ours.remove().unwrap();
        assert_eq!(records(folder.path()), 0);
    }

    #[test]
    fn records_of_other_programs_are_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.json"), "{}").unwrap();
        let by_hand = Owner { host: "bench".into(), user: "alice".into() };
        let text = serde_json::to_string(&HeldResources::new("lab", &by_hand)).unwrap();
        std::fs::write(folder.path().join("b.json"), text).unwrap();
        std::fs::write(folder.path().join("c.json"), "").unwrap();
        assert!(LockRecord::abandoned(folder.path()).unwrap().is_empty());
        assert_eq!(records(folder.path()), 2, "an empty record goes, the others stay");
    }
}
