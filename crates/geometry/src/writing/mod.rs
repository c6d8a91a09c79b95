//! The probe that writes: how a device is built, from what writes cost.
//!
//! In this order: whether the capacity is there ([`capacity`]); what writing in order takes;
//! whether writes to ever other places cost merges, and between which boundaries ([`boundaries`]),
//! of which units and parts of them ([`streams`]); where they do not, the erasures that any writing
//! needs ([`erasures`], [`folding`]); how many units can be written in turn
//! ([`open_units`], [`change`]); what is written
//! together ([`write_unit`]); and what else some devices have: a log for small writes
//! ([`small_writes`]), a zone at the start ([`zone`]), a fast area that is written first
//! ([`sustained`]), faster reads of what was never written ([`unwritten`]). Everything within the
//! region is overwritten, nothing outside is touched. Evidence of the erase block is added to the
//! belief that a probe by reading began. Limits: one write under way at a time; the device does
//! nothing else meanwhile.

pub mod boundaries;
mod build;
pub mod capacity;
pub mod change;
mod erased;
pub mod erasures;
pub mod folding;
pub mod layout;
pub mod meter;
pub mod open_units;
pub mod period;
pub mod plan;
mod session;
pub mod small_writes;
pub mod streams;
pub mod sustained;
pub mod unwritten;
pub mod write_unit;
pub mod zone;

use std::ops::Range;

use flashfit_device::{BlockDev, Clock};

use crate::probed::{ProbeError, ProbeObserver, Probed};
pub use plan::{ProbeEstimate, QuickLook, default_max_write_bytes, estimate};

/// The smallest region that can be probed: room for ever other places.
pub const LEAST_REGION: u64 = 16 << 20;

/// What may be written, and how.
#[derive(Debug, Clone)]
pub struct WritingOptions {
    /// The seed of all random choices.
    pub seed: u64,
    /// What may be overwritten, in bytes from the start of the device.
    pub region: Range<u64>,
    /// The most that is written, in bytes.
    pub max_write_bytes: u64,
    /// Whether it is first looked whether the capacity is there.
    pub check_capacity: bool,
    /// Whether zeros are written, beside what says where it belongs, instead of what no controller
    /// can compress. For simulated devices, which need no memory for zeros.
    pub compressible: bool,
}

impl WritingOptions {
    /// All of a device of so many bytes.
    pub fn whole(capacity_bytes: u64, seed: u64) -> Self {
        Self {
            seed,
            region: 0..capacity_bytes,
            max_write_bytes: default_max_write_bytes(capacity_bytes),
            check_capacity: true,
            compressible: false,
        }
    }
}

/// Probes by writing over the region, which the user has consented to lose. `read` is what a probe
/// by reading found before; its evidence of the erase block counts here too.
///
/// # Errors
/// [`ProbeError::Region`] and [`ProbeError::TooSmall`] before anything is written;
/// [`ProbeError::Interrupted`] when `watch` asks for it; [`ProbeError::Vanished`] or
/// [`ProbeError::Medium`] when the device does not go on.
pub fn probe(
    device: &mut dyn BlockDev,
    clock: &dyn Clock,
    options: &WritingOptions,
    read: Option<&Probed>,
    watch: &mut dyn ProbeObserver,
) -> Result<Probed, ProbeError> {
    let description = device.describe();
    let Range { start, end } = options.region;
    let sector = u64::from(description.sector_bytes);
    let capacity_bytes = description.capacity_bytes;
    if start >= end || end > capacity_bytes || start % sector != 0 || end % sector != 0 {
        return Err(ProbeError::Region { start, end, capacity_bytes });
    }
    if end - start < LEAST_REGION {
        return Err(ProbeError::TooSmall { bytes: end - start, least: LEAST_REGION });
    }
    session::WriteSession::new(device, clock, options, read, watch).run()
}
