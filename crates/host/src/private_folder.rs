//! A folder for what is only needed while a process runs, sockets and logs: its user's alone, and
//! gone with the value.
//!
//! A lock on the folder says that it is in use. What a killed process has left is known by its
//! name, its owner and its free lock, and removed by the next start. Limits: names of sockets are
//! short (108 bytes with the path), so the folder is in `/tmp` where `$TMPDIR` is long.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, flock};

const PREFIX: &str = "flashfit-tmp-";
/// What remains of 108 bytes for the folder, with a socket's name after it.
const LONGEST: usize = 80;

/// A folder of one's own; removed when dropped.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
    /// Open for the lock on it.
    _lock: File,
}

impl PrivateFolder {
    /// Makes one, and removes those that killed processes have left.
    ///
    /// # Errors
    /// When the temporary folder cannot be written to.
    pub fn new() -> io::Result<Self> {
        let usual = std::env::temp_dir();
        let parent = if usual.as_os_str().len() > LONGEST { PathBuf::from("/tmp") } else { usual };
        remove_stale(&parent);
        Self::inside(&parent)
    }

    fn inside(parent: &Path) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{PREFIX}{}-{count}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            // Another process that tidies may take it for a stale one before the lock is on it.
            if let Some(lock) = lock(&path) {
                return Ok(Self { path, _lock: lock });
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // What cannot be removed now is by the next start.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The folder's lock, if it is free and the folder is still at its path.
pub(crate) fn lock(path: &Path) -> Option<File> {
    let folder = File::open(path).ok()?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    let (locked, there) = (folder.metadata().ok()?, std::fs::metadata(path).ok()?);
    (locked.ino() == there.ino() && locked.dev() == there.dev()).then_some(folder)
}

fn remove_stale(parent: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_named_so = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let is_own = || {
            std::fs::symlink_metadata(entry.path())
                .is_ok_and(|facts| facts.is_dir() && facts.uid() == own)
        };
        if is_named_so && is_own() {
            if let Some(_lock) = lock(&entry.path()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_its_owners_and_goes() {
        let parent = tempfile::tempdir().unwrap();
        let folder = PrivateFolder::inside(parent.path()).unwrap();
        let path = folder.path().to_owned();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        std::fs::write(folder.join("console"), "x").unwrap();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn only_what_nobody_holds_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let held = PrivateFolder::inside(parent.path()).unwrap();
        let stale = parent.path().join(format!("{PREFIX}1-0"));
        let other = parent.path().join("flashfit-else");
        std::fs::create_dir(&stale).unwrap();
        std::fs::write(stale.join("console"), "x").unwrap();
        std::fs::create_dir(&other).unwrap();
        remove_stale(parent.path());
        assert!(!stale.exists() && other.exists() && held.path().exists());
    }
}
