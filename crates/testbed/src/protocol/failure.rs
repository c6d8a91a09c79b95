//! An error on its way: its kind and its words; what made it stays where it happened.

use flashfit_user_error::{ExitClass, UserError};
use serde::{Deserialize, Serialize};

use crate::{TrialError, TrialReport};

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum WireFailure {
    /// See [`TrialError::Setup`].
    Setup {
        /// What went wrong.
        message: String,
        /// How far it came.
        report: Box<TrialReport>,
    },
    /// See [`TrialError::Medium`].
    Medium {
        /// What it did.
        what: String,
    },
    /// See [`TrialError::NotAgreed`].
    NotAgreed {
        /// What would be lost.
        message: String,
        /// How to agree.
        hint: Option<String>,
    },
    /// Everything else.
    Stopped {
        /// What happened.
        message: String,
        /// The exit code.
        code: u8,
        /// What to do.
        hint: Option<String>,
    },
}

impl WireFailure {
    /// An error that ends the run.
    pub fn stopped(class: ExitClass, message: impl Into<String>, hint: Option<&str>) -> Self {
        let hint = hint.map(str::to_owned);
        Self::Stopped { message: message.into(), code: class.code(), hint }
    }
}

impl From<TrialError> for WireFailure {
    fn from(error: TrialError) -> Self {
        match error {
            TrialError::Setup { message, report } => Self::Setup { message, report },
            TrialError::Medium { what } => Self::Medium { what },
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
            WireFailure::Medium { what } => Self::Medium { what },
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
    fn an_error_keeps_its_kind_and_its_words() {
        let before = TrialError::Stopped {
            message: "the program `fio` was not found".to_owned(),
            class: ExitClass::Environment,
            hint: Some("apt-get install fio".to_owned()),
        };
        let (words, hint) = (before.to_string(), before.hint());
        let after = TrialError::from(WireFailure::from(before));
        assert_eq!((after.to_string(), after.hint()), (words, hint));
        assert_eq!(after.class(), ExitClass::Environment);
        let medium = TrialError::Medium { what: "is gone".to_owned() };
        assert!(matches!(
            TrialError::from(WireFailure::from(medium)),
            TrialError::Medium { what } if what == "is gone"
        ));
    }
}
