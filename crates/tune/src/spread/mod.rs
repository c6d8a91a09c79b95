//! A run on several boards at once, each with its own device.
//!
//! The trials of a batch go to any idle board ([`WorkerPool`]); a confirming round under one
//! workload stays on one board. Devices are compared by the baseline, which each of them measures
//! first, and by other setups that several have measured ([`DeviceEffects`]). Trials of a failed
//! board go to the others; a run only fails if no board is left.
//!
//! Limit: the gain of a setup is assumed to be the same on all devices of a run. Otherwise the
//! result is an average over the devices, with a larger spread in the report.

pub mod device_effects;
mod making;
mod queue;
mod worker_pool;

pub use device_effects::{DeviceEffect, DeviceEffects};
pub use worker_pool::{Worker, WorkerEvent, WorkerPool};

/// Baseline trials on each device under each workload before the search starts.
const OVERLAP_REPEATS: usize = 2;
