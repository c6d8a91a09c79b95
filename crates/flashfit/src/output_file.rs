//! Files that the user asks for: `--output`, `--svg`, `--twin`.
//!
//! Only a new file is written, or one that flashfit wrote before, which its content shows; anything
//! else only with `--force`. A file is written next to its place and renamed, so that a full disk
//! leaves what was there. Links are not followed, and devices, FIFOs and directories are never
//! written to. Limit: a process that may rename in the same folder can still exchange the file in
//! the instant between the last look and the renaming; its file is then replaced, not written to.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use flashfit_host::input_file::describe_type;
use flashfit_user_error::ExitClass;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use crate::command_error::CommandError;

/// What is written; a file of one kind does not replace one of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputKind {
    /// The report of a run.
    Report,
    /// The evidence of a probe.
    Drawing,
    /// A card model that was fitted.
    CardModel,
    /// The document of a probe.
    Geometry,
    /// A plan.
    Plan,
}

impl OutputKind {
    fn name(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Drawing => "drawing",
            Self::CardModel => "card model",
            Self::Geometry => "probe document",
            Self::Plan => "plan",
        }
    }

    /// Whether the beginning of a file shows that flashfit wrote it. The earlier marks are those of
    /// version 0.1.
    fn is_in(self, head: &str) -> bool {
        let json = |schema: &str| {
            head.starts_with('{') && head.contains(&format!("\"schema\": \"flashfit.{schema}\""))
        };
        match self {
            Self::Report => {
                head.starts_with("<!DOCTYPE html>")
                    && (head.contains("name=\"generator\" content=\"flashfit")
                        || head.contains(" - flashfit</title>"))
            }
            Self::Drawing => {
                head.starts_with("<svg ") && head.contains("class=\"flashfit-drawing\"")
            }
            Self::CardModel => head.starts_with("# ") && head.contains("fitted by flashfit."),
            Self::Geometry => json("probe"),
            Self::Plan => json("plan"),
        }
    }
}

/// Marks are within so many bytes of the beginning.
const HEAD_BYTES: u64 = 4096;

/// A file that may be written.
#[derive(Debug)]
pub struct OutputFile<'a> {
    path: &'a Path,
    kind: OutputKind,
    force: bool,
}

impl<'a> OutputFile<'a> {
    /// Refuses a file that is not to be written; for before the work whose result goes there.
    pub fn check(path: &'a Path, kind: OutputKind, force: bool) -> Result<Self, CommandError> {
        let output = Self { path, kind, force };
        let folder = output.folder()?;
        output.look(&folder)?;
        Ok(output)
    }

    /// Writes it, whole or not at all.
    pub fn write(&self, text: &str) -> Result<(), CommandError> {
        let folder = self.folder()?;
        // What is there may be another file by now.
        let before = self.look(&folder)?;
        self.replace(&folder, before.as_ref(), text).map_err(|error| self.cannot_write(&error))
    }

    fn name(&self) -> Result<&OsStr, CommandError> {
        self.path.file_name().ok_or_else(|| {
            let message = format!("cannot write {}: it is not a file name", self.path.display());
            CommandError::new(ExitClass::Usage, message, Some("name a file"))
        })
    }

    fn folder(&self) -> Result<File, CommandError> {
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
            let message = format!("cannot write {}: {reason}", self.path.display());
            CommandError::new(
                ExitClass::Usage,
                message,
                Some("name a file in a directory that exists"),
            )
        })
    }

    /// What is at the path, where it may be replaced.
    fn look(&self, folder: &File) -> Result<Option<Stat>, CommandError> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let found = match rustix::fs::statat(folder, self.name()?, flags) {
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(self.cannot_write(&error.into())),
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
        let shown = self.path.display();
        if let Some(what) = what {
            let message = format!("cannot write {shown}: it is {what}, not a regular file");
            return Err(CommandError::new(ExitClass::Refused, message, Some("name another file")));
        }
        if !self.force && !self.is_ours(folder, &found) {
            let message = format!(
                "{shown} exists, and is not a {} that flashfit wrote; it was not changed",
                self.kind.name()
            );
            let hint = "name another file, or replace this one with --force";
            return Err(CommandError::new(ExitClass::Refused, message, Some(hint)));
        }
        Ok(Some(found))
    }

    /// An empty file holds nothing that could be lost: `mktemp` makes such.
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
        read.is_ok() && self.kind.is_in(&String::from_utf8_lossy(&head))
    }

    fn replace(&self, folder: &File, before: Option<&Stat>, text: &str) -> io::Result<()> {
        let name = self.path.file_name().unwrap_or_default();
        let draft = format!(".flashfit-{}.part", std::process::id());
        // One that a killed process of the same number left; a link is removed, not followed.
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

    fn cannot_write(&self, error: &io::Error) -> CommandError {
        let shown = self.path.display();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => CommandError::new(
                ExitClass::Environment,
                format!("no space left for {shown}"),
                Some("make room, or name a file elsewhere; the run and its trials are kept"),
            ),
            io::ErrorKind::AlreadyExists => CommandError::new(
                ExitClass::Refused,
                format!("cannot write {shown}: another file was put there meanwhile"),
                Some("name another file"),
            ),
            _ => CommandError::new(
                ExitClass::Environment,
                format!("cannot write {shown}: {error}"),
                Some("name another file"),
            ),
        }
    }
}

/// Renames the draft: to a new name, or over the file that was looked at.
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

    fn plan(path: &Path, force: bool, text: &str) -> Result<(), CommandError> {
        OutputFile::check(path, OutputKind::Plan, force)?.write(text)
    }

    const PLAN: &str = "{\n  \"schema\": \"flashfit.plan\",\n";

    #[test]
    fn only_new_files_and_ones_of_the_same_kind_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        plan(&path, false, PLAN).unwrap();
        plan(&path, false, &format!("{PLAN}again")).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{PLAN}again"));
        for theirs in ["their data", "{\n  \"schema\": \"flashfit.run\",\n", "<!DOCTYPE html>\n"] {
            std::fs::write(&path, theirs).unwrap();
            let refused = plan(&path, false, PLAN).unwrap_err();
            assert_eq!(refused.class(), ExitClass::Refused, "{theirs}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), theirs);
        }
        plan(&path, true, PLAN).unwrap();
        std::fs::write(&path, "").unwrap();
        plan(&path, false, PLAN).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a draft is left");
    }

    #[test]
    fn nothing_but_a_regular_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (theirs, link) = (folder.path().join("theirs"), folder.path().join("link"));
        std::fs::write(&theirs, PLAN).unwrap();
        std::os::unix::fs::symlink(&theirs, &link).unwrap();
        for path in [&link, folder.path(), Path::new("/dev/null")] {
            for force in [false, true] {
                let refused = plan(path, force, "{}").unwrap_err();
                assert_eq!(refused.class(), ExitClass::Refused, "{}", refused.message());
            }
        }
        assert_eq!(std::fs::read_to_string(&theirs).unwrap(), PLAN);
        let nowhere = plan(&folder.path().join("none/file"), false, "{}").unwrap_err();
        assert_eq!(nowhere.class(), ExitClass::Usage);
    }

    #[test]
    fn what_was_put_there_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let output = OutputFile::check(&path, OutputKind::Plan, false).unwrap();
        std::fs::write(&path, "theirs").unwrap();
        assert!(output.write(PLAN).is_err());
        let opened = output.folder().unwrap();
        assert!(output.replace(&opened, None, PLAN).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a draft is left");
    }
}
