//! A run on several boards at once, each with a device of its own.
//!
//! The trials of a batch go to whichever board is free ([`WorkerPool`]); a confirming round under one
//! workload stays on one board. Devices are compared by the baseline, which each of them
//! measures first, and by whatever else several of them have measured ([`DeviceEffects`]). A board that is
//! lost leaves its trial to the others; a run ends early only when none is left.
//!
//! Limit: what a setup gains is taken to be the same on all devices of a run. Where it is not, the
//! answer is one for the devices together, and the report's spread is larger.

pub mod device_effects;
mod making;
mod queue;
mod worker_pool;

pub use device_effects::{DeviceEffect, DeviceEffects};
pub use worker_pool::{Worker, WorkerEvent, WorkerPool};

/// Trials of the baseline on each device under each workload, before the search begins.
const OVERLAP_REPEATS: usize = 2;
