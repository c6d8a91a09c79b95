//! One server for one state file: a lock file next to it, locked while the card is served.
//!
//! The state file itself cannot be locked, because it is replaced when it is written. The lock file
//! is removed at the end; after a kill it stays, unlocked, and the next server takes it over. If it
//! has anything but a process number in it, it is another program's file, and stays.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// The lock on a state file, and where that file really is.
#[derive(Debug)]
pub struct StateLock {
    state: PathBuf,
    lock: PathBuf,
    file: File,
}

/// More than the process number in a lock file takes.
const MOST_LOCK_BYTES: u64 = 16;

/// Why a state file cannot be locked.
#[derive(Debug)]
pub enum LockFailure {
    /// Another program's file is where the lock file would be.
    Foreign(PathBuf),
    /// Another process has it; its number, where it wrote it.
    Locked(Option<u32>),
    /// The lock file cannot be made.
    Io(io::Error),
}

impl StateLock {
    /// Locks the state file at `path`, which need not be there yet. A link to one is resolved, so
    /// that two names of one file have one lock.
    ///
    /// # Errors
    /// As [`LockFailure`] says.
    pub fn take(path: &Path) -> Result<Self, LockFailure> {
        let state = real(path).map_err(LockFailure::Io)?;
        let lock = lock_of(&state);
        loop {
            if std::fs::symlink_metadata(&lock).is_ok_and(|found| !found.is_file()) {
                return Err(LockFailure::Foreign(lock));
            }
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
                .open(&lock)
                .map_err(LockFailure::Io)?;
            let found = file.metadata().map_err(LockFailure::Io)?;
            if !found.is_file() || (found.len() > 0 && pid(&file).is_none()) {
                return Err(LockFailure::Foreign(lock));
            }
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(LockFailure::Locked(pid(&file))),
                Err(error) => return Err(LockFailure::Io(error.into())),
            }
            // It may have been removed by its last owner between opening and locking.
            if is_at(&file, &lock) {
                file.set_len(0)
                    .and_then(|()| writeln!(file, "{}", std::process::id()))
                    .map_err(LockFailure::Io)?;
                return Ok(Self { state, lock, file });
            }
        }
    }

    /// The state file, with links resolved.
    pub fn state(&self) -> &Path {
        &self.state
    }
}

impl Drop for StateLock {
    fn drop(&mut self) {
        if is_at(&self.file, &self.lock) {
            // One that stays is taken over by the next server.
            let _ = std::fs::remove_file(&self.lock);
        }
    }
}

/// The lock file of a state file.
pub fn lock_of(state: &Path) -> PathBuf {
    let mut lock = state.as_os_str().to_owned();
    lock.push(".lock");
    lock.into()
}

/// The path of a file that need not exist, with links resolved.
///
/// # Errors
/// If its directory does not exist.
pub fn real(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize()?;
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(folder.join(name))
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(there)) = (file.metadata(), std::fs::symlink_metadata(path)) else {
        return false;
    };
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}

fn pid(file: &File) -> Option<u32> {
    let mut bytes = vec![0; usize::try_from(MOST_LOCK_BYTES).ok()? + 1];
    let length = file.read_at(&mut bytes, 0).ok()?;
    let text = std::str::from_utf8(&bytes[..length]).ok()?;
    (length as u64 <= MOST_LOCK_BYTES).then_some(())?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_file_has_one_server_by_whatever_name() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("card.state");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&state, &link).unwrap();
        std::fs::write(&state, "").unwrap();
        let first = StateLock::take(&state).unwrap();
        for name in [&state, &link] {
            let refused = StateLock::take(name).unwrap_err();
            let own = Some(std::process::id());
            assert!(matches!(refused, LockFailure::Locked(pid) if pid == own), "{refused:?}");
        }
        drop(first);
        assert_eq!(StateLock::take(&link).unwrap().state(), state.canonicalize().unwrap());
        assert!(!folder.path().join("card.state.lock").exists());
    }

    #[test]
    fn a_lock_file_is_not_a_link_and_not_a_fifo() {
        let folder = tempfile::tempdir().unwrap();
        let (state, lock) = (folder.path().join("s"), folder.path().join("s.lock"));
        let theirs = folder.path().join("theirs");
        std::fs::write(&theirs, "theirs").unwrap();
        std::os::unix::fs::symlink(&theirs, &lock).unwrap();
        assert!(matches!(StateLock::take(&state), Err(LockFailure::Foreign(path)) if path == lock));
        assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "theirs");
    }

    #[test]
    fn only_an_old_lock_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let (state, lock) = (folder.path().join("s"), folder.path().join("s.lock"));
        for theirs in ["theirs", "12 monkeys", "123456789012345678901234567890"] {
            std::fs::write(&lock, theirs).unwrap();
            assert!(matches!(StateLock::take(&state), Err(LockFailure::Foreign(_))), "{theirs}");
            assert_eq!(std::fs::read_to_string(&lock).unwrap(), theirs);
        }
        for left in ["", "4194304\n"] {
            std::fs::write(&lock, left).unwrap();
            let taken = StateLock::take(&state).unwrap();
            let own = format!("{}\n", std::process::id());
            assert_eq!(std::fs::read_to_string(&lock).unwrap(), own);
            drop(taken);
            assert!(!lock.exists());
        }
    }

    #[test]
    fn a_lock_file_that_another_has_made_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (state, lock) = (folder.path().join("s"), folder.path().join("s.lock"));
        let taken = StateLock::take(&state).unwrap();
        std::fs::remove_file(&lock).unwrap();
        std::fs::write(&lock, "theirs").unwrap();
        drop(taken);
        assert_eq!(std::fs::read_to_string(&lock).unwrap(), "theirs");
    }
}
