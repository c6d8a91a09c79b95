//! Whether the partition table is sound: partitions within the device that do not overlap, and
//! nothing that sfdisk(8) complains of.

use flashfit_host::path_text;
use flashfit_host::program::quote_path;

use super::{CheckFinding, ExaminedDevice, Severity, Volume, position};

/// How many overlapping partitions a finding names.
const MOST_NAMES: usize = 4;
const LARGEST_SECTOR: u64 = 4096;

pub(super) fn check(examined: &ExaminedDevice) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    for complaint in &examined.table_complaints {
        let node = quote_path(&path_text::from_text(&examined.target));
        findings.push(
            CheckFinding::new("table", &examined.target, Severity::Bad, complaint.clone())
                .costs("further damage can make the partitions impossible to find")
                .repair(format!("sfdisk --dump {node} > table.txt && sfdisk {node} < table.txt")),
        );
    }
    if examined.table_is_lost {
        let text = "there is the protective MBR of a GPT, but no readable GPT";
        findings.push(
            CheckFinding::new("table", &examined.target, Severity::Bad, text)
                .costs("the partitions cannot be found"),
        );
    }
    if let Some(at) = examined.lost_header_bytes {
        let place = if at <= LARGEST_SECTOR { "second" } else { "last" };
        let node = quote_path(&path_text::from_text(&examined.target));
        let text = format!("no partition table is found, but the {place} sector has that of a GPT");
        findings.push(
            CheckFinding::new("table", &examined.target, Severity::Bad, text)
                .costs("the partitions cannot be found")
                .repair(format!("gdisk {node}  # use the current GPT, then w: writes it again")),
        );
    }
    if examined.repeated_entries > 0 {
        let text = format!(
            "{} of its entries repeat the place of another partition: the chain of logical \
             partitions leads back to itself",
            examined.repeated_entries
        );
        findings.push(
            CheckFinding::new("table", &examined.target, Severity::Bad, text)
                .costs("programs that follow the chain do not come to an end"),
        );
    }
    let partitions: Vec<&Volume> =
        examined.volumes.iter().filter(|volume| volume.is_partition).collect();
    for (index, volume) in partitions.iter().enumerate() {
        let end = volume.start_bytes.saturating_add(volume.size_bytes);
        if end > examined.capacity_bytes && !is_target(examined, volume) {
            let text = format!(
                "it ends at {}, and the device at {}",
                position(end),
                position(examined.capacity_bytes)
            );
            findings.push(
                CheckFinding::new("table", &volume.name, Severity::Bad, text)
                    .costs("writes after the end are lost"),
            );
        }
        if covers_table(examined, volume) {
            let text = "it covers the first sector of the device, which has the partition table";
            findings.push(
                CheckFinding::new("table", &volume.name, Severity::Bad, text)
                    .costs("writing to it destroys the table"),
            );
        }
        let others = partitions[..index].iter().filter(|other| overlap(volume, other));
        let names: Vec<&str> = others.map(|other| other.name.as_str()).collect();
        if !names.is_empty() {
            let text = format!("it overlaps {}", listed(&names));
            findings.push(
                CheckFinding::new("table", &volume.name, Severity::Bad, text)
                    .costs("writing to one damages the other"),
            );
        }
    }
    if let (true, Some(table)) = (findings.is_empty(), &examined.table) {
        let text = format!("{table}; partitions are within the device and do not overlap");
        findings.push(CheckFinding::new("table", &examined.target, Severity::Fine, text));
    }
    findings
}

/// Some names, and how many there are beyond them.
fn listed(names: &[&str]) -> String {
    let (shown, more) = names.split_at(names.len().min(MOST_NAMES));
    let shown = shown.join(", ");
    if more.is_empty() { shown } else { format!("{shown} and {} more", more.len()) }
}

/// Whether a partition of an MBR contains the MBR. In images for optical discs it may: the first
/// sector is part of their file system.
fn covers_table(examined: &ExaminedDevice, volume: &Volume) -> bool {
    examined.table.as_deref() == Some("dos") && volume.start_bytes == 0 && !examined.is_optical
}

/// Whether the target is this partition alone: then nothing is known of the device around it.
fn is_target(examined: &ExaminedDevice, volume: &Volume) -> bool {
    examined.table.is_none()
        && examined.volumes.len() == 1
        && volume.size_bytes == examined.capacity_bytes
}

/// A logical partition lies within an extended one, which is not an overlap.
fn overlap(one: &Volume, other: &Volume) -> bool {
    let end = |volume: &Volume| volume.start_bytes.saturating_add(volume.size_bytes);
    let within = |inner: &Volume, outer: &Volume| {
        inner.start_bytes > outer.start_bytes && end(inner) <= end(outer) && is_container(outer)
    };
    one.start_bytes < end(other)
        && other.start_bytes < end(one)
        && !within(one, other)
        && !within(other, one)
}

/// An extended partition contains no file system, and the kernel shows a few sectors of it only.
fn is_container(volume: &Volume) -> bool {
    volume.facts.is_none() && volume.unreadable.is_none() && volume.mounts.is_empty()
}
