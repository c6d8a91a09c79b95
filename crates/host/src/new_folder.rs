//! A new folder that is complete or absent: it is filled under another name and then renamed.
//!
//! `NAME.unfinished` has a mark and, in a folder in it, the content. It is locked while it is
//! filled. What a kill has left is recognized by its owner, the mark and the free lock, and removed
//! by the next start; a folder without the mark that is not empty is somebody else's and stays.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use flashfit_user_error::{ExitClass, Hint, UserError};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::durable;

/// An empty file that says whose folder it is.
const MARK: &str = "flashfit-unfinished";
const CONTENT: &str = "content";

#[derive(Debug, thiserror::Error)]
pub enum NewFolderError {
    #[error("{} exists", path.display())]
    Exists { path: PathBuf },
    #[error("another flashfit is writing {}", path.display())]
    InUse { path: PathBuf },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl NewFolderError {
    pub fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_owned(), source }
    }
}

impl UserError for NewFolderError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Exists { .. } | Self::InUse { .. } => ExitClass::Refused,
            Self::Write { .. } => ExitClass::Environment,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Exists { .. } => {
                Some("name a directory that does not exist, or remove this one".into())
            }
            Self::InUse { .. } => Some("wait until it is done, or name another directory".into()),
            Self::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free space there, or name a directory on another disk".into())
            }
            Self::Write { .. } => None,
        }
    }
}

/// A folder that is being filled; removed when it is dropped before [`NewFolder::finish`].
#[derive(Debug)]
pub struct NewFolder {
    path: PathBuf,
    draft: PathBuf,
    /// The open draft carries the lock.
    _lock: File,
}

impl NewFolder {
    /// Begins the folder `path`, which must not exist.
    ///
    /// # Errors
    /// If it or its draft exists, or cannot be made.
    pub fn begin(path: &Path) -> Result<Self, NewFolderError> {
        // Without a slash at the end, which would be a part of the draft's name.
        let path: PathBuf = path.components().collect();
        if path.symlink_metadata().is_ok() || path.file_name().is_none() {
            return Err(NewFolderError::Exists { path });
        }
        let mut name = OsString::from(path.file_name().unwrap_or_default());
        name.push(".unfinished");
        let draft = path.with_file_name(name);
        let failed = |source| NewFolderError::write(&draft, source);
        match std::fs::create_dir(&draft) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(error));
            }
            _ => {}
        }
        let lock = taken(&draft)?;
        File::create(draft.join(MARK)).map_err(failed)?;
        match std::fs::remove_dir_all(draft.join(CONTENT)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        std::fs::create_dir(draft.join(CONTENT)).map_err(failed)?;
        Ok(Self { path, draft, _lock: lock })
    }

    /// Where the content is written. Its writer syncs it.
    pub fn content(&self) -> PathBuf {
        self.draft.join(CONTENT)
    }

    /// Gives it its name. Another program may have made a folder of that name meanwhile; nothing
    /// of it is replaced.
    ///
    /// # Errors
    /// If it exists by now, or cannot be renamed.
    pub fn finish(self) -> Result<(), NewFolderError> {
        let failed = |source| NewFolderError::write(&self.path, source);
        let content = self.content();
        durable::sync_folder(&content).map_err(failed)?;
        match rustix::fs::renameat_with(CWD, &content, CWD, &self.path, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(NewFolderError::Exists { path: self.path.clone() }),
            // This file system cannot; a folder replaces only an empty folder.
            Err(Errno::INVAL | Errno::NOSYS) => {
                std::fs::rename(&content, &self.path).map_err(failed)?;
            }
            Err(errno) => return Err(failed(errno.into())),
        }
        let parent = self.path.parent().unwrap_or(Path::new("."));
        durable::sync_folder(parent).map_err(failed)
    }
}

impl Drop for NewFolder {
    /// What is left of it is recognized by the next start, for which the mark stays to the end.
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.content());
        let _ = std::fs::remove_file(self.draft.join(MARK));
        let _ = std::fs::remove_dir(&self.draft);
    }
}

/// Opens and locks a draft that was just made, or that a killed process left.
fn taken(draft: &Path) -> Result<File, NewFolderError> {
    let foreign = || NewFolderError::Exists { path: draft.to_owned() };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(draft, flags, Mode::empty()).map_err(|_| foreign())?;
    let folder = File::from(opened);
    match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(NewFolderError::InUse { path: draft.to_owned() }),
        Err(errno) => return Err(NewFolderError::write(draft, errno.into())),
    }
    // The one who had the lock may have removed it.
    let system = |errno: Errno| NewFolderError::write(draft, errno.into());
    let locked = rustix::fs::fstat(&folder).map_err(system)?;
    let named = rustix::fs::lstat(draft).map_err(system)?;
    let is_own = locked.st_uid == rustix::process::geteuid().as_raw();
    if (locked.st_dev, locked.st_ino) != (named.st_dev, named.st_ino) || !is_own {
        return Err(foreign());
    }
    let failed = |source| NewFolderError::write(draft, source);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(draft).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name());
    }
    let has_mark = names.iter().any(|name| name == MARK);
    let is_known = |name: &OsString| name == MARK || name == CONTENT;
    let is_left_over = names.is_empty() || (has_mark && names.iter().all(is_known));
    if is_left_over { Ok(folder) } else { Err(foreign()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &NewFolder) {
        std::fs::write(folder.content().join("file"), "text").unwrap();
    }

    #[test]
    fn it_is_complete_or_absent() {
        let parent = tempfile::tempdir().unwrap();
        let (path, draft) = (parent.path().join("new"), parent.path().join("new.unfinished"));
        let folder = NewFolder::begin(&path.join("")).unwrap();
        written(&folder);
        assert!(!path.exists() && draft.exists());
        // Another one while it is filled.
        assert!(matches!(NewFolder::begin(&path), Err(NewFolderError::InUse { .. })));
        drop(folder);
        assert!(!path.exists() && !draft.exists());
        let folder = NewFolder::begin(&path).unwrap();
        written(&folder);
        folder.finish().unwrap();
        assert_eq!(std::fs::read_to_string(path.join("file")).unwrap(), "text");
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
        assert!(!draft.exists());
        assert!(matches!(NewFolder::begin(&path), Err(NewFolderError::Exists { .. })));
    }

    #[test]
    fn what_a_kill_left_is_removed_and_what_is_foreign_stays() {
        let parent = tempfile::tempdir().unwrap();
        let (path, draft) = (parent.path().join("new"), parent.path().join("new.unfinished"));
        let folder = NewFolder::begin(&path).unwrap();
        std::fs::write(folder.content().join("old"), "half").unwrap();
        // As a kill: the lock is free, and nothing is removed.
        let stale = parent.path().join("stale");
        std::fs::rename(&draft, &stale).unwrap();
        drop(folder);
        std::fs::rename(&stale, &draft).unwrap();
        let folder = NewFolder::begin(&path).unwrap();
        written(&folder);
        folder.finish().unwrap();
        assert!(!path.join("old").exists() && !draft.exists());

        std::fs::remove_dir_all(&path).unwrap();
        for name in ["notes.txt", CONTENT] {
            std::fs::create_dir(&draft).unwrap();
            std::fs::write(draft.join(name), "mine").unwrap();
            assert!(matches!(NewFolder::begin(&path), Err(NewFolderError::Exists { .. })));
            assert_eq!(std::fs::read_to_string(draft.join(name)).unwrap(), "mine");
            std::fs::remove_dir_all(&draft).unwrap();
        }
        std::os::unix::fs::symlink(parent.path(), &draft).unwrap();
        assert!(matches!(NewFolder::begin(&path), Err(NewFolderError::Exists { .. })));
    }

    #[test]
    fn a_folder_that_appeared_meanwhile_is_not_replaced() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("new");
        let folder = NewFolder::begin(&path).unwrap();
        written(&folder);
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(folder.finish(), Err(NewFolderError::Exists { .. })));
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
        assert!(!parent.path().join("new.unfinished").exists());
    }
}
