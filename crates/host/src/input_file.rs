//! Reads files named by the user, without blocking and with a size limit.
//!
//! Only regular files are read: opening a FIFO would block, and a device such as `/dev/zero` has no
//! end. The size limit keeps a disk image given by mistake from filling the memory. Files in
//! `/proc` and `/sys` report size 0, so the limit applies to the bytes that are read.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::program::quote_path;

/// Limit for documents written by flashfit: geometry, plans, run records.
pub const DOCUMENT_BYTES: u64 = 64 << 20;
/// Limit for files written by people: configuration, catalog entries, card models, job files.
pub const TEXT_BYTES: u64 = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub enum InputFileError {
    #[error("cannot read {}: {}", path.display(), reason(source))]
    Read { path: PathBuf, source: io::Error },
    /// A FIFO, a device, a socket or a directory.
    #[error("cannot read {}: it is {found}, not a regular file", path.display())]
    NotRegular {
        path: PathBuf,
        /// Its kind, with an article.
        found: &'static str,
    },
    #[error("cannot read {}: it is larger than {}", path.display(), mebibytes(*limit))]
    TooLarge {
        path: PathBuf,
        /// In bytes.
        limit: u64,
    },
}

impl InputFileError {
    /// Converts into an I/O error, for callers that report the path themselves.
    pub fn into_io(self) -> io::Error {
        match self {
            Self::Read { source, .. } if source.kind() == io::ErrorKind::InvalidData => {
                io::Error::new(source.kind(), reason(&source))
            }
            Self::Read { source, .. } => source,
            Self::NotRegular { found, .. } => io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("it is {found}, not a regular file"),
            ),
            Self::TooLarge { limit, .. } => io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("it is larger than {}", mebibytes(limit)),
            ),
        }
    }
}

impl UserError for InputFileError {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Read { path, source } => read_hint(path, source),
            Self::NotRegular { path, .. } if path.is_dir() => Some(folder_hint(path)),
            Self::NotRegular { .. } => {
                Some("copy its content to a regular file and name that file".into())
            }
            Self::TooLarge { path, .. } => Some(type_hint(path)),
        }
    }
}

/// What shows why a file or directory cannot be read.
pub fn read_hint(path: &Path, error: &io::Error) -> Option<Hint> {
    match error.kind() {
        io::ErrorKind::NotFound => {
            let parents = path.ancestors().skip(1);
            let named = parents.map(|folder| match folder.as_os_str().is_empty() {
                true => Path::new("."),
                false => folder,
            });
            let existing = named.into_iter().find(|folder| folder.is_dir())?;
            Some(format!("see what is there: ls {}", quote_path(existing)).into())
        }
        io::ErrorKind::PermissionDenied => {
            Some(format!("see its permissions: namei -l {}", quote_path(path)).into())
        }
        io::ErrorKind::NotADirectory => {
            Some(format!("see what it is: namei -l {}", quote_path(path)).into())
        }
        // `into_io` makes the former of what is not a regular file, or too large.
        io::ErrorKind::InvalidInput if path.is_dir() => Some(folder_hint(path)),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => Some(type_hint(path)),
        _ => None,
    }
}

fn folder_hint(path: &Path) -> Hint {
    format!("name a file in it: ls {}", quote_path(path)).into()
}

fn type_hint(path: &Path) -> Hint {
    format!("check its type: file {}", quote_path(path)).into()
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB, the limit for such a file", bytes >> 20)
}

/// Opens a regular file for reading without blocking.
///
/// # Errors
/// [`InputFileError::Read`] or [`InputFileError::NotRegular`].
pub fn open(path: &Path) -> Result<File, InputFileError> {
    let failed = |source| InputFileError::Read { path: path.to_owned(), source };
    let not_regular =
        |kind| InputFileError::NotRegular { path: path.to_owned(), found: describe_type(kind) };
    // Checked before opening, because opening some devices has side effects (a tape rewinds).
    let kind = std::fs::metadata(path).map_err(failed)?.file_type();
    if !kind.is_file() {
        return Err(not_regular(kind));
    }
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    // Checked again, because the file may have been replaced in between.
    let kind = file.metadata().map_err(failed)?.file_type();
    if kind.is_file() { Ok(file) } else { Err(not_regular(kind)) }
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// See [`InputFileError`].
pub fn read_capped(path: &Path, limit: u64) -> Result<Vec<u8>, InputFileError> {
    let failed = |source| InputFileError::Read { path: path.to_owned(), source };
    let too_large = || InputFileError::TooLarge { path: path.to_owned(), limit };
    let file = open(path)?;
    let size = file.metadata().map_err(failed)?.len();
    if size > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limit { Err(too_large()) } else { Ok(bytes) }
}

/// Reads a regular file of UTF-8 text of at most `limit` bytes.
///
/// # Errors
/// See [`InputFileError`].
pub fn read_text(path: &Path, limit: u64) -> Result<String, InputFileError> {
    String::from_utf8(read_capped(path, limit)?).map_err(|error| InputFileError::Read {
        path: path.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()),
    })
}

/// The kind of a file, with an article.
pub fn describe_type(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_block_device() {
        "a block device"
    } else if kind.is_char_device() {
        "a character device"
    } else if kind.is_symlink() {
        "a symbolic link"
    } else {
        "a regular file"
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn special_files_are_rejected_without_blocking() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&fifo, &link).unwrap();
        let start = Instant::now();
        for (path, found) in [
            (fifo.as_path(), "a FIFO"),
            (&link, "a FIFO"),
            (folder.path(), "a directory"),
            (Path::new("/dev/zero"), "a character device"),
        ] {
            let error = read_capped(path, 10).unwrap_err();
            assert!(error.to_string().contains(&format!("it is {found}, not")), "{error}");
            assert_eq!(error.class(), ExitClass::Usage);
        }
        assert!(start.elapsed().as_secs() < 5);
    }

    #[test]
    fn a_hint_shows_why_a_file_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("latin 1"), [0xff]).unwrap();
        let hint = |path: &Path| {
            let hint = read_text(path, 5).unwrap_err().hint().unwrap();
            hint.text().unwrap().replace(folder.path().to_str().unwrap(), "DIR")
        };
        assert_eq!(hint(&at("missing/x")), "see what is there: ls DIR");
        assert_eq!(hint(Path::new("missing-file")), "see what is there: ls .");
        assert_eq!(hint(&at("latin 1")), "check its type: file 'DIR/latin 1'");
        assert_eq!(hint(&at("latin 1").join("x")), "see what it is: namei -l 'DIR/latin 1/x'");
        assert_eq!(hint(folder.path()), "name a file in it: ls DIR");
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let hint = read_hint(Path::new("/root/x"), &denied).unwrap();
        assert_eq!(hint.text(), Some("see its permissions: namei -l /root/x"));
    }

    #[test]
    fn the_size_limit_applies_to_the_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_text(&path, 5).unwrap(), "12345");
        assert!(matches!(read_capped(&path, 4), Err(InputFileError::TooLarge { .. })));
        File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read_capped(&path, TEXT_BYTES).unwrap_err();
        assert!(error.to_string().contains("larger than 4 MiB"), "{error}");
        std::fs::write(&path, [0xff]).unwrap();
        assert!(read_text(&path, 5).unwrap_err().to_string().contains("not UTF-8"));
        assert!(!read_text(Path::new("/proc/self/status"), 1 << 20).unwrap().is_empty());
    }
}
