//! Whether ext2, ext3 and ext4 are checked in full every so many mounts or days.
//!
//! Since e2fsprogs 1.42 (2011) mke2fs sets neither; older file systems, and those of some
//! installers, have them. A file system with errors is checked at boot in any case (tune2fs(8)).

use crate::improvement::{ExpectedFacts, ImprovedVolume, Improvement};

use super::{CheckFinding, ExaminedDevice, Severity, Volume};

const SLOW_START: &str =
    "the start that does it takes minutes longer on a slow card, and reads all inode tables";

const DAY_S: u64 = 24 * 60 * 60;

pub(super) fn check(examined: &ExaminedDevice, volume: &Volume) -> Option<CheckFinding> {
    let facts = volume.facts.as_ref()?;
    if !["ext2", "ext3", "ext4"].contains(&facts.kind.as_str()) {
        return None;
    }
    let number = |name: &str| facts.number(name).unwrap_or(0);
    let (mounts, interval_s) = (number("max_mount_count"), number("check_interval_s"));
    let every = match (mounts, interval_s.div_ceil(DAY_S)) {
        (0, 0) => return None,
        (mounts, 0) => format!("every {mounts} mounts"),
        (0, days) => format!("every {days} days"),
        (mounts, days) => format!("every {mounts} mounts or {days} days"),
    };
    let args = |mounts: u64, interval_s: u64| {
        ["-c".to_owned(), mounts.to_string(), "-i".to_owned(), format!("{interval_s}s")].to_vec()
    };
    let number = |name: &str| (name.to_owned(), 0);
    let text = format!("checked in full {every}, whether it has errors or not");
    Some(
        CheckFinding::new("periodic check", &volume.name, Severity::Advice, text)
            .costs(SLOW_START)
            .repair(Improvement::Superblock {
                volume: ImprovedVolume::of(volume)?,
                shown_node: examined.node_for_tools(volume),
                program: "tune2fs".to_owned(),
                args: ["-c", "0", "-i", "0"].map(str::to_owned).to_vec(),
                restore_args: args(mounts, interval_s),
                expected: ExpectedFacts {
                    absent_feature: None,
                    numbers: vec![number("max_mount_count"), number("check_interval_s")],
                },
                why: SLOW_START.to_owned(),
                risk: String::new(),
            }),
    )
}
