//! A [`TrialError`] as sent over the protocol: kind, message and hint, without the source error.

use flashfit_user_error::{ExitClass, Hint, UserError};
use serde::{Deserialize, Serialize};

use crate::{TrialError, TrialReport};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum WireFailure {
    /// See [`TrialError::Setup`].
    Setup {
        message: String,
        /// What was measured before the failure.
        report: Box<TrialReport>,
    },
    /// See [`TrialError::Device`].
    #[serde(rename = "medium")]
    Device {
        what: String,
    },
    /// See [`TrialError::NotAgreed`].
    NotAgreed {
        /// Names the data that would be lost.
        message: String,
        hint: Option<Hint>,
    },
    Stopped {
        message: String,
        code: u8,
        hint: Option<Hint>,
    },
}

impl WireFailure {
    pub fn stopped(class: ExitClass, message: impl Into<String>, hint: Option<Hint>) -> Self {
        Self::Stopped { message: message.into(), code: class.code(), hint }
    }
}

impl From<TrialError> for WireFailure {
    fn from(error: TrialError) -> Self {
        match error {
            TrialError::Setup { message, report } => Self::Setup { message, report },
            TrialError::Device { what } => Self::Device { what },
            TrialError::NotAgreed { message, hint } => Self::NotAgreed { message, hint },
            other => Self::Stopped {
                message: other.to_string(),
                code: other.class().code(),
                hint: other.hint(),
            },
        }
    }
}

impl From<WireFailure> for TrialError {
    fn from(failure: WireFailure) -> Self {
        match failure {
            WireFailure::Setup { message, report } => Self::Setup { message, report },
            WireFailure::Device { what } => Self::Device { what },
            WireFailure::NotAgreed { message, hint } => Self::NotAgreed { message, hint },
            WireFailure::Stopped { message, code, hint } => {
                Self::Stopped { message, class: ExitClass::of_code(code), hint }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_kind_and_message() {
        let before = TrialError::Stopped {
            message: "the program `fio` was not found".to_owned(),
            class: ExitClass::Environment,
            hint: Some("apt-get install fio".into()),
        };
        let (message, hint) = (before.to_string(), before.hint());
        let after = TrialError::from(WireFailure::from(before));
        assert_eq!((after.to_string(), after.hint()), (message, hint));
        assert_eq!(after.class(), ExitClass::Environment);
        let device = TrialError::Device { what: "disappeared".to_owned() };
        assert!(matches!(
            TrialError::from(WireFailure::from(device)),
            TrialError::Device { what } if what == "disappeared"
        ));
    }
}
