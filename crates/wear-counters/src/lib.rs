//! What a device and the kernel report about the wear of the device: each counter with its unit,
//! its step and its source.
//!
//! Reading is read-only. Only documented read commands are sent, and vendor commands only to the
//! manufacturers that document them. Knows no simulation, except to ask a served card.

pub mod ata_attributes;
pub mod counter;
pub mod difference;
pub mod file_systems;
pub mod interval;
mod json_number;
pub mod kernel;
pub mod measure;
pub mod measurement;
pub mod mmc;
mod mmc_command;
pub mod needed_volume;
mod nvme;
pub mod reading;
pub mod sd_card;
mod simulated;
mod smartctl;
mod ufs;
pub mod workload;

pub use ata_attributes::{AtaAttributes, AtaAttributesError};
pub use counter::{CountSpan, CounterUnit, WearCounter, WearQuantity};
pub use difference::{CounterDifference, DifferenceError};
pub use kernel::KERNEL_WRITTEN;
pub use measure::{FEWEST_RUNS, MeasureBudget, MeasureError, MeasuredWorkload, measure};
pub use measurement::{MeasurementEnd, WearMeasurement};
pub use reading::{SourceAnswer, SourceOutcome, WearReading, WearSources};
pub use workload::CommandOnDevice;
