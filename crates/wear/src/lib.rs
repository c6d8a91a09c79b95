//! Wear over years: what a setup and a way of use cost a device, and how long it lasts.
//!
//! A [`RecordedTrace`] is what a workload made a file system write to a small card under a real
//! kernel. [`replay`] continues it for years, and [`aging`] serves it to a simulated card:
//! [`mod@age`] until its life ends, [`mod@estimate`] for a while, which [`extrapolation`] turns
//! into years with an interval. A [`usage::UsageModel`] describes what a product writes a day. All
//! results are simulated.

pub mod age;
pub mod aging;
pub mod device_class;
pub mod device_life;
mod draws;
mod erase_rates;
pub mod estimate;
pub mod extrapolation;
pub mod mix;
pub mod option_life;
pub mod replay;
pub mod replica;
mod trace_coding;
pub mod trace_file;
pub mod usage;
mod used_life;

pub use age::age;
pub use estimate::{EstimateError, SetupEstimate, estimate};
pub use mix::SetupTraces;
pub use option_life::{MeasuredLife, MeasuredLives, MeasuredLivesError};
pub use trace_file::{RecordedTrace, TraceFileError};
pub use usage::{UsageError, UsageModel};
pub use used_life::UsedLife;
