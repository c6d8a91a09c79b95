//! Whether the area that files are allocated from starts on an erase block of the device.

use flashfit_device::Bytes;

use crate::plan::arithmetic::{gcd, power_in};

use super::{CheckFinding, ExaminedDevice, Severity, Volume, position};

pub(super) fn check(examined: &ExaminedDevice, volume: &Volume) -> Option<CheckFinding> {
    let facts = volume.facts.as_ref()?;
    let mut grid = examined.grid()?;
    // What F2FS frees at once is a section, so a smaller one has a smaller grid.
    if let Some(section) = facts.number("section_bytes") {
        grid = grid.in_blocks_of(gcd(grid.block_bytes(), section))?;
    }
    let start = facts.data_start_bytes?;
    let at = volume.start_bytes.checked_add(start)?;
    let (off, unit) = (grid.bytes_past(at), grid.block_bytes());
    if off == 0 {
        let text =
            format!("data start at {}, on a boundary of units of {}", position(at), Bytes(unit));
        return Some(CheckFinding::new("data start", &volume.name, Severity::Fine, text));
    }
    let text = format!(
        "data start at {} of the device, {} after a boundary of units of {}",
        position(at),
        position(off),
        Bytes(unit)
    );
    let cost = "clusters that are freed together never free whole erase blocks";
    let border = power_in(unit);
    if facts.kind == "exfat" && at % border == 0 {
        let text =
            format!("{text}, on one of {}; mkfs.exfat aligns to powers of two only", Bytes(border));
        let finding = CheckFinding::new("data start", &volume.name, Severity::Advice, text);
        return Some(finding.costs(cost));
    }
    // A plan would put them in the same place.
    let planned = examined.planned(volume).and_then(|planned| planned.number("data_start_bytes"));
    if facts.kind == "vfat" && planned == Some(start) {
        let text = format!("{text}, as near to one as the reserved sectors of FAT32 reach");
        let finding = CheckFinding::new("data start", &volume.name, Severity::Advice, text);
        return Some(finding.costs(cost));
    }
    let start_is_right = grid.is_boundary(volume.start_bytes);
    let finding = CheckFinding::new("data start", &volume.name, Severity::Bad, text)
        .costs(cost)
        .repair(examined.replan(volume, start_is_right));
    Some(finding)
}
