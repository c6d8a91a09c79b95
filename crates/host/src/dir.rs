//! Folders whose contents are only data: run directories, backups, records of unfinished work.
//!
//! Everything below a [`DirHandle`] is opened with openat(2) and `O_NOFOLLOW`, so that no link in
//! it leads elsewhere; only regular files are read or written; whole files are written under
//! another name, synced and renamed. A folder that belongs to neither root nor the caller is
//! refused, because its owner could change it at any time. Every write, sync, rename and removal in
//! such a folder is made by this module.
//!
//! Limits: the folders above are followed as the user named them; a folder that others may write to
//! is not refused; no file system but Linux's own semantics of rename(2) is assumed.

mod error;
mod log_file;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

pub use error::{DirError, DirObstacle};
pub use log_file::LogFile;

/// How an open must behave: never through a link, never waiting for a pipe's other end.
const CAREFUL: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

#[derive(Debug)]
pub struct DirHandle {
    folder: File,
    path: PathBuf,
}

impl DirHandle {
    /// Opens the folder at `path`, which must not be a link.
    ///
    /// # Errors
    /// As [`DirError`] says.
    pub fn open(path: &Path) -> Result<Self, DirError> {
        // Without a slash at the end, behind which the kernel follows a link after all.
        let plain: PathBuf = path.components().collect();
        let named = if plain.as_os_str().is_empty() { Path::new(".") } else { plain.as_path() };
        Self::checked(
            rustix::fs::openat(CWD, named, CAREFUL | OFlags::DIRECTORY, Mode::empty()),
            path,
        )
    }

    /// Opens the folder at `path` after making it, with these permissions, and those above it where
    /// they are missing.
    ///
    /// # Errors
    /// As [`DirError`] says.
    pub fn create(path: &Path, mode: u32) -> Result<Self, DirError> {
        // A link to a folder is told apart by opening it.
        crate::durable::create_folders(path, mode)
            .map_err(|source| DirError::system(path, source))?;
        Self::open(path)
    }

    fn checked(opened: Result<rustix::fd::OwnedFd, Errno>, path: &Path) -> Result<Self, DirError> {
        let folder = opened.map_err(|errno| match errno {
            Errno::NOTDIR | Errno::LOOP => DirError::not(path, DirObstacle::NotAFolder),
            _ => DirError::system(path, errno.into()),
        })?;
        let folder = File::from(folder);
        let found = rustix::fs::fstat(&folder).map_err(|e| DirError::system(path, e.into()))?;
        let caller = rustix::process::geteuid().as_raw();
        if found.st_uid != 0 && found.st_uid != caller {
            return Err(DirError::not(path, DirObstacle::Owner(found.st_uid)));
        }
        Ok(Self { folder, path: path.to_owned() })
    }

    /// The folder in this one of that name.
    ///
    /// # Errors
    /// As [`DirError`] says.
    pub fn open_dir(&self, name: &str) -> Result<Self, DirError> {
        let name = single(name, &self.path)?;
        let flags = CAREFUL | OFlags::DIRECTORY;
        let opened = rustix::fs::openat(&self.folder, name, flags, Mode::empty());
        Self::checked(opened, &self.path.join(name))
    }

    /// The same, made where it is missing.
    ///
    /// # Errors
    /// As [`DirError`] says.
    pub fn create_dir(&self, name: &str) -> Result<Self, DirError> {
        match rustix::fs::mkdirat(
            &self.folder,
            single(name, &self.path)?,
            Mode::from_raw_mode(0o777),
        ) {
            Ok(()) => {
                self.sync()?;
                self.open_dir(name)
            }
            Err(Errno::EXIST) => self.open_dir(name),
            Err(errno) => Err(DirError::system(&self.path.join(name), errno.into())),
        }
    }

    /// The folder as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether anything has that name here, a link to nowhere included.
    pub fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// The names of all that is here.
    ///
    /// # Errors
    /// When the folder cannot be read.
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

    /// Opens a regular file for reading; `None` where there is none.
    ///
    /// # Errors
    /// As [`DirError`] says.
    pub fn open_file(&self, name: &str) -> Result<Option<File>, DirError> {
        match self.open_regular(name, OFlags::RDONLY) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a regular file of at most `most_bytes`; `None` where there is none.
    ///
    /// # Errors
    /// As [`DirError`] says.
    pub fn read(&self, name: &str, most_bytes: u64) -> Result<Option<Vec<u8>>, DirError> {
        let Some(file) = self.open_file(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let path = self.path.join(name);
        // Counted while it is read: it may grow.
        file.take(most_bytes.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|source| DirError::system(&path, source))?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length <= most_bytes) {
            Ok(Some(bytes))
        } else {
            Err(DirError::not(&path, DirObstacle::Larger(most_bytes)))
        }
    }

    /// Writes a file whole, in place of what has its name; it is there after a loss of power.
    ///
    /// # Errors
    /// When it cannot be written, synced or renamed; what was there before is then still there.
    pub fn write(&self, name: &str, bytes: &[u8], mode: u32) -> Result<(), DirError> {
        let draft = format!("{}.part", single(name, &self.path)?);
        // One that was left is not written through: it may be a link.
        self.remove(&draft)?;
        let written = self.create_new(&draft, mode).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()?;
            Ok(rustix::fs::renameat(&self.folder, draft.as_str(), &self.folder, name)?)
        });
        if let Err(source) = written {
            // What cannot be removed either is removed by the next attempt.
            let _ = self.remove(&draft);
            return Err(DirError::system(&self.path.join(name), source));
        }
        self.sync()
    }

    fn create_new(&self, name: &str, mode: u32) -> io::Result<File> {
        let flags = CAREFUL | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let opened = rustix::fs::openat(&self.folder, name, flags, Mode::from_raw_mode(mode))?;
        Ok(File::from(opened))
    }

    /// Opens a file that grows by whole lines, and makes it where it is missing. It must have no
    /// other name, because it is written in place.
    ///
    /// # Errors
    /// As [`DirError`] says.
    pub fn open_log(&self, name: &str) -> Result<LogFile, DirError> {
        let file = self.open_regular(name, OFlags::RDWR | OFlags::CREATE)?;
        let path = self.path.join(name);
        let found = rustix::fs::fstat(&file).map_err(|e| DirError::system(&path, e.into()))?;
        if found.st_nlink > 1 {
            return Err(DirError::not(&path, DirObstacle::SeveralNames));
        }
        // Its name must survive a loss of power as the lines in it do; whoever made it may have
        // been killed before this.
        self.sync()?;
        LogFile::at_end(file, path)
    }

    /// Locks a file here, made where it is missing, until the value is dropped; `None` where
    /// another process has locked it.
    ///
    /// # Errors
    /// As [`DirError`] says.
    pub fn lock(&self, name: &str) -> Result<Option<File>, DirError> {
        let file = self.open_regular(single(name, &self.path)?, OFlags::WRONLY | OFlags::CREATE)?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(DirError::system(&self.path.join(name), errno.into())),
        }
    }

    /// Removes a file or a link; it is no error where there is none.
    ///
    /// # Errors
    /// When it cannot be removed, as a folder.
    pub fn remove(&self, name: &str) -> Result<(), DirError> {
        self.unlink(name, AtFlags::empty())
    }

    /// Removes an empty folder; it is no error where there is none.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove_dir(&self, name: &str) -> Result<(), DirError> {
        self.unlink(name, AtFlags::REMOVEDIR)
    }

    fn unlink(&self, name: &str, flags: AtFlags) -> Result<(), DirError> {
        match rustix::fs::unlinkat(&self.folder, single(name, &self.path)?, flags) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(DirError::system(&self.path.join(name), errno.into())),
        }
    }

    /// Makes what was created, renamed or removed here survive a loss of power.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn sync(&self) -> Result<(), DirError> {
        self.folder.sync_all().map_err(|source| DirError::system(&self.path, source))
    }

    fn open_regular(&self, name: &str, flags: OFlags) -> Result<File, DirError> {
        let path = self.path.join(single(name, &self.path)?);
        let mode = Mode::from_raw_mode(0o666);
        let file = match rustix::fs::openat(&self.folder, name, CAREFUL | flags, mode) {
            Ok(file) => File::from(file),
            // Of a pipe that nobody reads, a socket, a folder that is to be written.
            Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => {
                return Err(DirError::not(&path, DirObstacle::NotAFile));
            }
            Err(errno) => return Err(DirError::system(&path, errno.into())),
        };
        let found = rustix::fs::fstat(&file).map_err(|e| DirError::system(&path, e.into()))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(DirError::not(&path, DirObstacle::NotAFile));
        }
        Ok(file)
    }
}

/// The name, if it cannot lead out of the folder.
fn single<'a>(name: &'a str, folder: &Path) -> Result<&'a str, DirError> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(DirError::not(&folder.join(name), DirObstacle::NotAName));
    }
    Ok(name)
}

#[cfg(test)]
mod tests;
