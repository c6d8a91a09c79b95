//! Plans where the file system goes: on the whole device, or in a partition that starts on a
//! multiple of the erase block, with or without a second one behind it.

mod end;
mod table;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use flashfit_device::Bytes;
use flashfit_device::units::BadSize;
use flashfit_geometry::Geometry;
use flashfit_host::Program;
use flashfit_user_error::{ExitClass, Hint, UserError, UserSetting};
use serde::{Deserialize, Serialize};

use end::size_to_end;
pub use end::{PartitionEnd, divide};
pub use table::{PartitionContent, PartitionTable, TablePartition, run_sfdisk};

/// What partitioning programs use where nothing is known of the device.
const DEFAULT_ALIGNMENT: Bytes = Bytes::mib(1);

/// Where the file system lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartitionLayout {
    /// On the device itself, without a partition table.
    #[serde(rename = "whole-medium")]
    WholeDevice,
    /// In the only partition of the device.
    Partition {
        /// From the start of the device, in bytes.
        start_bytes: u64,
        size_bytes: u64,
        /// The table that it is in; runs of earlier versions always have a GPT.
        #[serde(default, skip_serializing_if = "PartitionTable::is_gpt")]
        table: PartitionTable,
    },
}

/// Where the user wants the file system to start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LayoutStart {
    /// In a partition on the first border of an erase block that leaves room for the GPT.
    #[default]
    Auto,
    /// At the start of the device, without a partition table.
    Whole,
    /// In a partition that starts there.
    At(Bytes),
}

impl FromStr for LayoutStart {
    type Err = BadSize;

    fn from_str(text: &str) -> Result<Self, BadSize> {
        match text {
            "auto" => Ok(Self::Auto),
            "whole" => Ok(Self::Whole),
            position => position.parse().map(Self::At),
        }
    }
}

/// A layout and why it is so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutPlan {
    pub layout: PartitionLayout,
    /// The unit of its start, and of its size where the end is on the grid.
    pub unit: Bytes,
    /// Why, as a sentence.
    pub reason: String,
    /// Where the second partition goes, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<SecondPlace>,
}

/// A partition behind that of the file system. Trials leave it empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondPlace {
    /// From the start of the device, in bytes.
    pub start_bytes: u64,
    pub size_bytes: u64,
    pub content: PartitionContent,
}

/// Why there is no layout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The device's sector is not a power of two of at least 512 bytes.
    #[error("invalid sector size: {0} bytes is not a power of two from 512 bytes to 1 MiB")]
    Sector(u64),
    /// The erase block is not made of whole sectors.
    #[error(
        "the erase block of {erase_block_bytes} bytes is not a multiple of the sector of \
         {sector_bytes} bytes"
    )]
    OddUnit { erase_block_bytes: u64, sector_bytes: u64 },
    /// The start that was asked for cannot be.
    #[error("a partition cannot start at {start_bytes} bytes: {reason}")]
    Start {
        /// The start that was asked for.
        start_bytes: u64,
        reason: String,
    },
    /// There is no room for one erase block.
    #[error(
        "the device of {} has no space for an erase block of {} at {}",
        Bytes(*capacity_bytes),
        Bytes(*unit_bytes),
        Bytes(*start_bytes)
    )]
    TooSmall {
        capacity_bytes: u64,
        /// Where the partition would start.
        start_bytes: u64,
        /// The least size of the partition.
        unit_bytes: u64,
    },
}

impl UserError for LayoutError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Sector(_) => ExitClass::Io,
            Self::OddUnit { .. } | Self::Start { .. } | Self::TooSmall { .. } => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Sector(_) => None,
            Self::OddUnit { .. } => {
                Some(Hint::from("use another size: ").and(UserSetting::EraseBlock).and(" SIZE"))
            }
            Self::Start { .. } => {
                Some(Hint::from("omit ").and(UserSetting::Start).and(" to let flashfit choose"))
            }
            Self::TooSmall { .. } => Some(
                Hint::from("use the whole device, without a partition: ")
                    .and(UserSetting::Start)
                    .and(" whole"),
            ),
        }
    }
}

/// Whether `start_bytes` lies on the border of an erase block of `erase_block_bytes`.
pub fn aligned(start_bytes: u64, erase_block_bytes: u64) -> bool {
    erase_block_bytes != 0 && start_bytes % erase_block_bytes == 0
}

/// Plans the layout with a GPT for a device of `capacity_bytes` with sectors of `sector_bytes`, to
/// the end of the device.
///
/// # Errors
/// See [`LayoutError`].
pub fn plan_layout(
    capacity_bytes: u64,
    sector_bytes: u64,
    geometry: &Geometry,
    start: LayoutStart,
) -> Result<LayoutPlan, LayoutError> {
    let place = (start, PartitionEnd::Device);
    plan_layout_in(PartitionTable::Gpt, capacity_bytes, sector_bytes, geometry, place)
}

/// The same with any table and end; without a table, and where the file system is to have the
/// whole device, there is no partition.
///
/// # Errors
/// See [`LayoutError`].
pub fn plan_layout_in(
    table: PartitionTable,
    capacity_bytes: u64,
    sector_bytes: u64,
    geometry: &Geometry,
    (start, end): (LayoutStart, PartitionEnd),
) -> Result<LayoutPlan, LayoutError> {
    check_sector(sector_bytes)?;
    let unit = unit(geometry, sector_bytes)?;
    let front = table.front_bytes(sector_bytes);
    let start = if table == PartitionTable::None { LayoutStart::Whole } else { start };
    let reach = Bytes(table.reach_bytes(sector_bytes));
    let reach = Some(reach).filter(|reach| reach.0 < capacity_bytes);
    let (start_bytes, reason) = match start {
        LayoutStart::Whole => {
            return Ok(LayoutPlan {
                layout: PartitionLayout::WholeDevice,
                unit,
                reason: "the file system starts where the device starts, so it is aligned to \
                         every unit; there is no partition table"
                    .to_owned(),
                second: None,
            });
        }
        LayoutStart::Auto => {
            (unit.0.saturating_mul(front.div_ceil(unit.0)), why_auto(geometry, unit, (end, reach)))
        }
        LayoutStart::At(at) => {
            check_start(at, sector_bytes, front)?;
            (at.0, why_at(geometry, at))
        }
    };
    let size_bytes = size_to_end(table, capacity_bytes, sector_bytes, start_bytes, (unit, end))
        .ok_or(LayoutError::TooSmall { capacity_bytes, start_bytes, unit_bytes: unit.0 })?;
    Ok(LayoutPlan {
        layout: PartitionLayout::Partition { start_bytes, size_bytes, table },
        unit,
        reason,
        second: None,
    })
}

/// Whether a device can have such a sector.
///
/// # Errors
/// [`LayoutError::Sector`].
pub fn check_sector(sector_bytes: u64) -> Result<(), LayoutError> {
    if sector_bytes < 512 || !sector_bytes.is_power_of_two() || sector_bytes > DEFAULT_ALIGNMENT.0 {
        return Err(LayoutError::Sector(sector_bytes));
    }
    Ok(())
}

fn unit(geometry: &Geometry, sector_bytes: u64) -> Result<Bytes, LayoutError> {
    let Some(erase_block) = &geometry.erase_block else { return Ok(DEFAULT_ALIGNMENT) };
    let erase_block_bytes = erase_block.bytes.0;
    if erase_block_bytes == 0 || erase_block_bytes % sector_bytes != 0 {
        return Err(LayoutError::OddUnit { erase_block_bytes, sector_bytes });
    }
    Ok(erase_block.bytes)
}

fn check_start(at: Bytes, sector_bytes: u64, front: u64) -> Result<(), LayoutError> {
    let reason = if at.0 % sector_bytes != 0 {
        format!("it is not a multiple of the sector of {sector_bytes} bytes")
    } else if at.0 < front {
        format!("the partition table takes the first {front} bytes")
    } else {
        return Ok(());
    };
    Err(LayoutError::Start { start_bytes: at.0, reason })
}

fn why_auto(
    geometry: &Geometry,
    unit: Bytes,
    (end, reach): (PartitionEnd, Option<Bytes>),
) -> String {
    let whole = end.what_is_whole();
    match &geometry.erase_block {
        Some(known) => format!(
            "{whole} of the erase block of {unit} ({}); the first one has the partition table{}",
            known.source,
            end.what_follows(reach)
        ),
        None => {
            let end = end.what_follows(reach);
            format!("the erase block is unknown, so {whole} of the usual {unit}{end}")
        }
    }
}

fn why_at(geometry: &Geometry, at: Bytes) -> String {
    match &geometry.erase_block {
        None => "the start was given; the erase block is unknown".to_owned(),
        Some(known) if aligned(at.0, known.bytes.0) => {
            format!("the start was given and is on a boundary of erase blocks of {}", known.bytes)
        }
        Some(known) => format!(
            "the start was given and is {} bytes after a boundary of erase blocks of {}",
            at.0 % known.bytes.0,
            known.bytes
        ),
    }
}

impl LayoutPlan {
    /// Runs sfdisk(8) to make its partitions, the first one with this name in a GPT; what is on
    /// the device is lost. `None` where there is no partition table.
    pub fn partitioning(
        &self,
        node: &Path,
        sector_bytes: u64,
        name: Option<String>,
    ) -> Option<Program> {
        let (table, first) = self.layout.in_table(name)?;
        let second = self.second.map(|second| TablePartition {
            start_bytes: second.start_bytes,
            size_bytes: second.size_bytes,
            content: second.content,
            name: None,
        });
        let partitions: Vec<TablePartition> = std::iter::once(first).chain(second).collect();
        Some(run_sfdisk(node, table.sfdisk_script(&partitions, sector_bytes)?))
    }
}

impl PartitionLayout {
    fn in_table(self, name: Option<String>) -> Option<(PartitionTable, TablePartition)> {
        let Self::Partition { start_bytes, size_bytes, table } = self else { return None };
        let content = PartitionContent::Linux;
        Some((table, TablePartition { start_bytes, size_bytes, content, name }))
    }

    /// The script for sfdisk(8) that makes it; `None` where there is no partition table.
    pub fn sfdisk_script(&self, sector_bytes: u64) -> Option<String> {
        let (table, partition) = self.in_table(None)?;
        table.sfdisk_script(&[partition], sector_bytes)
    }

    /// Runs sfdisk(8) with the script; what is on the device is lost. `None` as above.
    pub fn partitioning(&self, node: &Path, sector_bytes: u64) -> Option<Program> {
        Some(run_sfdisk(node, self.sfdisk_script(sector_bytes)?))
    }

    /// The node that the file system lies on, where `node` is that of the device.
    pub fn node(&self, node: &Path) -> PathBuf {
        match self {
            Self::WholeDevice => node.to_owned(),
            Self::Partition { .. } if node == Path::new(EXAMPLE_NODE) => {
                PathBuf::from(EXAMPLE_PARTITION)
            }
            Self::Partition { .. } => numbered_partition(node, 1),
        }
    }
}

/// The node of a partition of the device at `node`.
pub fn numbered_partition(node: &Path, number: u32) -> PathBuf {
    let text = node.display().to_string();
    let divider = if text.ends_with(|c: char| c.is_ascii_digit()) { "p" } else { "" };
    PathBuf::from(format!("{text}{divider}{number}"))
}

/// A placeholder in commands for a simulated card or an image. No such node exists, so a copied
/// command does no harm.
pub const EXAMPLE_NODE: &str = "/dev/YOUR-CARD";
/// A placeholder for its partition, whose real name depends on the device's (`sda1`, `mmcblk0p1`).
pub const EXAMPLE_PARTITION: &str = "/dev/YOUR-PARTITION";

#[cfg(test)]
mod tests {
    use flashfit_geometry::{QuantitySource, Sourced};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn erase_block(bytes: u64) -> Geometry {
        let erase_block = Some(Sourced::new(Bytes(bytes), QuantitySource::Given));
        Geometry { erase_block, ..Geometry::default() }
    }

    fn partition_of(bytes: u64) -> PartitionLayout {
        let table = PartitionTable::Gpt;
        PartitionLayout::Partition { start_bytes: bytes, size_bytes: bytes, table }
    }

    fn partition(plan: &LayoutPlan) -> (u64, u64) {
        let PartitionLayout::Partition { start_bytes, size_bytes, .. } = plan.layout else {
            panic!("{plan:?}")
        };
        (start_bytes, size_bytes)
    }

    #[test]
    fn a_partition_is_named_after_its_device() {
        let layout = partition_of(MIB);
        let names = [
            ("/dev/sda", "/dev/sda1"),
            ("/dev/mmcblk0", "/dev/mmcblk0p1"),
            ("/dev/nvme0n1", "/dev/nvme0n1p1"),
            ("/dev/loop7", "/dev/loop7p1"),
            (EXAMPLE_NODE, EXAMPLE_PARTITION),
        ];
        for (disk, partition) in names {
            assert_eq!(layout.node(Path::new(disk)), Path::new(partition));
            assert_eq!(PartitionLayout::WholeDevice.node(Path::new(disk)), Path::new(disk));
        }
    }

    #[test]
    fn every_plan_starts_on_the_grid_and_ends_before_the_end() {
        let units =
            [4096, 16 << 10, 64 << 10, MIB, 3 * MIB / 2, 4 * MIB, 12 * MIB, 24 * MIB, 64 * MIB];
        let capacities = (0..64)
            .flat_map(|power| [1u64 << power, (1 << power) - 1, (1 << power) + 512, 3 << power])
            .chain([8_068_792_320, 31_914_983_424, 3_965_190_144, u64::MAX]);
        let mut planned = 0;
        for capacity in capacities {
            for (sector, unit) in [512, 4096].into_iter().flat_map(|s| units.map(|u| (s, u))) {
                for end in [PartitionEnd::Device, PartitionEnd::Grid] {
                    let (table, geometry) = (PartitionTable::Gpt, erase_block(unit));
                    let place = (LayoutStart::Auto, end);
                    let Ok(plan) = plan_layout_in(table, capacity, sector, &geometry, place) else {
                        assert!(capacity < 2 * unit.max(64 << 10) + 64 * 1024, "{capacity} {unit}");
                        continue;
                    };
                    planned += 1;
                    let (start, size) = partition(&plan);
                    let back = sector + (16 << 10);
                    let grain = if end == PartitionEnd::Grid { unit } else { unit.min(MIB) };
                    assert!(size > 0 && aligned(start, unit) && aligned(size, grain));
                    assert!(start >= 2 * sector + (16 << 10), "{capacity} {sector} {unit}");
                    assert!(start.checked_add(size).unwrap() <= capacity / sector * sector - back);
                    assert!(capacity - start - size < grain + back + sector, "{capacity} {unit}");
                }
            }
        }
        assert!(planned > 1000, "{planned}");
    }

    #[test]
    fn the_dreamplugs_card_starts_at_its_second_erase_block() {
        let geometry = erase_block(8 * MIB);
        let plan = plan_layout(8_068_792_320, 512, &geometry, LayoutStart::Auto).unwrap();
        let script = plan.layout.sfdisk_script(512).unwrap();
        assert!(script.contains("start=16384, size=15740928,"), "{script}");
        assert!(script.starts_with("label: gpt\n"));
        assert!(plan.reason.contains("8 MiB"));
    }

    #[test]
    fn an_unknown_geometry_gets_the_default_start() {
        let plan = plan_layout(100 * MIB, 512, &Geometry::default(), LayoutStart::Auto).unwrap();
        assert_eq!(partition(&plan), (MIB, 98 * MIB));
        assert!(plan.reason.contains("is unknown"));
    }

    #[test]
    fn an_mbr_that_does_not_reach_the_end_is_the_reason() {
        let tib = 1u64 << 40;
        let reason = |table, capacity, end| {
            let request = (LayoutStart::Auto, end);
            plan_layout_in(table, capacity, 512, &erase_block(4 * MIB), request).unwrap().reason
        };
        let (mbr, device) = (PartitionTable::Mbr, PartitionEnd::Device);
        let found = reason(mbr, 3 * tib, device);
        assert!(found.contains("reach of the partition table ends, at 2.0 TiB"), "{found}");
        assert!(!found.contains("where the device ends"), "{found}");
        assert!(reason(mbr, 3 * tib, PartitionEnd::Grid).contains("the reach of the partition"));
        for (table, capacity) in [(mbr, tib), (PartitionTable::Gpt, 3 * tib)] {
            assert!(reason(table, capacity, device).contains("where the device ends"));
        }
    }

    #[test]
    fn a_given_start_is_kept_and_judged() {
        let geometry = erase_block(4 * MIB);
        let at = |bytes| plan_layout(100 * MIB, 512, &geometry, LayoutStart::At(Bytes(bytes)));
        let plan = at(63 * 512).unwrap();
        assert_eq!(partition(&plan).0, 63 * 512);
        assert!(plan.reason.contains("after a boundary"), "{}", plan.reason);
        assert!(at(8 * MIB).unwrap().reason.contains("on a boundary"));
        assert!(matches!(at(1000), Err(LayoutError::Start { .. })));
        assert!(matches!(at(33 * 512), Err(LayoutError::Start { .. })));
        assert!(matches!(at(99 * MIB), Err(LayoutError::TooSmall { .. })));
        assert!(matches!(at(u64::MAX - 511), Err(LayoutError::TooSmall { .. })));
    }

    #[test]
    fn odd_units_and_sectors_are_errors() {
        let plan =
            |sector, unit| plan_layout(100 * MIB, sector, &erase_block(unit), LayoutStart::Auto);
        assert!(matches!(plan(512, 0), Err(LayoutError::OddUnit { .. })));
        assert!(matches!(plan(4096, 6 * 1024), Err(LayoutError::OddUnit { .. })));
        assert!(matches!(plan(0, MIB), Err(LayoutError::Sector(0))));
        assert!(matches!(plan(520, MIB), Err(LayoutError::Sector(520))));
        assert!(matches!(plan(512, 1 << 63), Err(LayoutError::TooSmall { .. })));
    }

    #[test]
    fn a_partitions_node_is_named_as_the_kernel_does() {
        let partition = partition_of(MIB);
        assert_eq!(partition.node(Path::new("/dev/sda")), Path::new("/dev/sda1"));
        assert_eq!(partition.node(Path::new("/dev/mmcblk0")), Path::new("/dev/mmcblk0p1"));
        assert_eq!(PartitionLayout::WholeDevice.node(Path::new("/dev/sda")), Path::new("/dev/sda"));
        assert_eq!(PartitionLayout::WholeDevice.sfdisk_script(512), None);
    }
}
