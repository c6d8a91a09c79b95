//! An exclusive lock on an open file (flock(2)) that ends when its owner drops it.
//!
//! Such a lock belongs to the open file and not to a descriptor. A thread with its own copy of the
//! table of descriptors, such as one that answers a FUSE file system, would keep it locked after
//! the owner has closed the file, so it is unlocked explicitly.
//!
//! Limit: the kernel lists who has locked a file by the device number of the file system, which is
//! not that of stat(2) on btrfs, and without processes of other PID namespaces.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

#[derive(Debug)]
#[must_use = "it is unlocked when it is dropped"]
pub struct FileLock(File);

impl FileLock {
    /// `None` if another process, or another open file of this one, has locked it.
    ///
    /// # Errors
    /// When the file system does not support it.
    pub fn try_on(file: File) -> io::Result<Option<Self>> {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// The process that has locked the file, if the kernel lists it.
pub fn holder(file: &File) -> Option<u32> {
    let found = file.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    let wanted = format!("{major:02x}:{minor:02x}:{}", found.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| holder_in(line, &wanted))
}

/// The process in a line of proc_locks(5) about this file.
fn holder_in(line: &str, file: &str) -> Option<u32> {
    let mut fields = line.split_whitespace().skip(1);
    // A process that waits for a lock has an arrow here.
    if fields.next() != Some("FLOCK") {
        return None;
    }
    let pid = fields.nth(2)?.parse().ok()?;
    (fields.next() == Some(file) && pid != 0).then_some(pid)
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing the file unlocks it, too, unless another table has it.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_owner_is_listed() {
        let line = |text: &str| holder_in(text, "08:02:131073");
        assert_eq!(line("4: FLOCK  ADVISORY  WRITE 812 08:02:131073 0 EOF"), Some(812));
        assert_eq!(line("4: FLOCK  ADVISORY  WRITE 812 08:02:131074 0 EOF"), None);
        assert_eq!(line("4: -> FLOCK  ADVISORY  WRITE 812 08:02:131073 0 EOF"), None);
        assert_eq!(line("4: POSIX  ADVISORY  WRITE 812 08:02:131073 0 EOF"), None);
        // Of another PID namespace.
        assert_eq!(line("4: FLOCK  ADVISORY  WRITE 0 08:02:131073 0 EOF"), None);
        assert_eq!(line("nonsense"), None);
        let file = tempfile::tempfile().unwrap();
        assert_eq!(holder(&file), None);
    }

    #[test]
    fn it_ends_with_its_owner_even_if_another_table_has_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let open = || File::create(folder.path().join("file")).unwrap();
        let file = open();
        let elsewhere = file.try_clone().unwrap();
        let lock = FileLock::try_on(file).unwrap().expect("nobody has locked it");
        assert!(FileLock::try_on(open()).unwrap().is_none());
        drop(lock);
        assert!(FileLock::try_on(open()).unwrap().is_some());
        drop(elsewhere);
    }
}
