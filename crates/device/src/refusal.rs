//! Why the guard does not let anybody write.

use std::path::{Path, PathBuf};

use flashfit_user_error::{ExitClass, UserError};

use crate::describe::{DeviceError, inspect_again};
use crate::in_use::DeviceUse;
use crate::units::Bytes;

/// Why nothing will be written.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("{} is in use: {}", path.display(), list(uses))]
    InUse {
        path: PathBuf,
        uses: Vec<DeviceUse>,
    },
    /// The kernel says that it is busy, and not why.
    #[error("{} is busy: the kernel does not give it to us alone", path.display())]
    Busy {
        path: PathBuf,
    },
    /// It is not the device that was shown.
    #[error("{} has changed since it was shown: {what}", path.display())]
    Changed {
        path: PathBuf,
        what: String,
    },
    /// It has another size than when work on it began. Whoever changed it may still be at it.
    #[error("{} had {before} when work on it began and has {now} now", path.display())]
    Resized {
        path: PathBuf,
        /// How large it was.
        before: Bytes,
        /// How large it is.
        now: Bytes,
    },
    /// Not everybody who could use it can be seen.
    #[error("cannot tell whether {} is in use: could not look at {what}", path.display())]
    Unseen {
        path: PathBuf,
        /// What was out of sight.
        what: String,
    },
    /// There is no agreement.
    #[error("all data on {} would be lost, and nobody agreed to that", path.display())]
    NotAgreed {
        path: PathBuf,
        /// The name that says yes.
        name: String,
    },
    /// The wrong name was given.
    #[error("`{given}` is not the name of the medium, which is `{name}`")]
    WrongName {
        given: String,
        /// What would have been right.
        name: String,
    },
    /// It refuses writes itself.
    #[error("{} is write-protected", path.display())]
    ReadOnly {
        path: PathBuf,
    },
    /// A loop device that is not over a simulated card of ours.
    #[error("{} is not a simulated card", path.display())]
    NotSimulated {
        path: PathBuf,
    },
    /// No disk, or more than one, has the serial number and size under which one was attached.
    #[error("the disk that was attached as {serial} is not there")]
    NotAttached {
        serial: String,
    },
    /// It cannot be looked at.
    #[error(transparent)]
    Medium(#[from] DeviceError),
    /// It cannot be opened for writing.
    #[error("cannot open {} for writing: {source}", path.display())]
    Open {
        path: PathBuf,
        source: std::io::Error,
    },
}

fn list(uses: &[DeviceUse]) -> String {
    uses.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl Refusal {
    /// The path does not name what was shown.
    pub(crate) fn changed(path: &Path, what: &str) -> Self {
        Self::Changed { path: path.to_owned(), what: what.to_owned() }
    }

    /// Whether it may be over in a moment, without anybody doing anything.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::InUse { uses, .. } => {
                uses.iter().all(|found| matches!(found, DeviceUse::Open { .. }))
            }
            Self::Busy { .. } => true,
            _ => false,
        }
    }
}

impl UserError for Refusal {
    fn class(&self) -> ExitClass {
        match self {
            Self::Medium(error) => error.class(),
            Self::Resized { .. } => ExitClass::Io,
            Self::Open { source, .. } => match source.kind() {
                std::io::ErrorKind::PermissionDenied => ExitClass::Environment,
                _ => ExitClass::Io,
            },
            _ => ExitClass::Refused,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::InUse { uses, .. } => uses.first().map(DeviceUse::remedy),
            Self::Busy { .. } => {
                Some("see who has it: lsof, lsblk, or another mount namespace".into())
            }
            Self::Changed { path, .. } => Some(inspect_again(path)),
            Self::Resized { .. } => {
                Some("see what changes its size; flashfit does not set it back".into())
            }
            Self::Unseen { .. } => Some("run it as root, with sudo".into()),
            Self::NotAgreed { name, .. } | Self::WrongName { name, .. } => {
                Some(format!("add --confirm {}", flashfit_host::program::quote(name)))
            }
            Self::ReadOnly { .. } => Some("slide the card's lock, or blockdev --setrw".into()),
            Self::Medium(error) => error.hint(),
            Self::Open { .. } => Some("run it as root".into()),
            Self::NotSimulated { .. } | Self::NotAttached { .. } => None,
        }
    }
}
