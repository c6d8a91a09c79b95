//! A run on several boards at once, each with a medium of its own.
//!
//! The trials of a batch go to whichever board is free ([`Team`]); a confirming round under one
//! workload stays on one board. Media are compared by the untuned setup, which each of them
//! measures first, and by whatever else several of them have measured ([`Levels`]). A board that is
//! lost leaves its trial to the others; a run ends early only when none is left.
//!
//! Limit: what a setup gains is taken to be the same on all media of a run. Where it is not, the
//! answer is one for the media together, and the report's spread is larger.

pub mod levels;
mod making;
mod queue;
mod team;

pub use levels::{DeviceEffect, DeviceEffects};
pub use team::{Worker, WorkerEvent, WorkerPool};

/// Trials of the untuned setup on each medium under each workload, before the search begins.
const OVERLAP_REPEATS: usize = 2;
