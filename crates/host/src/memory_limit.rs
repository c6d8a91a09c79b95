//! A limit on the memory, page cache included, of the programs of a trial (cgroups v2 and v1).
//!
//! The CELF methodology wanted to pin memory with mlock and found that fragile; the kernel's memory
//! controller does what was meant. Where there is none, the limit is absent and says so.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A control group with a memory limit; removed when dropped.
#[derive(Debug)]
pub struct MemoryLimit {
    folder: PathBuf,
    limit_bytes: u64,
}

impl MemoryLimit {
    /// Makes a group that may use `limit_bytes`.
    ///
    /// # Errors
    /// When the machine has no memory controller or denies its use; the error says which.
    pub fn new(limit_bytes: u64) -> std::io::Result<Self> {
        let (root, limit_file) = controller()?;
        remove_stale(&root);
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = root.join(format!("flashfit-{}-{count}", std::process::id()));
        std::fs::create_dir(&folder)?;
        let limit = Self { folder, limit_bytes };
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

/// Removes the empty groups of processes that were killed.
fn remove_stale(root: &Path) {
    let Ok(entries) = std::fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix("flashfit-").and_then(|rest| rest.split('-').next());
        let is_gone = process.is_some_and(|pid| {
            !pid.is_empty()
                && pid.bytes().all(|byte| byte.is_ascii_digit())
                && !Path::new("/proc").join(pid).exists()
        });
        if is_gone {
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
