//! An exclusive lock on an open file (flock(2)) that ends when its owner drops it.
//!
//! Such a lock belongs to the open file and not to a descriptor. A thread with its own copy of the
//! table of descriptors, such as one that answers a FUSE file system, would keep it locked after
//! the owner has closed the file, so it is unlocked explicitly.

use std::fs::File;
use std::io;

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
