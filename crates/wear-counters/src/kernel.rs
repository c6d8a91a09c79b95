//! The kernel's own counters of a block device: sectors read, written and discarded.
//!
//! Source: Documentation/block/stat.rst of Linux; discards since Linux 4.18. Limits: they begin at 0
//! when the kernel finds the device, count what reached the device and not what waits in the page
//! cache, and know nothing about the flash. On a 32-bit kernel they are 32 bits wide.

use flashfit_device::SystemRoots;
use flashfit_device::units::SECTOR_BYTES;

use crate::counter::{CountSpan, CounterUnit, WearCounter, WearQuantity};

const SECTORS_READ: usize = 2;
const SECTORS_WRITTEN: usize = 6;
const SECTORS_DISCARDED: usize = 13;

/// The counters of the block device or partition `name`; empty if the kernel does not have it.
pub(crate) fn read(system: &SystemRoots, name: &str) -> Vec<WearCounter> {
    let text = system.attribute(&system.block(name).join("stat")).unwrap_or_default();
    decode(&text)
}

fn decode(text: &str) -> Vec<WearCounter> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let counter = |index: usize, id, measures, what: &str| {
        let sectors: u64 = fields.get(index)?.parse().ok()?;
        let bytes = sectors.checked_mul(SECTOR_BYTES)?;
        let source = format!("kernel, stat, {what}");
        let counter =
            WearCounter::new(id, measures, (bytes, CounterUnit::Bytes, SECTOR_BYTES), &source);
        Some(counter.since(CountSpan::Attached))
    };
    [
        counter(SECTORS_WRITTEN, "kernel.written", WearQuantity::HostWritten, "sectors written"),
        counter(SECTORS_READ, "kernel.read", WearQuantity::HostRead, "sectors read"),
        counter(
            SECTORS_DISCARDED,
            "kernel.discarded",
            WearQuantity::HostDiscarded,
            "sectors discarded",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_become_bytes() {
        let text = "  1 2 300 4 5 6 700 8 0 10 11 12 13 1400 15 16 17";
        let values: Vec<u64> = decode(text).iter().map(|counter| counter.value).collect();
        assert_eq!(values, [700 * 512, 300 * 512, 1400 * 512]);
    }

    #[test]
    fn an_old_kernel_does_not_count_discards() {
        assert_eq!(decode("1 2 300 4 5 6 700 8 0 10 11").len(), 2);
        assert!(decode("").is_empty());
        assert!(decode(&format!("1 2 {} 4 5 6 x", u64::MAX)).is_empty());
    }
}
