//! The kernel's own counters of a block device: sectors read, written and discarded.
//!
//! Source: Documentation/block/stat.rst of Linux; discards since Linux 4.18. Limits: they begin at
//! 0 when the kernel finds the device, count what reached the device and not what waits in the page
//! cache, and know nothing about the flash. On a 32-bit kernel they are 32 bits wide.

use flashfit_device::SystemRoots;
use flashfit_device::units::SECTOR_BYTES;

use crate::counter::{CountSpan, WearCounter, WearQuantity};
use crate::reading::{Answer, NoAnswer, SourceReport};

/// What the host wrote according to the kernel.
pub const KERNEL_WRITTEN: &str = "kernel.written";

/// Place in `stat`, name, quantity and field.
const FIELDS: [(usize, &str, WearQuantity, &str); 3] = [
    (6, KERNEL_WRITTEN, WearQuantity::HostWritten, "sectors written"),
    (2, "kernel.read", WearQuantity::HostRead, "sectors read"),
    (13, "kernel.discarded", WearQuantity::HostDiscarded, "sectors discarded"),
];

/// The counters of the block device or partition `name`.
pub(crate) fn read(system: &SystemRoots, name: &str) -> Answer {
    let text = system.attribute(&system.block(name).join("stat"));
    let text = text.ok_or_else(|| NoAnswer::nothing("the kernel has no such device"))?;
    Ok(SourceReport { counters: decode(&text), ..SourceReport::default() })
}

/// Decodes the file `stat` of a block device; fields that it lacks are left out.
pub fn decode(text: &str) -> Vec<WearCounter> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let counter = |(place, id, measures, what): (usize, &str, WearQuantity, &str)| {
        let sectors: u64 = fields.get(place)?.parse().ok()?;
        let source = format!("kernel, stat, {what}");
        let counter = WearCounter::bytes(id, measures, u128::from(sectors), SECTOR_BYTES, &source)?;
        Some(counter.since(CountSpan::Attached))
    };
    FIELDS.into_iter().filter_map(counter).collect()
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
