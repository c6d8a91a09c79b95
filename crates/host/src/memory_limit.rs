//! A limit on the memory, page cache included, of the programs of a trial (cgroups v2 and v1).
//!
//! The CELF methodology wanted to pin memory with mlock and found that fragile; the kernel's memory
//! controller does what was meant. Where there is none, the limit is absent and says so.
//!
//! A lock on a group's folder says that it is in use. Process ids would not do: containers that
//! share the hierarchy have them in common.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::private_folder;

const PREFIX: &str = "flashfit-";

/// A control group with a memory limit; removed when dropped.
#[derive(Debug)]
pub struct MemoryLimit {
    folder: PathBuf,
    limit_bytes: u64,
    /// Open for the lock on it.
    _lock: File,
}

impl MemoryLimit {
    /// Makes a group that may use `limit_bytes`.
    ///
    /// # Errors
    /// When the machine has no memory controller or denies its use; the error says which.
    pub fn new(limit_bytes: u64) -> std::io::Result<Self> {
        let (root, limit_file) = controller()?;
        remove_stale(&root);
        let (folder, lock) = make_group(&root)?;
        let limit = Self { folder, limit_bytes, _lock: lock };
        std::fs::write(limit.folder.join(limit_file), limit_bytes.to_string())?;
        Ok(limit)
    }

    /// How much memory there is, in bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// The file through which a process joins, for [`crate::Program::inside`].
    pub fn procs(&self) -> Vec<PathBuf> {
        vec![self.folder.join("cgroup.procs")]
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // Its processes have ended with their trial; a group that is still busy is left empty.
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Makes a group that no other process has, and locks it.
fn make_group(root: &Path) -> std::io::Result<(PathBuf, File)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = root.join(format!("{PREFIX}{}-{count}", std::process::id()));
        match std::fs::create_dir(&folder) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
        // Another process may remove it as abandoned before the lock is on it.
        if let Some(lock) = private_folder::lock(&folder) {
            return Ok((folder, lock));
        }
    }
}

/// Removes the empty groups of processes that were killed.
fn remove_stale(root: &Path) {
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let is_named_so = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_named_so && private_folder::lock(&entry.path()).is_some() {
            // One that is not empty stays.
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

/// The folder in which groups can be made, and the name of the limit's file.
fn controller() -> std::io::Result<(PathBuf, &'static str)> {
    let v2 = Path::new("/sys/fs/cgroup");
    if let Ok(controllers) = std::fs::read_to_string(v2.join("cgroup.controllers")) {
        if controllers.split_whitespace().any(|name| name == "memory") {
            // The root group must hand the controller down; systemd has usually done so.
            let _ = std::fs::write(v2.join("cgroup.subtree_control"), "+memory");
            return Ok((v2.to_owned(), "memory.max"));
        }
    }
    let v1 = v2.join("memory");
    if v1.join("memory.limit_in_bytes").exists() {
        return Ok((v1, "memory.limit_in_bytes"));
    }
    Err(std::io::Error::new(
        std::io::ErrorKind::Unsupported,
        "the kernel offers no memory controller under /sys/fs/cgroup",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_left_alone_while_its_process_lives() {
        // Any folder does: a lock is a lock.
        let root = tempfile::tempdir().unwrap();
        let (one, lock) = make_group(root.path()).unwrap();
        // As made by a process of the same id elsewhere.
        let name = one.to_str().unwrap();
        let (start, count) = name.rsplit_once('-').unwrap();
        let next = PathBuf::from(format!("{start}-{}", count.parse::<u32>().unwrap() + 1));
        std::fs::create_dir(&next).unwrap();
        let (other, _other_lock) = make_group(root.path()).unwrap();
        assert!(other != one && other != next);
        remove_stale(root.path());
        assert!(one.exists() && other.exists() && !next.exists());
        drop(lock);
        remove_stale(root.path());
        assert!(!one.exists() && other.exists());
    }
}
