//! Where a file system goes, before anything of its setup is chosen: table, partition, and the
//! numbers that fit it to that place.

use flashfit_device::Bytes;
use flashfit_geometry::{EraseBlockGrid, Geometry};

use crate::conditions::Conditions;
use crate::filesystem::FileSystem;
use crate::layout::{
    LayoutStart, PartitionEnd, PartitionLayout, PartitionTable, SecondPlace, check_sector,
    plan_layout_in,
};

use super::arithmetic::lcm;
use super::commands::content;
use super::conditions::{site, with_numbers};
use super::document::{PlannedDevice, PlannedPartition, PlannedPlacement, StripeWidth};
use super::error::PlanError;
use super::numbers::{self, PlacementNumbers};
use super::second::{SecondChoice, with_second_partition};

/// A place for a file system.
#[derive(Debug, Clone)]
pub(super) struct Placement {
    pub(super) table: PartitionTable,
    pub(super) table_reason: String,
    pub(super) partitions: Vec<PlannedPartition>,
    pub(super) place: PlannedPlacement,
    /// The numbers, or why there are none that fit.
    pub(super) fitted: Result<PlacementNumbers, String>,
    /// The numbers of the vendors' format, where it fits.
    pub(super) vendor: Option<PlacementNumbers>,
}

impl Placement {
    /// What the device offers, the numbers included.
    pub(super) fn conditions(
        &self,
        filesystem: &FileSystem,
        device: &PlannedDevice,
        used: &Geometry,
    ) -> Conditions {
        with_numbers(filesystem, &device_conditions(device, used), &self.fitted)
    }
}

fn device_conditions(device: &PlannedDevice, used: &Geometry) -> Conditions {
    Conditions {
        geometry: used.clone(),
        discard: device.discard,
        volatile_cache: device.volatile_cache,
        ..Conditions::default()
    }
}

/// What was chosen about the place.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlacementChoice<'a> {
    pub(super) table: Option<PartitionTable>,
    pub(super) start_bytes: Option<u64>,
    pub(super) end: Option<PartitionEnd>,
    pub(super) stripe_width: StripeWidth,
    pub(super) second: Option<&'a SecondChoice>,
}

pub(super) fn find_placement(
    filesystem: &FileSystem,
    device: &PlannedDevice,
    used: &Geometry,
    wanted: PlacementChoice<'_>,
) -> Result<Placement, PlanError> {
    let PlacementChoice { table, start_bytes, end, stripe_width, second } = wanted;
    check_sector(device.sector_bytes)?;
    if filesystem.layered.is_some() {
        return Err(PlanError::Unfit {
            filesystem: filesystem.name.clone(),
            reason: "it is an image on another file system".to_owned(),
        });
    }
    let (table, table_reason) = match device.partition_start_bytes {
        Some(_)
            if table.is_some_and(|table| table != PartitionTable::None)
                || start_bytes.is_some()
                || end == Some(PartitionEnd::Grid) =>
        {
            return Err(PlanError::Partition { path: device.path.display().to_string() });
        }
        Some(_) => {
            (PartitionTable::None, "the target is a partition, which stays where it is".to_owned())
        }
        None => choose_table(filesystem, device, table),
    };
    let start = start(filesystem, device, used, table, start_bytes);
    let is_common = start_bytes.is_none() && matches!(start, LayoutStart::At(_));
    let end = end.unwrap_or_else(|| numbers::usual_end([filesystem.kind.as_str()]));
    let (capacity, sector) = (device.capacity_bytes, device.sector_bytes);
    let layout = plan_layout_in(table, capacity, sector, used, (start, end))?;
    let layout = match second {
        None => layout,
        Some(second) => with_second_partition(layout, &second.content, second.size_bytes, end)?,
    };
    let (place, partitions) = match layout.layout {
        PartitionLayout::WholeDevice => {
            let start_bytes = device.partition_start_bytes.unwrap_or(0);
            (PlannedPlacement { start_bytes, size_bytes: device.capacity_bytes }, Vec::new())
        }
        PartitionLayout::Partition { start_bytes, size_bytes, .. } => {
            let behind = second.zip(layout.second).map(|(second, place)| {
                let known = used.erase_block.as_ref().map(|known| known.bytes);
                second_partition(table, &second.content, place, (layout.unit, known, end))
            });
            let partition = PlannedPartition {
                number: 1,
                start_bytes,
                size_bytes,
                kind: table.kind_of(content(&filesystem.kind)).to_owned(),
                reason: if is_common { reason_of_common_start(used, end) } else { layout.reason },
            };
            let partitions = std::iter::once(partition).chain(behind).collect();
            (PlannedPlacement { start_bytes, size_bytes }, partitions)
        }
    };
    if place.size_bytes < filesystem.min_device_size.0 {
        return Err(PlanError::TooSmall {
            filesystem: filesystem.name.clone(),
            least_bytes: filesystem.min_device_size.0,
            size_bytes: place.size_bytes,
        });
    }
    let offers = device_conditions(device, used);
    let site = site(filesystem, &offers, place, device.sector_bytes, stripe_width);
    let fitted = numbers::fit(&filesystem.kind, &site);
    let vendor = numbers::vendor(&filesystem.kind, &site);
    Ok(Placement { table, table_reason, partitions, place, fitted, vendor })
}

fn second_partition(
    table: PartitionTable,
    content: &str,
    place: SecondPlace,
    (unit, erase_block, end): (Bytes, Option<Bytes>, PartitionEnd),
) -> PlannedPartition {
    let whole = end.what_is_whole();
    let grid = match erase_block {
        Some(_) => format!(
            "{whole} of the erase block of {unit}, so no erase block is shared with the first \
             partition"
        ),
        None => format!(
            "{whole} of the usual {unit}; whether an erase block is shared with the first \
             partition is not known"
        ),
    };
    PlannedPartition {
        number: 2,
        start_bytes: place.start_bytes,
        size_bytes: place.size_bytes,
        kind: table.kind_of(place.content).to_owned(),
        reason: format!("{content}: {grid}"),
    }
}

fn choose_table(
    filesystem: &FileSystem,
    device: &PlannedDevice,
    wanted: Option<PartitionTable>,
) -> (PartitionTable, String) {
    let reach = PartitionTable::Mbr.reach_bytes(device.sector_bytes);
    let fits_mbr = device.capacity_bytes <= reach;
    match (wanted, filesystem.kind.as_str()) {
        (Some(PartitionTable::None), _) => {
            let reason = "asked for; the file system starts where the device starts";
            (PartitionTable::None, reason.to_owned())
        }
        (Some(PartitionTable::Mbr), _) if !fits_mbr => {
            let reason = format!("asked for; what is beyond {} is out of its reach", Bytes(reach));
            (PartitionTable::Mbr, reason)
        }
        (Some(table), _) => (table, "asked for".to_owned()),
        (None, "vfat" | "exfat") if fits_mbr => {
            let reason = "cameras and players expect FAT and exFAT in an MBR";
            (PartitionTable::Mbr, reason.to_owned())
        }
        (None, _) if fits_mbr => {
            let reason =
                "a second copy is at the end of the device, so that losing one does no harm";
            (PartitionTable::Gpt, reason.to_owned())
        }
        (None, _) => {
            (PartitionTable::Gpt, format!("an MBR does not reach beyond {}", Bytes(reach)))
        }
    }
}

/// F2FS divides a device in its own units, so its partition starts on a multiple of both.
fn start(
    filesystem: &FileSystem,
    device: &PlannedDevice,
    used: &Geometry,
    table: PartitionTable,
    start_bytes: Option<u64>,
) -> LayoutStart {
    match (table, start_bytes, used.grid()) {
        (PartitionTable::None, _, _) => LayoutStart::Whole,
        (_, Some(at), _) => LayoutStart::At(Bytes(at)),
        (_, None, Some(grid)) => {
            let front = table.front_bytes(device.sector_bytes);
            common_start(grid, &filesystem.kind, front)
                .map_or(LayoutStart::Auto, |at| LayoutStart::At(Bytes(at)))
        }
        (_, None, None) => LayoutStart::Auto,
    }
}

/// The first boundary behind the table that is also a multiple of the file system's own unit.
/// `None` where that makes no difference between boundaries.
fn common_start(grid: EraseBlockGrid, kind: &str, front: u64) -> Option<u64> {
    let unit = numbers::own_unit_bytes(kind)?;
    let (first, block) = (grid.at_or_after(front)?, grid.block_bytes());
    let different = lcm(block, unit)? / block;
    let boundaries = (0..different).map_while(|at| first.checked_add(at.checked_mul(block)?));
    boundaries.into_iter().find(|at| different > 1 && at % unit == 0)
}

fn reason_of_common_start(used: &Geometry, end: PartitionEnd) -> String {
    let unit = used.erase_block.as_ref().map_or(Bytes(0), |known| known.bytes);
    let size = match end {
        PartitionEnd::Device => "",
        PartitionEnd::Grid => "; its size is whole erase blocks",
    };
    format!(
        "it starts on the first boundary of erase blocks of {unit} that is a multiple of the \
         segment of 2 MiB that F2FS counts in{size}"
    )
}

/// What a start between two boundaries costs; nothing where the data alone count, and the numbers
/// that mkfs is given (`stated`) bring them on a boundary.
pub(super) fn off_grid(
    device: &PlannedDevice,
    used: &Geometry,
    place: PlannedPlacement,
    stated: Option<&PlacementNumbers>,
) -> Option<String> {
    let grid = used.grid()?;
    let data = stated.and_then(|stated| stated.number("data_start_bytes"));
    let starts = [Some(place.start_bytes), data.and_then(|at| at.checked_add(place.start_bytes))];
    if starts.into_iter().flatten().any(|at| grid.is_boundary(at)) {
        return None;
    }
    let (off, unit) = (grid.bytes_past(place.start_bytes), Bytes(grid.block_bytes()));
    let what = if device.partition_start_bytes.is_some() {
        "the partition starts"
    } else {
        "the start that was asked for lies"
    };
    Some(format!(
        "{what} {off} bytes after a boundary of erase blocks of {unit}: what the file system \
         aligns to them is not aligned on the device"
    ))
}
