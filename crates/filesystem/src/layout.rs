//! Plans where the file system goes: on the whole device, or in a partition that starts on a
//! multiple of the erase block, with or without a second one behind it.

mod end;
mod table;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use flashfit_device::Bytes;
use flashfit_device::units::BadSize;
use flashfit_geometry::{EraseBlockGrid, Geometry};
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
    /// Where the first unit starts, in bytes from the start of the device.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_unit_bytes: u64,
    /// Why, as a sentence.
    pub reason: String,
    /// Where the second partition goes, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<SecondPlace>,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
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
    /// The first erase block does not start with a sector.
    #[error(
        "the first erase block starts at {offset_bytes} bytes, which is not a multiple of the \
         sector of {sector_bytes} bytes"
    )]
    OddOffset { offset_bytes: u64, sector_bytes: u64 },
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
            Self::OddUnit { .. }
            | Self::OddOffset { .. }
            | Self::Start { .. }
            | Self::TooSmall { .. } => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Sector(_) => None,
            Self::OddUnit { .. } | Self::OddOffset { .. } => {
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
    let grid = grid(geometry, sector_bytes)?;
    let unit = Bytes(grid.block_bytes());
    let front = table.front_bytes(sector_bytes);
    let start = if table == PartitionTable::None { LayoutStart::Whole } else { start };
    let reach = Bytes(table.reach_bytes(sector_bytes));
    let reach = Some(reach).filter(|reach| reach.0 < capacity_bytes);
    let (start_bytes, reason) = match start {
        LayoutStart::Whole => {
            return Ok(LayoutPlan {
                layout: PartitionLayout::WholeDevice,
                unit,
                first_unit_bytes: grid.first_bytes(),
                reason: why_whole(grid),
                second: None,
            });
        }
        LayoutStart::Auto => {
            let start_bytes = grid.at_or_after(front).unwrap_or(u64::MAX);
            (start_bytes, why_auto(geometry, grid, (end, reach)))
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
        first_unit_bytes: grid.first_bytes(),
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

/// The grid of the erase blocks, or else the usual one.
fn grid(geometry: &Geometry, sector_bytes: u64) -> Result<EraseBlockGrid, LayoutError> {
    let (unit, offset_bytes) = match &geometry.erase_block {
        Some(erase_block) => (erase_block.bytes, geometry.erase_block_offset.0),
        None => (DEFAULT_ALIGNMENT, 0),
    };
    if offset_bytes % sector_bytes != 0 {
        return Err(LayoutError::OddOffset { offset_bytes, sector_bytes });
    }
    let grid = EraseBlockGrid::new(unit.0, offset_bytes);
    grid.filter(|_| unit.0 % sector_bytes == 0)
        .ok_or(LayoutError::OddUnit { erase_block_bytes: unit.0, sector_bytes })
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

fn why_whole(grid: EraseBlockGrid) -> String {
    let none = "there is no partition table";
    if grid.first_bytes() == 0 {
        return format!(
            "the file system starts where the device starts, so it is aligned to every unit; {none}"
        );
    }
    format!(
        "the file system starts where the device starts, {} before the first erase block; {none}",
        position(grid.first_bytes())
    )
}

/// A position in bytes, exactly.
pub(crate) fn position(bytes: u64) -> String {
    if bytes % 1024 == 0 { Bytes(bytes).to_string() } else { format!("{bytes} bytes") }
}

fn why_auto(
    geometry: &Geometry,
    grid: EraseBlockGrid,
    (end, reach): (PartitionEnd, Option<Bytes>),
) -> String {
    let (whole, unit) = (end.what_is_whole(), Bytes(grid.block_bytes()));
    match &geometry.erase_block {
        Some(known) if grid.first_bytes() != 0 => format!(
            "{whole} of the erase block of {unit} ({}), counted from the first one at {}{}",
            known.source,
            position(grid.first_bytes()),
            end.what_follows(reach)
        ),
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
    match geometry.grid() {
        None => "the start was given; the erase block is unknown".to_owned(),
        Some(grid) if grid.is_boundary(at.0) => format!(
            "the start was given and is on a boundary of erase blocks of {}",
            Bytes(grid.block_bytes())
        ),
        Some(grid) => format!(
            "the start was given and is {} bytes after a boundary of erase blocks of {}",
            grid.bytes_past(at.0),
            Bytes(grid.block_bytes())
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
mod tests;
