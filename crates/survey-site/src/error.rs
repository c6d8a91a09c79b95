//! Errors of a site.

use std::io;
use std::path::Path;

use flashfit_host::new_folder::NewFolderError;
use flashfit_user_error::{ExitClass, Hint, UserError};

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SurveySiteError(#[from] NewFolderError);

impl SurveySiteError {
    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        Self(NewFolderError::write(path, source))
    }
}

impl UserError for SurveySiteError {
    fn class(&self) -> ExitClass {
        self.0.class()
    }

    fn hint(&self) -> Option<Hint> {
        self.0.hint()
    }
}
