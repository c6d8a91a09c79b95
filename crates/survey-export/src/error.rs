//! Errors of an export.

use std::io;
use std::path::PathBuf;

use flashfit_host::new_folder::NewFolderError;
use flashfit_user_error::{ExitClass, Hint, UserError};

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SurveyExportError(#[from] NewFolderError);

impl SurveyExportError {
    pub(crate) fn write(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self(NewFolderError::Write { path: path.into(), source })
    }
}

impl UserError for SurveyExportError {
    fn class(&self) -> ExitClass {
        self.0.class()
    }

    fn hint(&self) -> Option<Hint> {
        self.0.hint()
    }
}
