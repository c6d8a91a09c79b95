//! Errors of a trial: a setup that fails, or an error that ends the run.

use std::path::Path;

use flashfit_device::Refusal;
use flashfit_host::{ProgramError, free_space};
use flashfit_user_error::{ExitClass, Hint, Task, UserError};

use crate::TrialReport;
use crate::writable_device::WritableBlockDeviceError;

pub(crate) fn make_room_hint() -> Hint {
    Hint::from("make room, then: ").and(Task::Resume)
}

#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// This setup does not work; the run continues with others.
    #[error("{message}")]
    Setup {
        message: String,
        /// What was measured before the failure.
        report: Box<TrialReport>,
    },
    /// The device returned errors or disappeared.
    #[error("the device {what}")]
    Device { what: String },
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The user has not confirmed yet; nothing else prevents the write.
    #[error("{message}")]
    NotAgreed {
        /// Names the data that would be lost.
        message: String,
        hint: Option<Hint>,
    },
    #[error(transparent)]
    Backing(#[from] WritableBlockDeviceError),
    /// The machine lacks something, or the user interrupted the run.
    #[error("{message}")]
    Stopped { message: String, class: ExitClass, hint: Option<Hint> },
}

impl TrialError {
    /// The error for a full disk under a sparse image, whose I/O errors are then not the device's.
    /// `None` if the disk has free space.
    pub fn disk_full_under(image: &Path) -> Option<Self> {
        free_space::is_full(image).then(|| Self::Stopped {
            message: format!(
                "no space left on the disk under the image {}, which grows as it is written",
                image.display()
            ),
            class: ExitClass::Environment,
            hint: Some(make_room_hint()),
        })
    }

    pub fn stopped(error: &dyn UserError) -> Self {
        Self::Stopped { message: error.to_string(), class: error.class(), hint: error.hint() }
    }
}

impl From<ProgramError> for TrialError {
    fn from(error: ProgramError) -> Self {
        Self::stopped(&error)
    }
}

impl UserError for TrialError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Setup { .. } => ExitClass::BadVerdict,
            Self::Device { .. } => ExitClass::Io,
            Self::Refused(error) => error.class(),
            Self::NotAgreed { .. } => ExitClass::Refused,
            Self::Backing(error) => error.class(),
            Self::Stopped { class, .. } => *class,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Setup { .. } => None,
            Self::Device { .. } => {
                Some(Hint::from("check dmesg and the contacts, then: ").and(Task::Resume))
            }
            Self::Refused(error) => error.hint(),
            Self::Backing(error) => error.hint(),
            Self::NotAgreed { hint, .. } | Self::Stopped { hint, .. } => hint.clone(),
        }
    }
}
