//! Why a target cannot be inspected.

use flashfit_card::catalog::CardError;
use flashfit_device::{DeviceError, TargetError};
use flashfit_user_error::{ExitClass, Hint, UserError};

/// Why a target cannot be inspected.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Card(#[from] CardError),
}

impl UserError for InspectError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Target(error) => error.class(),
            Self::Device(error) => error.class(),
            Self::Card(error) => error.class(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Target(error) => error.hint(),
            Self::Device(error) => error.hint(),
            Self::Card(error) => error.hint(),
        }
    }
}
