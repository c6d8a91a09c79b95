//! The numbers that fit a file system to a place on a device, each with its reason.
//!
//! A file a family of file systems; which one is decided by what mount(8) calls it. The values go
//! to the catalog's arguments by name ([`PlacementNumbers::planned`]), so that how they are written
//! on a command line stays data.

mod btrfs;
mod exfat;
mod ext;
mod f2fs;
mod fat;
mod nilfs2;
mod xfs;

use std::collections::BTreeMap;

use flashfit_device::Bytes;
use flashfit_geometry::EraseBlockGrid;

use crate::layout::PartitionEnd;

use super::document::{NumberUnit, PlanNumber, PlannedPlacement, StripeWidth};

/// Where a file system goes, and what is known about the device there.
#[derive(Debug, Clone, Copy)]
pub struct PlacementContext {
    pub place: PlannedPlacement,
    /// The device's sector, in bytes.
    pub sector_bytes: u64,
    /// The erase block, in bytes, where it is known; a multiple of the sector.
    pub erase_block_bytes: Option<u64>,
    /// Where the first whole erase block starts, in bytes from the start of the disk.
    pub erase_block_offset: u64,
    /// The write unit, in bytes, where it is known; not 0.
    pub write_unit_bytes: Option<u64>,
    /// The file system's block, in bytes, as the catalog states it.
    pub block_bytes: u64,
    /// What the stripe width counts.
    pub stripe_width: StripeWidth,
}

impl PlacementContext {
    fn is_boundary(&self, at_bytes: u64) -> bool {
        let grid =
            EraseBlockGrid::new(self.erase_block_bytes.unwrap_or(0), self.erase_block_offset);
        grid.is_some_and(|grid| grid.is_boundary(at_bytes))
    }
}

/// The numbers for one place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacementNumbers {
    /// Values for the catalog's arguments.
    pub planned: BTreeMap<String, u64>,
    pub numbers: Vec<PlanNumber>,
    /// What they cost, in bytes, against the file system without them.
    pub lost_bytes: u64,
    /// What takes it, as a sentence; empty where it is nothing.
    pub lost_reason: String,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// Why an argument has no value here, where that has a reason other than the warnings.
    pub absent: Option<String>,
}

impl PlacementNumbers {
    fn set(&mut self, argument: &str, value: u64) {
        self.planned.insert(argument.to_owned(), value);
    }

    /// The number of that name.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.numbers.iter().find(|number| number.name == name).map(|number| number.value)
    }

    fn add(&mut self, name: &str, value: u64, unit: NumberUnit, reason: impl Into<String>) {
        self.numbers.push(PlanNumber { name: name.to_owned(), value, unit, reason: reason.into() });
    }

    fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }
}

/// Fits the file system that mount(8) calls `kind`. Without an erase block little can be fitted;
/// what can is.
///
/// # Errors
/// A sentence, when no numbers put it on the grid of erase blocks.
pub fn fit(kind: &str, site: &PlacementContext) -> Result<PlacementNumbers, String> {
    match kind {
        "ext2" | "ext3" | "ext4" => Ok(ext::fit(site)),
        "btrfs" => Ok(btrfs::fit(site)),
        "f2fs" => Ok(f2fs::fit(site)),
        "vfat" => fat::fit(site),
        "exfat" => exfat::fit(site),
        "xfs" => Ok(xfs::fit(site)),
        "nilfs2" => Ok(nilfs2::fit(site)),
        _ => Ok(PlacementNumbers::default()),
    }
}

/// The numbers of the format that vendors give cards, whatever the erase block is; `None` where
/// the file system has none or it does not fit.
pub fn vendor(kind: &str, site: &PlacementContext) -> Option<PlacementNumbers> {
    match kind {
        "vfat" => fat::vendor(site),
        "exfat" => exfat::vendor(site),
        _ => None,
    }
}

/// The numbers as a setup with these arguments of mkfs has them.
pub fn adapted(
    kind: &str,
    fitted: PlacementNumbers,
    place: PlannedPlacement,
    mkfs_args: &[String],
) -> PlacementNumbers {
    let zone = mkfs_args.iter().position(|arg| arg == "-z").and_then(|at| mkfs_args.get(at + 1));
    match zone.and_then(|sections| sections.parse().ok()) {
        Some(sections) if kind == "f2fs" => f2fs::in_zones(fitted, place, sections),
        _ => fitted,
    }
}

pub fn is_planned(kind: &str) -> bool {
    matches!(
        kind,
        "ext2" | "ext3" | "ext4" | "btrfs" | "f2fs" | "vfat" | "exfat" | "xfs" | "nilfs2"
    )
}

/// What the file system divides a disk in besides erase blocks: f2fs in segments of 2 MiB.
pub fn own_unit_bytes(kind: &str) -> Option<u64> {
    (kind == "f2fs").then_some(f2fs::SEGMENT_BYTES)
}

/// Where a partition for these kinds of file system ends unless the user chooses: mkfs.f2fs 1.15
/// keeps more in reserve where segments are left over that make no section, and its own check
/// (fsck.f2fs) then reports damage.
pub fn usual_end<'a>(kinds: impl IntoIterator<Item = &'a str>) -> PartitionEnd {
    if kinds.into_iter().any(|kind| kind == "f2fs") {
        PartitionEnd::Grid
    } else {
        PartitionEnd::Device
    }
}

fn multiple(what: &str, bytes: u64, of: u64) -> String {
    let times = bytes / of;
    if times == 1 {
        format!("one {what}")
    } else {
        format!("{times} times the {what} of {}", Bytes(of))
    }
}
