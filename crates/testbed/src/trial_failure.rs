//! How a step of a trial fails: with the setup, or with the run.

use flashfit_bench::BenchError;
use flashfit_device::{ConsentedRunError, Refusal};
use flashfit_host::ProgramError;
use flashfit_host::mount::MountError;
use flashfit_user_error::{ExitClass, UserError};

use crate::error::TrialError;

/// Whether a failure ends the run or only this setup.
pub(crate) enum Failure {
    Fatal(TrialError),
    Setup(String),
}

impl From<ProgramError> for Failure {
    fn from(error: ProgramError) -> Self {
        match error {
            ProgramError::Failed { .. } | ProgramError::TimedOut { .. } => {
                Self::Setup(error.to_string())
            }
            ProgramError::Missing { .. }
            | ProgramError::Start { .. }
            | ProgramError::Interrupted { .. } => Self::Fatal(error.into()),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Fatal(refusal.into())
    }
}

impl From<ConsentedRunError> for Failure {
    fn from(error: ConsentedRunError) -> Self {
        match error {
            ConsentedRunError::Refused(refusal) => refusal.into(),
            ConsentedRunError::Program(error) => error.into(),
        }
    }
}

impl From<MountError> for Failure {
    fn from(error: MountError) -> Self {
        match error {
            MountError::Program(error) => error.into(),
            other => Self::Setup(other.to_string()),
        }
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Program(error) => error.into(),
            other => match other.class() {
                ExitClass::Environment | ExitClass::Interrupted => {
                    Self::Fatal(TrialError::stopped(&other))
                }
                _ => Self::Setup(other.to_string()),
            },
        }
    }
}
