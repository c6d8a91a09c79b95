//! Errors of planning.

use flashfit_catalog::CatalogEntryError;
use flashfit_device::Bytes;
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::durability::Durability;
use crate::layout::LayoutError;
use crate::setup::SetupError;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// There is no such layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The setup is not possible.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Something named is not in the catalog.
    #[error(transparent)]
    Unknown(#[from] CatalogEntryError),
    /// The place is smaller than the file system needs.
    #[error("{filesystem} needs {}, but there are only {}", Bytes(*least_bytes), Bytes(*size_bytes))]
    TooSmall {
        filesystem: String,
        /// The least it needs.
        least_bytes: u64,
        size_bytes: u64,
    },
    /// The file system cannot be laid out on this geometry.
    #[error("{filesystem} cannot be laid out here: {reason}")]
    Unfit { filesystem: String, reason: String },
    /// A partition is asked to have a table or another start.
    #[error("{path} is a partition, which cannot be moved")]
    Partition { path: String },
    /// The second partition cannot be made.
    #[error("the second partition cannot be made: {reason}")]
    Second { reason: String },
    /// The file system does not take the label.
    #[error("{filesystem} does not take the label `{label}`: {reason}")]
    Label { filesystem: String, label: String, reason: String },
    /// The file system that is to hold an image cannot.
    #[error("{host} cannot be the host of an image of {filesystem} and its writable layer")]
    Host {
        /// The image's file system.
        filesystem: String,
        /// The one that was named.
        host: String,
        hosts: Vec<String>,
    },
    /// The layers' folders cannot be named in options of mount(8).
    #[error(
        "{path} cannot be the mount point of layers: its path has one of the separators : , \\ and \""
    )]
    MountPoint {
        /// Where the host file system is to be mounted.
        path: String,
    },
    /// An option is less safe than the user allows.
    #[error("{filesystem}: `{option}` is {durability}: {risk}")]
    NotAllowed {
        filesystem: String,
        option: String,
        /// How safe it is.
        durability: Durability,
        /// What a power cut does.
        risk: String,
    },
}

impl UserError for PlanError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Layout(error) => error.class(),
            Self::Setup(error) => error.class(),
            Self::Unknown(error) => error.class(),
            Self::NotAllowed { .. } => ExitClass::Refused,
            Self::TooSmall { .. }
            | Self::Unfit { .. }
            | Self::Partition { .. }
            | Self::Second { .. }
            | Self::Label { .. }
            | Self::Host { .. }
            | Self::MountPoint { .. } => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Layout(error) => error.hint(),
            Self::Setup(error) => error.hint(),
            Self::Unknown(error) => error.hint(),
            Self::TooSmall { .. }
            | Self::Unfit { .. }
            | Self::Partition { .. }
            | Self::Second { .. }
            | Self::Label { .. }
            | Self::Host { .. }
            | Self::MountPoint { .. }
            | Self::NotAllowed { .. } => None,
        }
    }
}
