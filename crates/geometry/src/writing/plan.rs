//! Estimates the cost of the writing probe.
//!
//! The maximum is the budget. The usual cost depends on the device: a window is enough to identify
//! one that merges, while a page-mapped one must be written completely. Limits: times are
//! extrapolated from a few reads, assuming that writes are half as fast. How long a device takes
//! for merges is not known before, so the longest time is not a bound: cards of the catalog take up
//! to 2.6 times as long.

use flashfit_device::BlockDevInfo;

use super::session::{WINDOWS, window};
use super::{WritingOptions, capacity};

/// Merges of a usual probe, and bytes copied by each.
const MERGES: u64 = 150;
const MERGED_BYTES: u64 = 4 << 20;
/// Bytes needed to detect erasures of large units.
const FOR_ERASURES: u64 = 2 << 30;
/// Assumed ratio of read and write rates.
const SLOWER: u64 = 2;

/// The result of a few reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuickLook {
    pub read_bytes_per_second: u64,
}

/// The cost of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeEstimate {
    /// What is written at least, unless the probe ends early, in bytes: the capacity check and the
    /// first window.
    pub least_bytes: u64,
    /// How long that takes, in nanoseconds.
    pub least_ns: u64,
    pub usual_bytes: u64,
    /// How long that takes, in nanoseconds.
    pub usual_ns: u64,
    /// The most that is written, in bytes.
    pub most_bytes: u64,
    /// How long that takes, in nanoseconds.
    pub most_ns: u64,
}

/// The default write budget. A page-mapped device starts to erase only after its capacity and spare
/// area were written; on a small device, detecting erasures takes more than a share of it.
pub fn default_max_write_bytes(region_bytes: u64) -> u64 {
    (region_bytes.saturating_mul(9) / 4).saturating_add(FOR_ERASURES)
}

/// Estimates a probe with these options.
pub fn estimate(
    description: &BlockDevInfo,
    options: &WritingOptions,
    first: &QuickLook,
) -> ProbeEstimate {
    let end = options.region.end.min(description.capacity_bytes);
    let region = end - options.region.start;
    let write_rate = (first.read_bytes_per_second / SLOWER).max(1);
    let time = |bytes: u64| {
        let ns = u128::from(bytes) * 1_000_000_000 / u128::from(write_rate);
        u64::try_from(ns).unwrap_or(u64::MAX)
    };
    let [least_checked, most_checked] = match options.check_capacity {
        true => capacity::written_bytes(region, options.max_write_bytes),
        false => [0, 0],
    };
    if options.only_capacity {
        // The check reads about as long as it writes.
        let [least_ns, most_ns] = [least_checked, most_checked].map(|bytes| time(2 * bytes));
        return ProbeEstimate {
            least_bytes: least_checked,
            least_ns,
            usual_bytes: most_checked,
            usual_ns: most_ns,
            most_bytes: most_checked,
            most_ns,
        };
    }
    let most_bytes = options.max_write_bytes;
    let usual_bytes = (region.min(WINDOWS[0]) * 2).min(most_bytes);
    let filled = window(&(options.region.start..end), WINDOWS[0]);
    let least_bytes = (least_checked + (filled.end - filled.start)).min(most_bytes);
    let merges_ns = time(MERGES * MERGED_BYTES);
    ProbeEstimate {
        least_bytes,
        least_ns: time(least_bytes).saturating_add(merges_ns),
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
    fn the_default_budget_fills_a_device_and_shows_erasures() {
        assert_eq!(default_max_write_bytes(16 << 20), (36 << 20) + FOR_ERASURES);
        assert_eq!(default_max_write_bytes(8 << 30), 20 << 30);
        assert_eq!(default_max_write_bytes(u64::MAX), u64::MAX / 4 + FOR_ERASURES);
    }
}
