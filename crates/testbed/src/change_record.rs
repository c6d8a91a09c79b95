//! Records of what a setting of the kernel was before a run changed it, in `/run`, which is cleared
//! at boot like such settings. If a process is killed, the next run finds the original there.
//! Limit: if `/run` is not writable, nothing is recorded.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flashfit_host::file_lock::FileLock;
use flashfit_host::{durable, loop_renewal};

/// Where all records are.
pub const FOLDER: &str = "/run/flashfit";

const FOLDER_MODE: u32 = 0o755;

/// The name of a disk's records. The inode of the queue's directory in sysfs identifies the queue,
/// to which the settings belong: another disk of the name has another one, but a loop device keeps
/// it, and its settings, when another file is attached.
pub fn name_of(disk: &str, queue: &Path) -> String {
    format!("{disk}-{}", queue_id(queue).unwrap_or_default())
}

fn queue_id(queue: &Path) -> Option<u64> {
    std::fs::metadata(queue).ok().map(|found| found.ino())
}

/// Removes the records of queues that no longer exist, and resets loop devices that a killed run
/// left changed and that nobody uses: the next user, maybe of another program, would inherit that.
/// `blocks` is `/sys/class/block`, and `folder` has the records.
pub fn reset_unused(folder: &Path, blocks: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((disk, id)) = name.rsplit_once('-') else { continue };
        let Ok(id) = id.parse::<u64>() else { continue };
        let block = blocks.join(disk);
        let is_unused = || !block.join("loop/backing_file").exists();
        let is_reset = queue_id(&block.join("queue")) != Some(id)
            // The kernel refuses this for a device that has a file or is open.
            || (disk.starts_with("loop")
                && is_unused()
                && loop_renewal::renew(&Path::new("/dev").join(disk)).is_ok());
        if is_reset {
            ChangeRecord::new(folder, &name).remove();
        }
    }
}

/// A record that exists as long as something is changed.
#[derive(Debug, Clone)]
pub struct ChangeRecord {
    path: PathBuf,
}

impl ChangeRecord {
    pub fn new(folder: &Path, name: &str) -> Self {
        Self { path: folder.join(name) }
    }

    /// What a process recorded that has not restored it.
    pub fn left(&self) -> Option<String> {
        std::fs::read_to_string(&self.path).ok()
    }

    /// Records `before`. Call it before the change.
    pub fn write(&self, before: &str) {
        // The record only matters if this process is killed, so an error is not fatal.
        self.make_folder();
        let _ = durable::write(&self.path, before.as_bytes());
    }

    /// Call it after what is recorded was restored.
    pub fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }

    /// Makes the record, and what it is of, belong to the caller until the lock is dropped.
    pub fn claim(&self) -> Claim {
        self.make_folder();
        let mut path = self.path.clone().into_os_string();
        path.push(".lock");
        let path = PathBuf::from(path);
        loop {
            match RecordLock::try_on(&path) {
                Ok(Some(lock)) if lock.is_in_place() => return Claim::Made(lock),
                // Its owner removed the file after it was opened here.
                Ok(Some(lock)) => lock.release(),
                Ok(None) => return Claim::OfAnother,
                Err(_) => return Claim::Impossible,
            }
        }
    }

    fn make_folder(&self) {
        let _ = self.path.parent().map(|folder| durable::create_folders(folder, FOLDER_MODE));
    }
}

#[derive(Debug)]
pub enum Claim {
    Made(RecordLock),
    /// Of a process that is running.
    OfAnother,
    /// The directory is not writable.
    Impossible,
}

/// A locked file, removed with the lock.
#[derive(Debug)]
pub struct RecordLock {
    path: PathBuf,
    /// Device and inode of the file that is locked.
    file: (u64, u64),
    /// `None` once it is released.
    lock: Option<FileLock>,
}

impl RecordLock {
    fn try_on(path: &Path) -> io::Result<Option<Self>> {
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).open(path)?;
        let found = id_of(&file.metadata()?);
        let lock = FileLock::try_on(file)?;
        Ok(lock.map(|lock| Self { path: path.to_owned(), file: found, lock: Some(lock) }))
    }

    fn is_in_place(&self) -> bool {
        std::fs::symlink_metadata(&self.path).is_ok_and(|found| id_of(&found) == self.file)
    }

    /// Unlocks it and leaves the path, where another file is.
    fn release(mut self) {
        self.lock = None;
    }
}

impl Drop for RecordLock {
    fn drop(&mut self) {
        // Removed while it is locked: who opened it before finds that it is no longer in place.
        if self.lock.is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn id_of(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_of_one_owner_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let claim = || ChangeRecord::new(&folder.path().join("records"), "machine").claim();
        let path = folder.path().join("records/machine.lock");
        let Claim::Made(first) = claim() else { panic!("nobody has it") };
        assert!(matches!(claim(), Claim::OfAnother));
        assert!(path.exists());
        drop(first);
        assert!(!path.exists());
        // The file of a killed process is not locked.
        std::fs::write(&path, "").unwrap();
        let Claim::Made(next) = claim() else { panic!("its owner was killed") };
        std::fs::remove_file(&path).unwrap();
        assert!(!next.is_in_place());
        std::fs::write(&path, "of another").unwrap();
        assert!(!next.is_in_place());
        next.release();
        assert!(path.exists());
    }
}
