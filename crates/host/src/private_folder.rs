//! A private temporary folder for sockets and logs, removed when the value is dropped.
//!
//! A lock on the folder marks it as in use. The next start removes the folders of killed processes,
//! recognized by name, owner and free lock. Limit: a socket path has at most 108 bytes, so the
//! folder is in `/tmp` if `$TMPDIR` is long.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};

const PREFIX: &str = "flashfit-tmp-";
/// Leaves room for a socket name within 108 bytes.
const MAX_PARENT_BYTES: usize = 80;

#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
    /// The open folder carries the lock.
    _lock: File,
}

impl PrivateFolder {
    /// Creates a folder and removes those of killed processes.
    ///
    /// # Errors
    /// When the temporary folder is not writable.
    pub fn new() -> io::Result<Self> {
        let default = std::env::temp_dir();
        let is_long = default.as_os_str().len() > MAX_PARENT_BYTES;
        let parent = if is_long { PathBuf::from("/tmp") } else { default };
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
            // Another process may remove the folder as stale before it is locked.
            if let Some(lock) = lock(&path) {
                return Ok(Self { path, _lock: lock });
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // The next start removes what is left.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Locks the folder; `None` if it is locked already or no longer at its path.
pub(crate) fn lock(path: &Path) -> Option<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    let (locked, current) = (folder.metadata().ok()?, std::fs::symlink_metadata(path).ok()?);
    (locked.ino() == current.ino() && locked.dev() == current.dev()).then_some(folder)
}

fn remove_stale(parent: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let has_prefix = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let is_own = || {
            std::fs::symlink_metadata(entry.path())
                .is_ok_and(|facts| facts.is_dir() && facts.uid() == own)
        };
        if has_prefix && is_own() {
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
    fn a_folder_is_private_and_removed_on_drop() {
        let parent = tempfile::tempdir().unwrap();
        let folder = PrivateFolder::inside(parent.path()).unwrap();
        let path = folder.path().to_owned();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        std::fs::write(folder.join("console"), "x").unwrap();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn only_unlocked_folders_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let locked = PrivateFolder::inside(parent.path()).unwrap();
        let stale = parent.path().join(format!("{PREFIX}1-0"));
        let other = parent.path().join("flashfit-else");
        std::fs::create_dir(&stale).unwrap();
        std::fs::write(stale.join("console"), "x").unwrap();
        std::fs::create_dir(&other).unwrap();
        remove_stale(parent.path());
        assert!(!stale.exists() && other.exists() && locked.path().exists());
    }

    #[test]
    fn a_link_is_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let (theirs, link) =
            (parent.path().join("theirs"), parent.path().join(format!("{PREFIX}1-0")));
        std::fs::create_dir(&theirs).unwrap();
        std::os::unix::fs::symlink(&theirs, &link).unwrap();
        assert!(lock(&link).is_none());
        remove_stale(parent.path());
        assert!(theirs.exists() && link.is_symlink());
    }
}
