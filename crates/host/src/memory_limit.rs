//! Limits the memory of a trial's programs, including page cache, with cgroups v2 or v1.
//!
//! A lock on a group's folder marks it as in use. Process IDs would not suffice: containers with
//! separate PID namespaces may share the cgroup hierarchy. Limit: requires the kernel's memory
//! controller; [`MemoryLimit::new`] fails without it.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::private_folder;

const PREFIX: &str = "flashfit-";

/// A control group with a memory limit, removed when dropped.
#[derive(Debug)]
pub struct MemoryLimit {
    folder: PathBuf,
    limit_bytes: u64,
    /// The open folder carries the lock.
    _lock: File,
}

impl MemoryLimit {
    /// Creates a group that may use `limit_bytes`.
    ///
    /// # Errors
    /// When the memory controller is missing or access to it is denied.
    pub fn new(limit_bytes: u64) -> std::io::Result<Self> {
        let (root, limit_file) = controller()?;
        remove_stale(&root);
        let (folder, lock) = make_group(&root)?;
        let limit = Self { folder, limit_bytes, _lock: lock };
        std::fs::write(limit.folder.join(limit_file), limit_bytes.to_string())?;
        Ok(limit)
    }

    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// The files that a process writes to in order to join the group, for
    /// [`crate::Program::inside`].
    pub fn procs(&self) -> Vec<PathBuf> {
        vec![self.folder.join("cgroup.procs")]
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // The trial's processes have ended. A group that is still busy remains and is empty later.
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Creates and locks a group with an unused name.
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
        // Another process may remove the group as stale before it is locked.
        if let Some(lock) = private_folder::lock(&folder) {
            return Ok((folder, lock));
        }
    }
}

/// Removes the empty groups of killed processes.
fn remove_stale(root: &Path) {
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let has_prefix = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if has_prefix && private_folder::lock(&entry.path()).is_some() {
            // Fails for a group that still has processes.
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

/// The folder for new groups, and the name of the limit's file.
fn controller() -> std::io::Result<(PathBuf, &'static str)> {
    let v2 = Path::new("/sys/fs/cgroup");
    if let Ok(controllers) = std::fs::read_to_string(v2.join("cgroup.controllers")) {
        if controllers.split_whitespace().any(|name| name == "memory") {
            // Groups only get the controller if the root delegates it; systemd usually does.
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
        "no memory controller in /sys/fs/cgroup",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_group_is_not_removed() {
        // Locks work in any folder; no cgroup file system is needed.
        let root = tempfile::tempdir().unwrap();
        let (one, lock) = make_group(root.path()).unwrap();
        // Simulates a process with the same ID in another PID namespace.
        let name = one.to_str().unwrap();
        let (start, count) = name.rsplit_once('-').unwrap();
        let next = PathBuf::from(format!("{start}-{}", count.parse::<u32>().unwrap() + 1));
        std::fs::create_dir(&next).unwrap();
        let (other, _other_lock) = make_group(root.path()).unwrap();
        assert!(other != one && other != next);
        remove_stale(root.path());
        assert!(one.exists() && other.exists() && !next.exists());
        drop(lock);
        // A program that another thread starts right now still has the lock's file.
        for _ in 0..100 {
            remove_stale(root.path());
            if !one.exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(!one.exists() && other.exists());
    }
}
