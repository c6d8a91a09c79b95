//! A validated setup: a file system, its options and the I/O scheduler.

use std::fmt;

use flashfit_catalog::CatalogEntryError;
use flashfit_user_error::{ExitClass, Hint, UserError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Conditions;
use crate::durability::{Durability, DurabilityVerdict, Risk};
use crate::filesystem::{BASE, FileSystem, FsOption};
use crate::scheduler::Scheduler;

#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// An option is not in the catalog.
    #[error(transparent)]
    Unknown(#[from] CatalogEntryError),
    /// Two options cannot be combined.
    #[error("{filesystem}: `{first}` and `{second}` cannot be combined")]
    Conflict {
        filesystem: String,
        /// The one that comes first in the catalog.
        first: String,
        second: String,
    },
    /// An option cannot be used on this device.
    #[error("{filesystem}: `{option}` cannot be used: {reason}")]
    Unusable { filesystem: String, option: String, reason: String },
    /// An option is there without one that it implies.
    #[error("{filesystem}: `{option}` requires `{implied}`, which is missing")]
    Lacks { filesystem: String, option: String, implied: String },
    /// The setup is one for another file system.
    #[error("a setup for {setup} was given to {filesystem}")]
    OtherFileSystem {
        /// The setup's file system.
        setup: String,
        /// The one it was given to.
        filesystem: String,
    },
}

impl UserError for SetupError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Unknown(error) => error.class(),
            Self::Conflict { .. } | Self::Unusable { .. } | Self::Lacks { .. } => ExitClass::Usage,
            Self::OtherFileSystem { .. } => ExitClass::Bug,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Unknown(error) => error.hint(),
            Self::Conflict { first, second, .. } => {
                Some(format!("omit `{first}` or `{second}`").into())
            }
            Self::Unusable { option, .. } => Some(format!("omit `{option}`").into()),
            Self::Lacks { implied, .. } => Some(format!("add `{implied}`").into()),
            Self::OtherFileSystem { .. } => None,
        }
    }
}

/// A file system with its options and the I/O scheduler.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
pub struct Setup {
    /// The file system's name in the catalog.
    pub filesystem: String,
    /// The names of its options in catalog order, each once.
    pub options: Vec<String>,
    pub scheduler: Scheduler,
}

impl Setup {
    /// The setup with these options, in any order, and those that they imply; `base` is ignored.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn new<S: AsRef<str>>(
        filesystem: &FileSystem,
        options: impl IntoIterator<Item = S>,
        scheduler: Scheduler,
        conditions: &Conditions,
    ) -> Result<Self, SetupError> {
        let is_named = |name: &S| name.as_ref() != BASE;
        let named: Vec<S> = options.into_iter().filter(is_named).collect();
        let wanted = filesystem.closure(&named)?;
        let options = wanted.iter().map(|option| option.name.clone()).collect();
        let setup = Self { filesystem: filesystem.name.clone(), options, scheduler };
        match setup.checked_options(filesystem, conditions) {
            Ok(_) => Ok(setup),
            Err(error) => Err(of_named(error, filesystem, &named)),
        }
    }

    /// The setup without options.
    pub fn base(filesystem: &FileSystem, scheduler: Scheduler) -> Self {
        Self { filesystem: filesystem.name.clone(), options: Vec::new(), scheduler }
    }

    /// Its options, once it is sure that they can be combined and used.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn checked_options<'a>(
        &self,
        filesystem: &'a FileSystem,
        conditions: &Conditions,
    ) -> Result<Vec<&'a FsOption>, SetupError> {
        let options = self.known_options(filesystem)?;
        for (index, option) in options.iter().enumerate() {
            if let Some(reason) = filesystem.why_not(option, conditions) {
                return Err(SetupError::Unusable {
                    filesystem: filesystem.name.clone(),
                    option: option.name.clone(),
                    reason,
                });
            }
            let lacks = |name: &&String| !self.options.contains(name);
            if let Some(implied) = option.implies.iter().find(lacks) {
                return Err(SetupError::Lacks {
                    filesystem: filesystem.name.clone(),
                    option: option.name.clone(),
                    implied: implied.clone(),
                });
            }
            let conflicting = options[..index].iter().find(|other| option.conflicts_with(other));
            if let Some(conflicting) = conflicting {
                return Err(SetupError::Conflict {
                    filesystem: filesystem.name.clone(),
                    first: conflicting.name.clone(),
                    second: option.name.clone(),
                });
            }
        }
        Ok(options)
    }

    fn known_options<'a>(
        &self,
        filesystem: &'a FileSystem,
    ) -> Result<Vec<&'a FsOption>, SetupError> {
        if self.filesystem != filesystem.name {
            return Err(SetupError::OtherFileSystem {
                setup: self.filesystem.clone(),
                filesystem: filesystem.name.clone(),
            });
        }
        self.options.iter().map(|name| filesystem.option(name).map_err(Into::into)).collect()
    }

    /// Its options as one word: `noatime+nojournal`, or `base`.
    pub fn options_label(&self) -> String {
        if self.options.is_empty() { BASE.to_owned() } else { self.options.join("+") }
    }

    /// Itself on one line: `ext4 noatime+nojournal mq-deadline`, `ext4 base none`.
    pub fn label(&self) -> String {
        format!("{} {} {}", self.filesystem, self.options_label(), self.scheduler)
    }

    /// What a power cut may do under it: the worst of its file system and its
    /// options, with the risk of each.
    ///
    /// # Errors
    /// When the catalog does not have its file system or one of its options.
    pub fn durability(&self, filesystem: &FileSystem) -> Result<DurabilityVerdict, SetupError> {
        let own = Risk {
            option: BASE.to_owned(),
            durability: filesystem.durability,
            risk: filesystem.risk.clone(),
        };
        let of_option = |option: &FsOption| Risk {
            option: option.name.clone(),
            durability: option.durability,
            risk: option.risk.clone(),
        };
        let own =
            Some(own).filter(|own| own.durability != Durability::Safe || !own.risk.is_empty());
        let of_options = self.known_options(filesystem)?.into_iter().map(of_option);
        let unsafe_options = of_options.filter(|risk| risk.durability != Durability::Safe);
        let risks: Vec<Risk> = own.into_iter().chain(unsafe_options).collect();
        let durability = risks.iter().map(|risk| risk.durability).max().unwrap_or_default();
        Ok(DurabilityVerdict { durability, risks })
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.label())
    }
}
/// A conflict of an implied option, as one of the named option that implies it.
fn of_named<S: AsRef<str>>(error: SetupError, filesystem: &FileSystem, named: &[S]) -> SetupError {
    let SetupError::Conflict { filesystem: name, first, second } = error else { return error };
    let implies = |by: &&S, option: &str| {
        let closure = filesystem.closure([by.as_ref()]).unwrap_or_default();
        closure.iter().any(|one| one.name == option)
    };
    let of = |option: String| {
        if named.iter().any(|one| one.as_ref() == option) {
            return option;
        }
        let by = named.iter().find(|by| implies(by, &option));
        by.map_or(option, |by| by.as_ref().to_owned())
    };
    match (of(first.clone()), of(second.clone())) {
        // One option that implies both of them contradicts itself.
        (a, b) if a == b => SetupError::Conflict { filesystem: name, first, second },
        (first, second) => SetupError::Conflict { filesystem: name, first, second },
    }
}
