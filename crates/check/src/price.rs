//! What the commands that write would cost, before anything is written.
//!
//! Times are extrapolated from a few reads, as `probe --write` does before it asks.

use flashfit_probe::{ProbeRun, ProbeRunOptions, WriteEstimate};
use flashfit_target::InspectedTarget;
use schemars::JsonSchema;
use serde::Serialize;

/// The price of `probe --write`, which tests the capacity first. Bytes and times of a kind give a
/// rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct TestPrice {
    pub usual_bytes: u64,
    pub usual_ns: u64,
    pub most_bytes: u64,
    pub most_ns: u64,
    /// When the probe ends at the latest, unless the user agrees to more.
    pub time_limit_ns: Option<u64>,
}

/// From a few reads; `None` if they fail.
pub fn of(target: &InspectedTarget) -> Option<TestPrice> {
    // Not for writing: rates are wanted also where the device is too small for that, or where only
    // its capacity would be tested.
    let options = ProbeRunOptions::usual("", false);
    let run = ProbeRun::new(target, options).ok()?;
    let WriteEstimate { probe, max_time_ns, .. } = run.estimate().ok()?;
    Some(TestPrice {
        usual_bytes: probe.usual_bytes,
        usual_ns: probe.usual_ns,
        most_bytes: probe.most_bytes,
        most_ns: probe.most_ns,
        time_limit_ns: max_time_ns,
    })
}

/// Least and most, of a file system that is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MakingPrice {
    pub written_bytes: [u64; 2],
    /// `None` if the device cannot be read.
    pub time_ns: Option<[u64; 2]>,
}

/// What a file system writes at least: its superblocks and a partition table.
const LEAST_MADE_BYTES: u64 = 1 << 20;
/// At most it writes a log of 64 MiB (XFS), and this share of the partition: inode tables and
/// journal of ext4 are 1/64 each. Measured with mkfs and du(1) on sparse files of 64 MiB to 64 GiB.
const MOST_LOG_BYTES: u64 = 64 << 20;
const TABLES_SHARE: u64 = 32;
/// Programs, the kernel's view of a new table, and reading everything back.
const LEAST_MADE_NS: u64 = 1_000_000_000;
const MOST_MADE_NS: u64 = 10_000_000_000;

/// The price of a file system in a partition of this size.
pub fn of_making(target: &InspectedTarget, partition_bytes: u64) -> MakingPrice {
    making(of(target).as_ref(), partition_bytes)
}

fn making(rate: Option<&TestPrice>, partition_bytes: u64) -> MakingPrice {
    let most = (partition_bytes / TABLES_SHARE + MOST_LOG_BYTES).min(partition_bytes);
    let written_bytes = [LEAST_MADE_BYTES.min(most), most];
    let ns = |price: &TestPrice, bytes: u64| {
        let ns =
            u128::from(price.most_ns) * u128::from(bytes) / u128::from(price.most_bytes.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    };
    let time_ns = rate.map(|price| [LEAST_MADE_NS, MOST_MADE_NS.saturating_add(ns(price, most))]);
    MakingPrice { written_bytes, time_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn making_writes_tables_and_a_log_and_never_more_than_the_partition() {
        let rate = TestPrice {
            usual_bytes: 0,
            usual_ns: 0,
            most_bytes: 10 << 20,
            most_ns: 1_000_000_000,
            time_limit_ns: Some(500_000_000),
        };
        let price = making(Some(&rate), 64 << 30);
        assert_eq!(price.written_bytes, [1 << 20, (2 << 30) + (64 << 20)]);
        assert_eq!(price.time_ns.unwrap()[1], 10_000_000_000 + 211_200_000_000);
        assert_eq!(making(None, 16 << 20).written_bytes, [1 << 20, 16 << 20]);
        assert_eq!(making(None, 16 << 20).time_ns, None);
    }
}
