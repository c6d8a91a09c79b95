//! What a process holds in a lab, on disk, so that the next one can give back what a killed one
//! left.
//!
//! A record is the process's name in the lab and is locked (flock(2)) for as long as the process
//! lives; the kernel unlocks it, however the process ends. A record that can be locked is of a
//! process that is gone. While records are made and looked through, the file `lock` is locked.
//! Limits: only processes that keep their records in the same folder help each other.

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
/// The end of the names of records.
const ENDING: &str = "json";

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldResources {
    schema_version: u32,
    /// The coordinator of the lab.
    pub(crate) coordinator: String,
    /// Under which name.
    pub(crate) owner: Owner,
}

impl HeldResources {
    pub(crate) fn new(coordinator: &str, owner: &Owner) -> Self {
        let coordinator = coordinator.to_owned();
        Self { schema_version: SCHEMA_VERSION, coordinator, owner: owner.clone() }
    }
}

/// A record, locked; it stays on disk unless it is removed.
#[derive(Debug)]
pub(crate) struct LockRecord {
    path: PathBuf,
    // Its lock goes with it.
    _file: File,
}

impl LockRecord {
    /// Writes the record of this process into `folder`.
    pub(crate) fn create(folder: &Path, held: &HeldResources) -> Result<Self, LabError> {
        let _turn = turn(folder)?;
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

    /// The records in `folder` of processes that are gone, with what they held.
    pub(crate) fn left(folder: &Path) -> Result<Vec<(Self, HeldResources)>, LabError> {
        let _turn = turn(folder)?;
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

    /// Its file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it: nothing is held any more.
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
        // Killed before it could have held anything.
        std::fs::remove_file(path)?;
        return Ok(None);
    }
    let held = serde_json::from_str::<HeldResources>(&text).ok();
    // What another version or another program wrote is left to them.
    let held = held.filter(|held| held.schema_version == SCHEMA_VERSION && held.owner.is_ours());
    Ok(held.map(|held| (LockRecord { path: path.to_owned(), _file: file }, held)))
}

/// Waits for the right to make records and look through them, which goes with the file.
fn turn(folder: &Path) -> Result<File, LabError> {
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
    fn only_what_nobody_holds_any_more_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let (alive, gone) = (held(), held());
        let ours = LockRecord::create(folder.path(), &alive).unwrap();
        drop(LockRecord::create(folder.path(), &gone).unwrap());
        let left = LockRecord::left(folder.path()).unwrap();
        assert_eq!(left.iter().map(|(_, held)| held).collect::<Vec<_>>(), [&gone]);
        // Whoever looks meanwhile does not get the same.
        assert!(LockRecord::left(folder.path()).unwrap().is_empty());
        for (record, _) in left {
            record.remove().unwrap();
        }
        assert_eq!(records(folder.path()), 1);
        ours.remove().unwrap();
        assert_eq!(records(folder.path()), 0);
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.json"), "{}").unwrap();
        let by_hand = Owner { host: "bench".into(), user: "alice".into() };
        let text = serde_json::to_string(&HeldResources::new("lab", &by_hand)).unwrap();
        std::fs::write(folder.path().join("b.json"), text).unwrap();
        std::fs::write(folder.path().join("c.json"), "").unwrap();
        assert!(LockRecord::left(folder.path()).unwrap().is_empty());
        assert_eq!(records(folder.path()), 2, "an empty record goes, the others stay");
    }
}
