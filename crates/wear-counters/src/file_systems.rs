//! What ext4 and f2fs wrote to the device since they were made, while they are mounted.
//!
//! Source: `lifetime_write_kbytes` in Documentation/ABI/testing/sysfs-fs-ext4 and sysfs-fs-f2fs.
//! Limits: btrfs, xfs and others do not count; only what this file system wrote is counted, and a
//! power cut can lose the last part.

use flashfit_device::{Device, SystemRoots};

use crate::counter::{CountSpan, WearCounter, WearQuantity};
use crate::reading::{Answer, NoAnswer, SourceReport};

const KIB: u64 = 1024;

/// The counters of the mounted file systems of a device and of its partitions.
pub(crate) fn read(system: &SystemRoots, device: &Device) -> Vec<(String, Answer)> {
    let mut nodes: Vec<(&str, &str)> = device
        .mounts
        .iter()
        .map(|mount| (mount.node.as_str(), mount.kind.as_str()))
        .filter(|(_, kind)| ["ext2", "ext3", "ext4", "f2fs"].contains(kind))
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.into_iter().map(|(node, kind)| one(system, node, kind)).collect()
}

fn one(system: &SystemRoots, node: &str, kind: &str) -> (String, Answer) {
    // The ext4 driver also mounts ext2 and ext3.
    let folder = if kind == "f2fs" { "f2fs" } else { "ext4" };
    let name = node.trim_start_matches("/dev/");
    let source = format!("{kind} on {name}, lifetime_write_kbytes");
    let path = system.sys.join("fs").join(folder).join(name).join("lifetime_write_kbytes");
    let text = system.attribute(&path);
    let id = format!("{folder}.{name}.written");
    let answer = text
        .as_deref()
        .and_then(|text| decode(text, &id, &source))
        .map(|counter| SourceReport { counters: vec![counter], ..SourceReport::default() })
        .ok_or_else(|| NoAnswer::nothing("the kernel does not show it"));
    (source, answer)
}

/// Decodes the file; `None` if it is not a number of KiB.
pub fn decode(text: &str, id: &str, source: &str) -> Option<WearCounter> {
    let kib: u64 = text.trim().parse().ok()?;
    let counter =
        WearCounter::bytes(id, WearQuantity::FileSystemWritten, u128::from(kib), KIB, source)?;
    Some(counter.since(CountSpan::FileSystemMade))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kilobytes_are_kib() {
        let counter = decode("1234\n", "ext4.sda1.written", "x").unwrap();
        assert_eq!((counter.value, counter.step), (1234 * 1024, 1024));
        assert_eq!(counter.since, CountSpan::FileSystemMade);
        assert!(decode("-1", "a", "x").is_none());
        assert!(decode(&u64::MAX.to_string(), "a", "x").is_none());
    }
}
