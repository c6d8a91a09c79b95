//! Whether the partition table is sound: partitions within the device that do not overlap, and
//! nothing that sfdisk(8) complains of.

use flashfit_host::path_text;
use flashfit_host::program::quote_path;

use super::{CheckFinding, ExaminedDevice, Severity, Volume, position};

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
        for other in &partitions[..index] {
            if overlap(volume, other) {
                let text = format!("it overlaps {}", other.name);
                findings.push(
                    CheckFinding::new("table", &volume.name, Severity::Bad, text)
                        .costs("writing to one damages the other"),
                );
            }
        }
    }
    if let (true, Some(table)) = (findings.is_empty(), &examined.table) {
        let text = format!("{table}; partitions are within the device and do not overlap");
        findings.push(CheckFinding::new("table", &examined.target, Severity::Fine, text));
    }
    findings
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
