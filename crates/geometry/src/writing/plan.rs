//! What probing by writing will cost, told beforehand.
//!
//! The most is the budget. What is usual depends on what the device turns out to be: one that
//! merges is known after a window of it was written, a page-mapped one only after all of it was.
//! Limits: times are guessed from a few reads; writes are taken to be half as fast.

use flashfit_device::BlockDevInfo;

use super::WritingOptions;
use super::session::WINDOWS;

/// Writes that cost a merge, and how many bytes a merge may copy.
const MERGES: u64 = 150;
const MERGED_BYTES: u64 = 4 << 20;
/// What erasures of large units take to be told.
const FOR_ERASURES: u64 = 2 << 30;
/// How much slower a device writes than it reads.
const SLOWER: u64 = 2;

/// What a few reads showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuickLook {
    /// How fast large reads are, in bytes a second.
    pub read_bytes_per_second: u64,
}

/// What the probe will cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeEstimate {
    /// What is usually written, in bytes.
    pub usual_bytes: u64,
    /// How long that takes, in nanoseconds.
    pub usual_ns: u64,
    /// The most that is written, in bytes.
    pub most_bytes: u64,
    /// How long that takes, in nanoseconds.
    pub most_ns: u64,
}

/// What may be written where nothing else is said: a page-mapped device begins to erase only when
/// all of it, and its spare units, were written; and where it is small, erasures enough to tell
/// need more than a share of it.
pub fn default_max_write_bytes(region_bytes: u64) -> u64 {
    (region_bytes.saturating_mul(9) / 4).saturating_add(FOR_ERASURES)
}

/// The cost of a probe with these options.
pub fn estimate(
    description: &BlockDevInfo,
    options: &WritingOptions,
    first: &QuickLook,
) -> ProbeEstimate {
    let region = options.region.end.min(description.capacity_bytes) - options.region.start;
    let most_bytes = options.max_write_bytes;
    let usual_bytes = (region.min(WINDOWS[0]) * 2).min(most_bytes);
    let write_rate = (first.read_bytes_per_second / SLOWER).max(1);
    let time = |bytes: u64| {
        let ns = u128::from(bytes) * 1_000_000_000 / u128::from(write_rate);
        u64::try_from(ns).unwrap_or(u64::MAX)
    };
    let merges_ns = time(MERGES * MERGED_BYTES);
    ProbeEstimate {
        usual_bytes,
        usual_ns: time(usual_bytes).saturating_add(merges_ns),
        most_bytes,
        most_ns: time(most_bytes).saturating_add(merges_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_written_is_enough_to_fill_a_medium_and_see_erasures() {
        assert_eq!(default_max_write_bytes(16 << 20), (36 << 20) + FOR_ERASURES);
        assert_eq!(default_max_write_bytes(8 << 30), 20 << 30);
        assert_eq!(default_max_write_bytes(u64::MAX), u64::MAX / 4 + FOR_ERASURES);
    }
}
