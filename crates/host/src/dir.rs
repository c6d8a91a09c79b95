//! Safe access to data folders: run directories, backups, records of unfinished work.
//!
//! Everything below a [`DirHandle`] is opened with openat(2) and `O_NOFOLLOW`, so no symbolic link
//! leads out of the folder. Only regular files are read or written; whole files are written to a
//! temporary name, synced and renamed. A folder that another unprivileged user owns, or that every
//! user may write to, is refused, because it could change at any time. All changes to such folders
//! go through this module.
//!
//! Limits: symbolic links in the path to the folder are followed; a folder that its group may write
//! to is accepted; rename(2) must have Linux semantics.

mod error;
mod log_file;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::file_lock::{self, FileLock};
pub use error::{DirError, DirObstacle};
pub use log_file::LogFile;

/// Never follow a link, never block on a FIFO.
const SAFE_FLAGS: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

#[derive(Debug)]
pub struct DirHandle {
    folder: File,
    path: PathBuf,
}

impl DirHandle {
    /// Opens the folder at `path`, which must not be a link.
    pub fn open(path: &Path) -> Result<Self, DirError> {
        // A trailing slash would make the kernel follow a link despite O_NOFOLLOW.
        let plain: PathBuf = path.components().collect();
        let named = if plain.as_os_str().is_empty() { Path::new(".") } else { plain.as_path() };
        Self::checked(
            rustix::fs::openat(CWD, named, SAFE_FLAGS | OFlags::DIRECTORY, Mode::empty()),
            path,
        )
    }

    /// Creates the folder at `path` and its missing parents with these permissions, then opens it.
    pub fn create(path: &Path, mode: u32) -> Result<Self, DirError> {
        // Opening the folder rejects a link in its place.
        crate::durable::create_folders(path, mode)
            .map_err(|source| DirError::system(path, source))?;
        Self::open(path)
    }

    fn checked(opened: Result<rustix::fd::OwnedFd, Errno>, path: &Path) -> Result<Self, DirError> {
        let folder = opened.map_err(|errno| match errno {
            Errno::NOTDIR | Errno::LOOP => DirError::invalid(path, DirObstacle::NotAFolder),
            _ => DirError::system(path, errno.into()),
        })?;
        let folder = File::from(folder);
        let found = rustix::fs::fstat(&folder).map_err(|e| DirError::system(path, e.into()))?;
        let caller = rustix::process::geteuid().as_raw();
        if found.st_uid != 0 && found.st_uid != caller {
            return Err(DirError::invalid(path, DirObstacle::Owner(found.st_uid)));
        }
        if Mode::from_raw_mode(found.st_mode).contains(Mode::WOTH) {
            return Err(DirError::invalid(path, DirObstacle::OthersMayWrite));
        }
        Ok(Self { folder, path: path.to_owned() })
    }

    /// Opens a folder in this one.
    pub fn open_dir(&self, name: &str) -> Result<Self, DirError> {
        let name = checked_name(name, &self.path)?;
        let flags = SAFE_FLAGS | OFlags::DIRECTORY;
        let opened = rustix::fs::openat(&self.folder, name, flags, Mode::empty());
        Self::checked(opened, &self.path.join(name))
    }

    /// Opens a folder in this one and creates it if it is missing.
    pub fn create_dir(&self, name: &str) -> Result<Self, DirError> {
        match rustix::fs::mkdirat(
            &self.folder,
            checked_name(name, &self.path)?,
            Mode::from_raw_mode(0o755),
        ) {
            Ok(()) => {
                self.sync()?;
                self.open_dir(name)
            }
            Err(Errno::EXIST) => self.open_dir(name),
            Err(errno) => Err(DirError::system(&self.path.join(name), errno.into())),
        }
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder's path without symbolic links.
    ///
    /// # Errors
    /// When /proc is not mounted.
    pub fn real_path(&self) -> Result<PathBuf, DirError> {
        let link = format!("/proc/self/fd/{}", self.folder.as_raw_fd());
        std::fs::read_link(link).map_err(|source| DirError::system(&self.path, source))
    }

    /// Whether an entry with this name exists, including a dangling link.
    pub fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// The names of all entries.
    pub fn names(&self) -> Result<Vec<OsString>, DirError> {
        let failed = |errno: Errno| DirError::system(&self.path, errno.into());
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    /// Opens a regular file for reading; `None` if it does not exist.
    pub fn open_file(&self, name: &str) -> Result<Option<File>, DirError> {
        match self.open_regular(name, OFlags::RDONLY) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a regular file of at most `max_bytes`; `None` if it does not exist.
    pub fn read(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, DirError> {
        let Some(file) = self.open_file(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let path = self.path.join(name);
        // Counted while reading, because the file may grow.
        file.take(max_bytes.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|source| DirError::system(&path, source))?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length <= max_bytes) {
            Ok(Some(bytes))
        } else {
            Err(DirError::invalid(&path, DirObstacle::Larger(max_bytes)))
        }
    }

    /// Writes a file atomically and durably.
    ///
    /// # Errors
    /// When writing, syncing or renaming fails; an existing file is then unchanged.
    pub fn write(&self, name: &str, bytes: &[u8], mode: u32) -> Result<(), DirError> {
        let draft = format!("{}.part", checked_name(name, &self.path)?);
        // Never written through an old draft, which could be a link.
        self.remove(&draft)?;
        let written = self.create_new(&draft, mode).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()?;
            Ok(rustix::fs::renameat(&self.folder, draft.as_str(), &self.folder, name)?)
        });
        if let Err(source) = written {
            // The next attempt removes what is left.
            let _ = self.remove(&draft);
            return Err(DirError::system(&self.path.join(name), source));
        }
        self.sync()
    }

    fn create_new(&self, name: &str, mode: u32) -> io::Result<File> {
        let flags = SAFE_FLAGS | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let opened = rustix::fs::openat(&self.folder, name, flags, Mode::from_raw_mode(mode))?;
        Ok(File::from(opened))
    }

    /// Opens a file that grows by whole lines and creates it if it is missing. A file with several
    /// hard links is refused, because it is written in place.
    pub fn open_log(&self, name: &str) -> Result<LogFile, DirError> {
        let file = self.open_regular(name, OFlags::RDWR | OFlags::CREATE)?;
        let path = self.path.join(name);
        let found = rustix::fs::fstat(&file).map_err(|e| DirError::system(&path, e.into()))?;
        if found.st_nlink > 1 {
            return Err(DirError::invalid(&path, DirObstacle::SeveralNames));
        }
        // The file's name must survive a power cut like its lines; the process that created the
        // file may have been killed before it synced the folder.
        self.sync()?;
        LogFile::at_end(file, path)
    }

    /// Locks a file until the value is dropped and creates it if it is missing; `None` if another
    /// process has locked it.
    pub fn lock(&self, name: &str) -> Result<Option<FileLock>, DirError> {
        let file =
            self.open_regular(checked_name(name, &self.path)?, OFlags::WRONLY | OFlags::CREATE)?;
        FileLock::try_on(file).map_err(|error| DirError::system(&self.path.join(name), error))
    }

    /// Whether another process has locked a file; the file is not created.
    pub fn is_locked(&self, name: &str) -> Result<bool, DirError> {
        let Some(file) = self.open_file(name)? else { return Ok(false) };
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(errno) => Err(DirError::system(&self.path.join(name), errno.into())),
        }
    }

    /// The process that has locked a file, if the kernel lists it.
    pub fn lock_holder(&self, name: &str) -> Option<u32> {
        file_lock::holder(&self.open_file(name).ok()??)
    }

    /// Removes a file or a link if it exists.
    ///
    /// # Errors
    /// When it cannot be removed or is a folder.
    pub fn remove(&self, name: &str) -> Result<(), DirError> {
        self.unlink(name, AtFlags::empty())
    }

    /// Removes an empty folder if it exists.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove_dir(&self, name: &str) -> Result<(), DirError> {
        self.unlink(name, AtFlags::REMOVEDIR)
    }

    fn unlink(&self, name: &str, flags: AtFlags) -> Result<(), DirError> {
        match rustix::fs::unlinkat(&self.folder, checked_name(name, &self.path)?, flags) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(DirError::system(&self.path.join(name), errno.into())),
        }
    }

    /// Makes creations, renames and removals in this folder survive a power cut.
    pub fn sync(&self) -> Result<(), DirError> {
        self.folder.sync_all().map_err(|source| DirError::system(&self.path, source))
    }

    fn open_regular(&self, name: &str, flags: OFlags) -> Result<File, DirError> {
        let path = self.path.join(checked_name(name, &self.path)?);
        let mode = Mode::from_raw_mode(0o666);
        let file = match rustix::fs::openat(&self.folder, name, SAFE_FLAGS | flags, mode) {
            Ok(file) => File::from(file),
            // A FIFO without a reader, a socket, or a folder opened for writing.
            Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => {
                return Err(DirError::invalid(&path, DirObstacle::NotAFile));
            }
            Err(errno) => return Err(DirError::system(&path, errno.into())),
        };
        let found = rustix::fs::fstat(&file).map_err(|e| DirError::system(&path, e.into()))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(DirError::invalid(&path, DirObstacle::NotAFile));
        }
        Ok(file)
    }
}

/// Accepts a name only if it cannot lead out of the folder.
fn checked_name<'a>(name: &'a str, folder: &Path) -> Result<&'a str, DirError> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(DirError::invalid(&folder.join(name), DirObstacle::NotAName));
    }
    Ok(name)
}

#[cfg(test)]
mod tests;
