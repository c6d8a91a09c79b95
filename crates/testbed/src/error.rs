//! Why a trial yields nothing: the setup's fault, or everybody's.

use std::path::Path;

use flashfit_device::Refusal;
use flashfit_host::{ProgramError, free_space};
use flashfit_user_error::{ExitClass, UserError};

use crate::TrialReport;
use crate::writable_device::WritableBlockDeviceError;

/// What helps where a disk is full.
pub(crate) const MAKE_ROOM: &str = "make room, then: flashfit tune --resume DIR";

/// Why a trial was not made.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// This setup does not work; the run can go on with others.
    #[error("{message}")]
    Setup {
        /// What went wrong.
        message: String,
        /// How far it came.
        report: Box<TrialReport>,
    },
    /// The device returned errors or is gone.
    #[error("the medium {what}")]
    Medium {
        /// What it did.
        what: String,
    },
    /// The guard refuses.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nothing but the user's word is missing.
    #[error("{message}")]
    NotAgreed {
        /// What would be lost.
        message: String,
        /// How to agree.
        hint: Option<String>,
    },
    /// The device's device is not there to begin with.
    #[error(transparent)]
    Backing(#[from] WritableBlockDeviceError),
    /// The machine lacks something, or the user interrupted.
    #[error("{message}")]
    Stopped {
        /// What happened.
        message: String,
        /// The exit class.
        class: ExitClass,
        /// What to do.
        hint: Option<String>,
    },
}

impl TrialError {
    /// The disk under this image is full: what the image returns then is no error of a device.
    /// `None` where it has room.
    pub fn without_room_below(image: &Path) -> Option<Self> {
        free_space::is_full(image).then(|| Self::Stopped {
            message: format!(
                "no space left on the disk under the image {}, which grows as it is written",
                image.display()
            ),
            class: ExitClass::Environment,
            hint: Some(MAKE_ROOM.to_owned()),
        })
    }

    /// An error that ends the run.
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
            Self::Medium { .. } => ExitClass::Io,
            Self::Refused(error) => error.class(),
            Self::NotAgreed { .. } => ExitClass::Refused,
            Self::Backing(error) => error.class(),
            Self::Stopped { class, .. } => *class,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Setup { .. } => None,
            Self::Medium { .. } => {
                Some("look at dmesg and at the contacts; then: flashfit tune --resume DIR".into())
            }
            Self::Refused(error) => error.hint(),
            Self::Backing(error) => error.hint(),
            Self::NotAgreed { hint, .. } | Self::Stopped { hint, .. } => hint.clone(),
        }
    }
}
