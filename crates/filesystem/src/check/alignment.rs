//! Whether a partition starts on an erase block and is made of whole ones.
//!
//! Source: the Pandora recipe's test, start divisible by the erase block; its author measured the
//! creation of small files to be slower by a factor of more than 60 on a partition that began at
//! sector 1.

use flashfit_device::Bytes;
use flashfit_device::units::SECTOR_BYTES;

use super::{CheckFinding, ExaminedDevice, Severity, Volume, position};

pub(super) fn check(examined: &ExaminedDevice, volume: &Volume) -> Vec<CheckFinding> {
    let (Some(unit), true) = (examined.erase_block(), volume.is_partition) else {
        return Vec::new();
    };
    let mut findings = vec![start(examined, volume, unit)];
    findings.extend(size(examined, volume, unit));
    findings
}

/// The last erase block of a partition does harm only where another partition has a part in it.
fn size(examined: &ExaminedDevice, volume: &Volume, unit: u64) -> Option<CheckFinding> {
    let end = volume.start_bytes.checked_add(volume.size_bytes)?;
    let rest = end % unit;
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

fn start(examined: &ExaminedDevice, volume: &Volume, unit: u64) -> CheckFinding {
    let (at, sector) = (volume.start_bytes, volume.start_bytes / SECTOR_BYTES);
    let off = at % unit;
    if off == 0 {
        let units = at / unit;
        let text = format!(
            "it starts at {} (sector {sector}), a whole number of erase blocks of {} ({units})",
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
    CheckFinding::new("start", &volume.name, Severity::Bad, text)
        .costs(
            "what the file system treats as one erase block spans two, so small writes can move \
             twice as much data",
        )
        .repair(examined.replan(volume, false))
}
