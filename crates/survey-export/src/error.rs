//! Errors of an export.

use std::io;
use std::path::PathBuf;

use flashfit_user_error::{ExitClass, Hint, UserError};

#[derive(Debug, thiserror::Error)]
pub enum SurveyExportError {
    #[error("{} exists", path.display())]
    Exists { path: PathBuf },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl UserError for SurveyExportError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Exists { .. } => ExitClass::Refused,
            Self::Write { .. } => ExitClass::Environment,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Exists { .. } => {
                Some("name a directory that does not exist, or remove this one".into())
            }
            Self::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free space there, or name a directory on another disk".into())
            }
            Self::Write { .. } => None,
        }
    }
}
