//! Why a probe cannot be made, or its file not be read.

use std::path::PathBuf;

use flashfit_card::model::ModelError;
use flashfit_device::{BlockDevError, Bytes, DeviceLockError, DirectError, Refusal};
use flashfit_geometry::flashbench::{ImportError, ProcedureError};
use flashfit_geometry::probed::ProbeError;
use flashfit_host::input_file::InputFileError;
use flashfit_twin::TwinError;
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::quantities::WrongQuantity;
use crate::tested_capacity::CapacityFault;

/// Why a probe ended without, or before, its result.
#[derive(Debug, thiserror::Error)]
pub enum ProbeRunError {
    #[error(
        "the region {start}+{length} is not whole sectors of {sector_bytes} bytes of {target}, \
         which has {capacity} ({} bytes)",
        capacity.0
    )]
    Region { start: Bytes, length: Bytes, sector_bytes: u64, target: String, capacity: Bytes },
    #[error(
        "the region {start}+{length} ends at {}, beyond the end of {target}, which has {capacity} \
         ({} bytes)",
        Bytes(start.0.saturating_add(length.0)),
        capacity.0
    )]
    RegionBeyondEnd { start: Bytes, length: Bytes, target: String, capacity: Bytes },
    #[error(transparent)]
    Capacity(#[from] CapacityFault),
    #[error(transparent)]
    Open(#[from] DirectError),
    #[error(transparent)]
    Device(#[from] BlockDevError),
    /// The device with this name failed.
    #[error("{target}: {error}")]
    Failed { target: String, error: ProbeError },
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Locked(#[from] DeviceLockError),
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error(transparent)]
    Rates(ProcedureError),
    /// While rates were measured for a twin.
    #[error("the probe was interrupted")]
    Interrupted,
    #[error(transparent)]
    File(#[from] InputFileError),
    #[error("{}: {error}", path.display())]
    Import { path: PathBuf, error: ImportError },
    #[error(transparent)]
    Twin(#[from] TwinError),
    /// Too few rates were measured for a twin, because no more bytes could be written.
    #[error("{error}: the {limit} that may be written for the twin are used up")]
    TooFewBytesForTwin { error: TwinError, limit: Bytes },
    #[error(transparent)]
    TwinModel(#[from] ModelError),
}

impl From<ProcedureError> for ProbeRunError {
    fn from(error: ProcedureError) -> Self {
        match error {
            ProcedureError::Device(error) => Self::Device(error),
            other => Self::Rates(other),
        }
    }
}

impl ProbeRunError {
    /// The failure of a device, with its name.
    #[must_use]
    pub(crate) fn at(self, target: &str) -> Self {
        let error = match self {
            Self::Device(error) => ProbeError::Device(error),
            Self::Probe(
                error @ (ProbeError::Device(_)
                | ProbeError::Vanished { .. }
                | ProbeError::Unreadable { .. }),
            ) => error,
            other => return other,
        };
        Self::Failed { target: target.to_owned(), error }
    }

    fn cause(&self) -> Option<&dyn UserError> {
        Some(match self {
            Self::Region { .. } | Self::RegionBeyondEnd { .. } | Self::Interrupted => {
                return None;
            }
            Self::Capacity(fault) => fault,
            Self::Open(error) => error,
            Self::Device(error) => error,
            Self::Refused(error) => error,
            Self::Locked(error) => error,
            Self::Probe(error) | Self::Failed { error, .. } => error,
            Self::Rates(error) => error,
            Self::File(error) => error,
            Self::Import { error, .. } => error,
            Self::Twin(error) | Self::TooFewBytesForTwin { error, .. } => error,
            Self::TwinModel(error) => error,
        })
    }
}

impl UserError for ProbeRunError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Region { .. } | Self::RegionBeyondEnd { .. } => ExitClass::Usage,
            Self::Interrupted => ExitClass::Interrupted,
            other => other.cause().map_or(ExitClass::Bug, UserError::class),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            // That of its cause is more time.
            Self::TooFewBytesForTwin { .. } => None,
            other => other.cause().and_then(UserError::hint),
        }
    }
}

/// Why a file is not a probe of this device.
#[derive(Debug, thiserror::Error)]
pub enum ProbeFileError {
    #[error(transparent)]
    File(#[from] InputFileError),
    #[error("{} is not the result of a probe: {error}", path.display())]
    Invalid { path: PathBuf, error: serde_json::Error },
    #[error(
        "{} is a document `{schema}`, version {version}; expected `{}`, version {}",
        path.display(),
        crate::document::SCHEMA,
        crate::document::SCHEMA_VERSION
    )]
    OtherSchema { path: PathBuf, schema: String, version: u32 },
    #[error("{}: {wrong}", path.display())]
    Quantity { path: PathBuf, wrong: WrongQuantity },
    #[error("{} is of another device: {difference}", path.display())]
    OtherDevice { path: PathBuf, difference: String },
}

impl UserError for ProbeFileError {
    fn class(&self) -> ExitClass {
        match self {
            Self::File(error) => error.class(),
            Self::Invalid { .. }
            | Self::OtherSchema { .. }
            | Self::Quantity { .. }
            | Self::OtherDevice { .. } => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::File(error) => error.hint(),
            Self::Invalid { .. }
            | Self::OtherSchema { .. }
            | Self::Quantity { .. }
            | Self::OtherDevice { .. } => None,
        }
    }
}
