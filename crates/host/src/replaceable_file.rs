//! Writes a file that a user named, and replaces only what the caller recognizes as its own.
//!
//! A file is written next to its place and renamed, so that a full disk leaves the old one. Links
//! are not followed, and devices, FIFOs and directories are never written to. Limit: a process that
//! may rename files in the same directory can exchange the file in the instant between the last
//! check and the renaming; its file is then replaced, not written to.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flashfit_user_error::{ExitClass, Hint, UserError};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use crate::input_file::describe_type;

/// How much of a file is shown to the caller, to recognize it.
const HEAD_BYTES: u64 = 4096;

#[derive(Debug, thiserror::Error)]
pub enum ReplaceableFileError {
    #[error("cannot write {}: it is not a file name", path.display())]
    NoName { path: PathBuf },
    /// The directory cannot be used.
    #[error("cannot write {}: {reason}", path.display())]
    Folder { path: PathBuf, reason: String },
    #[error("cannot write {}: it is {what}, not a regular file", path.display())]
    NotRegular { path: PathBuf, what: &'static str },
    /// The caller does not recognize it.
    #[error("{} exists and was not written by flashfit; it was not changed", path.display())]
    Foreign { path: PathBuf },
    #[error("no space left for {}", path.display())]
    Full { path: PathBuf },
    #[error("cannot write {}: another file was put there meanwhile", path.display())]
    Replaced { path: PathBuf },
    #[error("cannot write {}: {source}", path.display())]
    System { path: PathBuf, source: io::Error },
}

impl UserError for ReplaceableFileError {
    fn class(&self) -> ExitClass {
        match self {
            Self::NoName { .. } | Self::Folder { .. } => ExitClass::Usage,
            Self::NotRegular { .. } | Self::Foreign { .. } | Self::Replaced { .. } => {
                ExitClass::Refused
            }
            Self::Full { .. } | Self::System { .. } => ExitClass::Environment,
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NoName { .. } => "name a file".into(),
            Self::Folder { .. } => "name a file in a directory that exists".into(),
            Self::Full { .. } => "make room, or name a file elsewhere".into(),
            _ => "name another file".into(),
        })
    }
}

/// A file that may be written.
#[derive(Clone, Copy)]
pub struct ReplaceableFile<'a> {
    path: &'a Path,
    /// Whether the beginning of a file shows that it may be replaced.
    is_own: &'a dyn Fn(&str) -> bool,
    /// Replaces any regular file.
    force: bool,
}

impl<'a> ReplaceableFile<'a> {
    /// Refuses a file that must not be written. Called before the work whose result goes there.
    ///
    /// # Errors
    /// As [`ReplaceableFileError`], except for a full disk.
    pub fn check(
        path: &'a Path,
        is_own: &'a dyn Fn(&str) -> bool,
        force: bool,
    ) -> Result<Self, ReplaceableFileError> {
        let output = Self { path, is_own, force };
        let folder = output.folder()?;
        output.look(&folder)?;
        Ok(output)
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// As [`ReplaceableFileError`].
    pub fn write(&self, text: &str) -> Result<(), ReplaceableFileError> {
        let folder = self.folder()?;
        // It may be another file by now.
        let before = self.look(&folder)?;
        self.replace(&folder, before.as_ref(), text).map_err(|error| self.cannot_write(error))
    }

    fn name(&self) -> Result<&OsStr, ReplaceableFileError> {
        self.path
            .file_name()
            .ok_or_else(|| ReplaceableFileError::NoName { path: self.path.to_owned() })
    }

    fn folder(&self) -> Result<File, ReplaceableFileError> {
        self.name()?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(folder, flags, Mode::empty()).map(File::from).map_err(|error| {
            let reason = match error {
                Errno::NOENT => format!("there is no directory {}", folder.display()),
                Errno::NOTDIR => format!("{} is not a directory", folder.display()),
                other => format!("{}: {}", folder.display(), io::Error::from(other)),
            };
            ReplaceableFileError::Folder { path: self.path.to_owned(), reason }
        })
    }

    /// The file at the path, if it may be replaced; `None` if there is none.
    fn look(&self, folder: &File) -> Result<Option<Stat>, ReplaceableFileError> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let found = match rustix::fs::statat(folder, self.name()?, flags) {
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(self.cannot_write(error.into())),
            Ok(found) => found,
        };
        let what = match rustix::fs::FileType::from_raw_mode(found.st_mode) {
            rustix::fs::FileType::RegularFile => None,
            rustix::fs::FileType::Symlink => Some("a symbolic link"),
            _ => Some(
                std::fs::metadata(self.path)
                    .map_or("not a file", |it| describe_type(it.file_type())),
            ),
        };
        let path = self.path.to_owned();
        match what {
            Some(what) => Err(ReplaceableFileError::NotRegular { path, what }),
            None if self.force || self.is_ours(folder, &found) => Ok(Some(found)),
            None => Err(ReplaceableFileError::Foreign { path }),
        }
    }

    /// An empty file has nothing to lose; `mktemp` makes one.
    fn is_ours(&self, folder: &File, found: &Stat) -> bool {
        if found.st_size == 0 {
            return true;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Some(name) = self.path.file_name() else { return false };
        let Ok(file) = rustix::fs::openat(folder, name, flags, Mode::empty()) else { return false };
        if !rustix::fs::fstat(&file).is_ok_and(|open| same(&open, found)) {
            return false;
        }
        let mut head = Vec::new();
        let read = File::from(file).take(HEAD_BYTES).read_to_end(&mut head);
        read.is_ok() && (self.is_own)(&String::from_utf8_lossy(&head))
    }

    fn replace(&self, folder: &File, before: Option<&Stat>, text: &str) -> io::Result<()> {
        let name = self.path.file_name().unwrap_or_default();
        let draft = format!(".flashfit-{}.part", std::process::id());
        // Left by a killed process with the same number; a link is removed, not followed.
        let _ = rustix::fs::unlinkat(folder, &draft, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = before.map_or(0o666, |before| before.st_mode & 0o777);
        let mut file =
            File::from(rustix::fs::openat(folder, &draft, flags, Mode::from_raw_mode(mode))?);
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        let renamed = written.and_then(|()| put(folder, &draft, name, before));
        if let Err(error) = renamed {
            // The error to report is the first.
            let _ = rustix::fs::unlinkat(folder, &draft, AtFlags::empty());
            return Err(error);
        }
        folder.sync_all()
    }

    fn cannot_write(&self, source: io::Error) -> ReplaceableFileError {
        let path = self.path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                ReplaceableFileError::Full { path }
            }
            io::ErrorKind::AlreadyExists => ReplaceableFileError::Replaced { path },
            _ => ReplaceableFileError::System { path, source },
        }
    }
}

/// Renames the draft: to a new name, or over the file that was checked.
fn put(folder: &File, draft: &str, name: &OsStr, before: Option<&Stat>) -> io::Result<()> {
    let now = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    match (before, now) {
        (Some(before), Ok(now)) if same(before, &now) => {
            Ok(rustix::fs::renameat(folder, draft, folder, name)?)
        }
        (_, Ok(_)) => Err(io::ErrorKind::AlreadyExists.into()),
        (_, Err(Errno::NOENT)) => {
            let flags = RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(folder, draft, folder, name, flags) {
                // Not every file system can do it.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    Ok(rustix::fs::renameat(folder, draft, folder, name)?)
                }
                other => Ok(other?),
            }
        }
        (_, Err(error)) => Err(error.into()),
    }
}

fn same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "own: first line\n";

    fn is_own(head: &str) -> bool {
        head.starts_with("own: ")
    }

    fn write(path: &Path, force: bool, text: &str) -> Result<(), ReplaceableFileError> {
        ReplaceableFile::check(path, &is_own, force)?.write(text)
    }

    #[test]
    fn only_new_and_own_files_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path, false, OWN).unwrap();
        write(&path, false, &format!("{OWN}again")).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{OWN}again"));
        for theirs in ["their data", "not own: but theirs\n"] {
            std::fs::write(&path, theirs).unwrap();
            let refused = write(&path, false, OWN).unwrap_err();
            assert_eq!(refused.class(), ExitClass::Refused, "{theirs}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), theirs);
        }
        write(&path, true, OWN).unwrap();
        std::fs::write(&path, "").unwrap();
        write(&path, false, OWN).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a draft is left");
    }

    #[test]
    fn nothing_but_a_regular_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (theirs, link) = (folder.path().join("theirs"), folder.path().join("link"));
        std::fs::write(&theirs, OWN).unwrap();
        std::os::unix::fs::symlink(&theirs, &link).unwrap();
        for path in [&link, folder.path(), Path::new("/dev/null")] {
            for force in [false, true] {
                let refused = write(path, force, "{}").unwrap_err();
                assert_eq!(refused.class(), ExitClass::Refused, "{}", refused);
            }
        }
        assert_eq!(std::fs::read_to_string(&theirs).unwrap(), OWN);
        let nowhere = write(&folder.path().join("none/file"), false, "{}").unwrap_err();
        assert_eq!(nowhere.class(), ExitClass::Usage);
    }

    #[test]
    fn what_was_put_there_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let output = ReplaceableFile::check(&path, &is_own, false).unwrap();
        std::fs::write(&path, "theirs").unwrap();
        assert!(output.write(OWN).is_err());
        let opened = output.folder().unwrap();
        assert!(output.replace(&opened, None, OWN).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a draft is left");
    }
}
