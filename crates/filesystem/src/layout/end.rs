//! Where a partition ends: where the device does, or on the grid on which it starts.
//!
//! Only the start decides whether a file system lies on erase blocks; an end within one costs
//! nothing and gives away less space. The end is therefore on the grid only if asked, or where a
//! file system's own units gain by it.

use flashfit_device::Bytes;
use flashfit_geometry::EraseBlockGrid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::table::PartitionTable;

/// Partitioning programs count in it; every file system's block and every sector divides it.
const GRAIN: Bytes = Bytes::mib(1);

/// Where a partition ends.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    JsonSchema,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum PartitionEnd {
    /// Where the device ends, rounded down to a size of whole MiB.
    #[default]
    Device,
    /// Its size is a multiple of the erase block.
    Grid,
}

impl PartitionEnd {
    /// Where all partitions ended before it could be chosen; what old documents mean.
    pub fn formerly() -> Self {
        Self::Grid
    }

    /// The size of a partition is a multiple of it.
    fn grain(self, unit: Bytes) -> Bytes {
        match self {
            Self::Device => unit.min(GRAIN),
            Self::Grid => unit,
        }
    }

    /// Words about start and size, where the start is a multiple of the unit.
    pub(crate) fn what_is_whole(self) -> &'static str {
        match self {
            Self::Device => "the start is a multiple",
            Self::Grid => "start and size are multiples",
        }
    }

    /// Words about the end, behind those about the start; `reach` is that of the table if it ends
    /// before the device.
    pub(super) fn what_follows(self, reach: Option<Bytes>) -> String {
        match (self, reach) {
            (_, Some(reach)) => {
                format!("; it ends where the reach of the partition table ends, at {reach}")
            }
            (Self::Device, None) => "; it ends where the device ends, in whole MiB".to_owned(),
            (Self::Grid, None) => String::new(),
        }
    }
}

/// The size of a partition from `start` to the end; `None` where there is no room for a unit.
pub(super) fn size_to_end(
    table: PartitionTable,
    capacity: u64,
    sector: u64,
    start: u64,
    (unit, end): (Bytes, PartitionEnd),
) -> Option<u64> {
    // The header at the end lies in the last whole sector.
    let last = (capacity / sector * sector).checked_sub(table.back_bytes(sector))?;
    let usable = last.min(table.reach_bytes(sector)).checked_sub(start)?;
    let grain = end.grain(unit).0;
    (usable >= unit.0).then_some(usable / grain * grain)
}

/// Divides the place of one partition so that the last `second_bytes` of it are a second one that
/// starts on the grid: the starts and sizes of both. `None` where less than a unit would be left
/// of the first.
pub fn divide(
    start_bytes: u64,
    size_bytes: u64,
    (grid, end): (EraseBlockGrid, PartitionEnd),
    second_bytes: u64,
) -> Option<[(u64, u64); 2]> {
    let (last, unit) = (start_bytes + size_bytes, grid.block_bytes());
    let least = match end {
        PartitionEnd::Device => second_bytes,
        PartitionEnd::Grid => second_bytes.checked_next_multiple_of(unit)?,
    };
    let second_start = grid.at_or_before(last.checked_sub(least)?)?;
    let second_size = match end {
        PartitionEnd::Device => last - second_start,
        PartitionEnd::Grid => least,
    };
    let first = second_start.checked_sub(start_bytes).filter(|first| *first >= unit)?;
    Some([(start_bytes, first), (second_start, second_size)])
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn gpt(capacity: u64, end: PartitionEnd) -> Option<u64> {
        let unit = Bytes(4 * MIB);
        size_to_end(PartitionTable::Gpt, capacity, 512, 4 * MIB, (unit, end))
    }

    #[test]
    fn a_partition_ends_with_the_device_unless_asked() {
        // The header at the end takes the last MiB.
        assert_eq!(gpt(103 * MIB, PartitionEnd::Device), Some(98 * MIB));
        assert_eq!(gpt(103 * MIB, PartitionEnd::Grid), Some(96 * MIB));
        // A unit has no room, although some MiB have.
        assert_eq!(gpt(8 * MIB, PartitionEnd::Device), None);
        assert_eq!(gpt(8 * MIB, PartitionEnd::Grid), None);
        let small = (Bytes(64 << 10), PartitionEnd::Device);
        let size = size_to_end(PartitionTable::Mbr, 10 * MIB + (96 << 10), 512, 64 << 10, small);
        assert_eq!(size, Some(10 * MIB));
    }

    #[test]
    fn a_second_partition_starts_on_the_grid() {
        let unit = EraseBlockGrid::new(4 * MIB, 0).unwrap();
        let on_grid = divide(63 * 512, 100 * MIB, (unit, PartitionEnd::Grid), 10 * MIB).unwrap();
        let [(start, size), (second, second_size)] = on_grid;
        assert_eq!((second % (4 * MIB), second_size), (0, 12 * MIB));
        assert_eq!((start, start + size), (63 * 512, second));
        assert!(second + second_size <= 63 * 512 + 100 * MIB);
        let to_end = divide(4 * MIB, 98 * MIB, (unit, PartitionEnd::Device), 10 * MIB).unwrap();
        assert_eq!(to_end, [(4 * MIB, 88 * MIB), (92 * MIB, 10 * MIB)]);
        let to_end = divide(4 * MIB, 98 * MIB, (unit, PartitionEnd::Device), 11 * MIB).unwrap();
        assert_eq!(to_end, [(4 * MIB, 84 * MIB), (88 * MIB, 14 * MIB)]);
        let later = EraseBlockGrid::new(4 * MIB, 2 * MIB).unwrap();
        let to_end = divide(2 * MIB, 98 * MIB, (later, PartitionEnd::Device), 10 * MIB).unwrap();
        assert_eq!(to_end, [(2 * MIB, 88 * MIB), (90 * MIB, 10 * MIB)]);
        for end in [PartitionEnd::Device, PartitionEnd::Grid] {
            assert_eq!(divide(4 * MIB, 8 * MIB, (unit, end), 5 * MIB), None);
            assert_eq!(divide(4 * MIB, 8 * MIB, (unit, end), u64::MAX), None);
        }
    }
}
