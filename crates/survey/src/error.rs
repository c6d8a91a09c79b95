//! Why a survey cannot be read or written, and why something cannot be added to it.

use std::path::{Path, PathBuf};

use flashfit_host::free_space;
use flashfit_host::input_file::InputFileError;
use flashfit_run_format::run_dir::RunDirError;
use flashfit_user_error::{ExitClass, Hint, UserError};
use rusqlite::ErrorCode;

/// An error of the database.
#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    #[error("there is no survey at {}", path.display())]
    Missing { path: PathBuf },
    #[error("{} is not a SQLite database", path.display())]
    NotADatabase { path: PathBuf },
    /// A database of another program, or one whose tables were changed.
    #[error("{} is not a survey: {reason}", path.display())]
    Foreign { path: PathBuf, reason: String },
    #[error(
        "{} was written by a newer version of flashfit: its tables have version {found}, this one \
         knows {known}",
        path.display()
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("{} is damaged: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("another program writes to {} for too long", path.display())]
    Busy { path: PathBuf },
    #[error("cannot write to {}: the disk is full", path.display())]
    Full { path: PathBuf },
    #[error("cannot write to {}: it is read-only", path.display())]
    ReadOnly { path: PathBuf },
    #[error("cannot read or write {}: {reason}", path.display())]
    Failed { path: PathBuf, reason: String },
    #[error("cannot open {}: {reason}", path.display())]
    Unreachable { path: PathBuf, reason: String },
    #[error("no card of the survey has a key that begins with `{text}`")]
    UnknownCard { text: String },
    #[error("`{text}` is the beginning of the keys of {count} cards")]
    AmbiguousCard { text: String, count: usize },
    #[error("the card has the name `{before}`; it cannot have the name `{now}` too")]
    OtherName { before: String, now: String },
    #[error("it is there as a source of {before}; it cannot be of another card too")]
    OtherCard { before: String },
    #[error("`{text}`: {reason}")]
    Filter {
        text: String,
        reason: String,
        /// Conditions that are valid.
        hint: Option<String>,
    },
}

impl SurveyError {
    /// What an error of SQLite means for the database at `path`.
    pub(crate) fn of(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        let reason = error.to_string();
        // A file of the log that cannot grow is an I/O error for SQLite.
        let is_full = || free_space::is_full(&path) || path.parent().is_some_and(is_full_folder);
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::NotADatabase { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::SystemIoFailure) if is_full() => Self::Full { path },
            Some(ErrorCode::ReadOnly) => Self::ReadOnly { path },
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Self::Unreachable { path, reason }
            }
            Some(ErrorCode::SystemIoFailure | ErrorCode::FileLockingProtocolFailed) => {
                Self::Failed { path, reason }
            }
            _ => Self::Damaged { path, reason },
        }
    }
}

/// Whether the disk of a folder, which may have no name, is full.
fn is_full_folder(folder: &Path) -> bool {
    let is_here = folder.as_os_str().is_empty();
    free_space::is_full(if is_here { Path::new(".") } else { folder })
}

impl UserError for SurveyError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Missing { .. }
            | Self::NotADatabase { .. }
            | Self::Foreign { .. }
            | Self::Newer { .. }
            | Self::UnknownCard { .. }
            | Self::AmbiguousCard { .. }
            | Self::OtherName { .. }
            | Self::OtherCard { .. }
            | Self::Filter { .. } => ExitClass::Usage,
            Self::Busy { .. }
            | Self::Full { .. }
            | Self::ReadOnly { .. }
            | Self::Unreachable { .. } => ExitClass::Environment,
            Self::Damaged { .. } | Self::Failed { .. } => ExitClass::Io,
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::Newer { .. } => "use that version of flashfit; nothing was changed".into(),
            Self::Full { .. } => "make room and add the same again: what is there stays".into(),
            Self::Failed { .. } => "a survey must be on a local disk that works".into(),
            Self::Busy { .. } => "wait until it is done and try again".into(),
            Self::AmbiguousCard { .. } => "give more of the key".into(),
            Self::Filter { hint: Some(hint), .. } => hint.clone().into(),
            Self::Damaged { .. } => {
                "look at it with: sqlite3 FILE 'PRAGMA integrity_check'; or add the sources to a \
                 new file"
                    .into()
            }
            _ => return None,
        })
    }
}

/// Why something cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum SurveyInputError {
    #[error(transparent)]
    File(#[from] InputFileError),
    #[error(transparent)]
    Run(#[from] RunDirError),
    #[error("{}: {reason}", path.display())]
    Unusable { path: PathBuf, reason: String },
}

impl SurveyInputError {
    pub(crate) fn unusable(path: &Path, reason: impl Into<String>) -> Self {
        Self::Unusable { path: path.to_owned(), reason: reason.into() }
    }
}

impl UserError for SurveyInputError {
    fn class(&self) -> ExitClass {
        match self {
            Self::File(error) => error.class(),
            Self::Run(error) => error.class(),
            Self::Unusable { .. } => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::File(error) => error.hint(),
            Self::Run(error) => error.hint(),
            Self::Unusable { .. } => None,
        }
    }
}
