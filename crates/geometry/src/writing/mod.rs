//! The writing probe: infers the geometry from the cost of writes.
//!
//! Steps: check the capacity ([`capacity`]); measure sequential writing; find out whether scattered
//! writes cause merges, and between which boundaries ([`boundaries`]), of which units and parts of
//! them ([`streams`]); if they do not, observe the erasures that any writing needs ([`erasures`],
//! [`folding`]); count the open erase blocks ([`open_erase_blocks`], [`openings`], [`change`]);
//! find the write unit ([`write_unit`], [`write_steps`]); and look for features of some devices: a
//! log for small writes ([`small_writes`]), a zone at the start ([`zone`]), a fast area that is
//! written first ([`fast_area`]), faster reads of never-written areas ([`unwritten`]).
//!
//! Everything in the region is overwritten; nothing outside is written. Evidence about the erase
//! block is added to the belief of a preceding read-only probe. Limits: one outstanding write; the
//! device must be otherwise idle.

pub mod boundaries;
mod build;
pub mod capacity;
pub mod change;
mod crossing;
mod erased;
mod erased_structure;
mod erasure_evidence;
pub mod erasures;
pub mod fast_area;
mod fold_period;
mod fold_trial;
pub mod folding;
mod later_steps;
pub mod layout;
pub mod meter;
mod next_write;
mod onset;
pub mod open_erase_blocks;
pub mod openings;
pub mod period;
pub mod plan;
mod progress;
mod reread;
mod session;
pub mod small_writes;
mod smallest_write;
pub mod streams;
mod two_areas;
pub mod unwritten;
mod wrap;
pub mod write_steps;
pub mod write_unit;
pub mod zone;

use std::ops::Range;

use flashfit_device::{BlockDev, Clock};

use crate::probed::{ProbeError, ProbeObserver, Probed};
pub use plan::{ProbeEstimate, QuickLook, default_max_write_bytes, estimate};

/// The smallest region, with room for scattered writes.
pub const MIN_REGION: u64 = 16 << 20;

/// Options of the writing probe.
#[derive(Debug, Clone)]
pub struct WritingOptions {
    /// The seed of all random choices.
    pub seed: u64,
    /// The region to overwrite, in bytes from the start of the device.
    pub region: Range<u64>,
    /// The most to write, in bytes.
    pub max_write_bytes: u64,
    /// The longest time to take, in nanoseconds; no limit if `None`.
    pub max_time_ns: Option<u64>,
    /// Whether to check the capacity first.
    pub check_capacity: bool,
    /// Whether to end after that check.
    pub only_capacity: bool,
    /// Part of what the check writes: a different one for each probe of a device, so that what an
    /// earlier probe left does not count as kept.
    pub run_number: u64,
    /// Whether to write zeros after the stamps instead of incompressible data; for simulated
    /// devices, which need no memory for zeros.
    pub compressible: bool,
}

impl WritingOptions {
    /// Options for a whole device.
    pub fn whole(capacity_bytes: u64, seed: u64) -> Self {
        Self {
            seed,
            region: 0..capacity_bytes,
            max_write_bytes: default_max_write_bytes(capacity_bytes),
            max_time_ns: None,
            check_capacity: true,
            only_capacity: false,
            run_number: seed,
            compressible: false,
        }
    }
}

/// Overwrites the region, which the user consented to lose. `read` is the result of a preceding
/// read-only probe, whose evidence of the erase block is included. If `observer` ends it, the
/// findings so far are returned, [marked](Probed::interrupted).
///
/// # Errors
/// [`ProbeError::Region`] and [`ProbeError::TooSmall`] before anything is written;
/// [`ProbeError::EndedEarly`] with the findings so far if the device fails.
pub fn probe(
    device: &mut dyn BlockDev,
    clock: &dyn Clock,
    options: &WritingOptions,
    read: Option<&Probed>,
    observer: &mut dyn ProbeObserver,
) -> Result<Probed, ProbeError> {
    let description = device.describe();
    let Range { start, end } = options.region;
    let sector = u64::from(description.sector_bytes);
    let capacity_bytes = description.capacity_bytes;
    if start >= end || end > capacity_bytes || start % sector != 0 || end % sector != 0 {
        return Err(ProbeError::Region { start, end, capacity_bytes });
    }
    if end - start < MIN_REGION {
        return Err(ProbeError::TooSmall { bytes: end - start, least: MIN_REGION });
    }
    session::WriteSession::new(device, clock, options, read, observer).run()
}
