//! Whether a partition starts on an erase block and is made of whole ones.
//!
//! Source: the Pandora recipe's test, start divisible by the erase block; its author measured the
//! creation of small files to be slower by a factor of more than 60 on a partition that began at
//! sector 1.

use flashfit_device::Bytes;
use flashfit_device::units::SECTOR_BYTES;
use flashfit_geometry::EraseBlockGrid;

use super::{CheckFinding, ExaminedDevice, Severity, Volume, position};

pub(super) fn check(examined: &ExaminedDevice, volume: &Volume) -> Vec<CheckFinding> {
    let (Some(grid), true) = (examined.grid(), volume.is_partition) else {
        return Vec::new();
    };
    let mut findings = vec![start(examined, volume, grid)];
    findings.extend(size(examined, volume, grid));
    findings
}

/// The last erase block of a partition does harm only where another partition has a part in it.
fn size(examined: &ExaminedDevice, volume: &Volume, grid: EraseBlockGrid) -> Option<CheckFinding> {
    let end = volume.start_bytes.checked_add(volume.size_bytes)?;
    let (rest, unit) = (grid.bytes_past(end), grid.block_bytes());
    let border = end.checked_add(unit - rest)?;
    let next = examined
        .volumes
        .iter()
        .find(|other| rest != 0 && (end..border).contains(&other.start_bytes))?;
    let text = format!(
        "it ends {} after a boundary of erase blocks of {}, and {} starts in the same one",
        position(rest),
        Bytes(unit),
        next.name
    );
    let finding = CheckFinding::new("size", &volume.name, Severity::Bad, text)
        .costs("writes at the end of one also move data of the other");
    Some(finding)
}

/// Of FAT and exFAT, whose tables are rewritten in place, only the data need start on an erase
/// block; vendors move the start of the partition for it.
fn data_are_aligned(volume: &Volume, grid: EraseBlockGrid) -> bool {
    let facts = volume.facts.as_ref().filter(|facts| matches!(&*facts.kind, "vfat" | "exfat"));
    facts
        .and_then(|facts| facts.data_start_bytes)
        .and_then(|data| data.checked_add(volume.start_bytes))
        .is_some_and(|at| grid.is_boundary(at))
}

fn start(examined: &ExaminedDevice, volume: &Volume, grid: EraseBlockGrid) -> CheckFinding {
    let (at, sector) = (volume.start_bytes, volume.start_bytes / SECTOR_BYTES);
    let (off, unit) = (grid.bytes_past(at), grid.block_bytes());
    if off == 0 {
        let units = at / unit;
        let after = match grid.first_bytes() {
            0 => String::new(),
            first => format!(" after the first one at {}", position(first)),
        };
        let text = format!(
            "it starts at {} (sector {sector}), a whole number of erase blocks of {} \
             ({units}){after}",
            position(at),
            Bytes(unit)
        );
        return CheckFinding::new("start", &volume.name, Severity::Fine, text);
    }
    let text = format!(
        "it starts at {} (sector {sector}), which is {} after a boundary of erase blocks of {}",
        position(at),
        position(off),
        Bytes(unit)
    );
    if data_are_aligned(volume, grid) {
        let text =
            format!("{text}; the data behind its tables start on one, as vendors lay it out");
        return CheckFinding::new("start", &volume.name, Severity::Fine, text);
    }
    CheckFinding::new("start", &volume.name, Severity::Bad, text)
        .costs(
            "what the file system treats as one erase block spans two, so small writes can move \
             twice as much data",
        )
        .repair(examined.replan(volume, false))
}
