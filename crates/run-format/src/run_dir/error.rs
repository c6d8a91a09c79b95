//! Why a run directory cannot be used.

use std::path::PathBuf;

use flashfit_host::dir::DirError;
use flashfit_host::program::quote_path;
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::spec::SCHEMA_VERSION;

/// Why a run directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// There is a run already.
    #[error("{} already contains a run", path.display())]
    Exists { path: PathBuf },
    /// Something that a run would overwrite is there.
    #[error("{} contains {file}, which a run would overwrite", path.display())]
    Occupied {
        path: PathBuf,
        /// The file or folder in it.
        file: &'static str,
    },
    #[error("{} does not contain a run", path.display())]
    NoRun { path: PathBuf },
    /// Another flashfit is at work in it.
    #[error("another flashfit process uses {}", path.display())]
    Locked {
        path: PathBuf,
        /// Its process, if the kernel lists it.
        holder: Option<u32>,
    },
    /// Written by another version of flashfit.
    #[error("{} is a run of format {found}; this version of flashfit reads format {SCHEMA_VERSION}", path.display())]
    OtherVersion {
        path: PathBuf,
        /// The version it has.
        found: u32,
    },
    /// A file is not valid JSON.
    #[error("{}:{line}: damaged: {reason}", path.display())]
    Damaged {
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        reason: String,
    },
    /// Valid JSON, but not what this version of flashfit reads.
    #[error("{}:{line}: {reason}", path.display())]
    NotUnderstood {
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Which key is the problem, and why.
        reason: String,
    },
    /// A line that repeats an earlier one byte by byte.
    #[error("{}:{line}: the same trial as line {first}", path.display())]
    Copied {
        path: PathBuf,
        /// The lines, from 1.
        line: usize,
        first: usize,
    },
    /// Another trial with the key of an earlier one.
    #[error("{}:{line}: the same `key` as line {first}", path.display())]
    SameKey {
        path: PathBuf,
        /// The lines, from 1.
        line: usize,
        first: usize,
    },
    /// The directory or a file in it cannot be used.
    #[error(transparent)]
    Dir(#[from] DirError),
}

impl UserError for RunDirError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Dir(error) => error.class(),
            _ => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Exists { .. } | Self::Occupied { .. } | Self::NoRun { .. } => None,
            Self::Locked { holder: Some(pid), .. } => {
                Some(format!("wait until process {pid} ends, or run kill {pid}").into())
            }
            Self::Locked { .. } => Some("wait until it ends, or end it".into()),
            Self::OtherVersion { .. } => Some("use the version of flashfit that wrote it".into()),
            Self::Damaged { path, .. } if path.ends_with("run.json") => {
                Some("restore run.json from a copy, or start a new run".into())
            }
            Self::Damaged { path, line, .. } => {
                let path = quote_path(path);
                Some(format!("look at it, then remove it: sed -i {line}d {path}").into())
            }
            Self::Copied { path, line, .. } => {
                Some(format!("remove the copy: sed -i {line}d {}", quote_path(path)).into())
            }
            Self::SameKey { .. } => Some(
                "if both were measured, give one another `repeat`, as docs/run-format.md \
                 describes; otherwise remove the wrong one"
                    .into(),
            ),
            Self::NotUnderstood { .. } => Some(
                "if a newer version of flashfit wrote it, use that version; otherwise correct \
                 this value as docs/run-format.md describes"
                    .into(),
            ),
            Self::Dir(DirError::Full { .. }) => None,
            Self::Dir(error) => error.hint(),
        }
    }
}
