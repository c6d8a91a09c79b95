//! One probe of a device: opens it, reads or also writes, infers its geometry, measures what a twin
//! is fitted to, and builds the document of it.
//!
//! The probes themselves are in `geometry`. Nothing here prints or asks: progress and the user's
//! consent are callbacks.

mod device;
mod document;
mod error;
mod follow_up;
pub mod free_space;
mod guarded;
mod import;
mod limited;
mod patterns;
mod quantities;
mod recorded;
mod region;
mod remapped;
mod run;
mod saved;
mod saved_measurements;
mod stalls;
mod tested_capacity;
mod twin;

pub use document::{
    FittedTwin, NextCommand, ProbeDocument, ProbeMode, ProbeSettings, ProbedDevice, found_bytes,
};
pub use error::{ProbeFileError, ProbeRunError};
pub use follow_up::{FirstEraseBlock, FollowUp};
pub use import::import;
pub use quantities::WrongQuantity;
pub use region::{DeviceRegion, ExpectedDevice};
pub use remapped::Remapped;
pub use run::{AgreeToLoss, ProbeOutcome, ProbeRun, ProbeRunOptions, WriteBudget, WriteEstimate};
pub use saved::{Doubt, SavedGeometry, SavedProbe};
pub use stalls::Stalls;
pub use tested_capacity::{CapacityFault, TestedCapacity};
pub use twin::{TwinMeasurements, fit_twin};
