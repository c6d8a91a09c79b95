//! The judgement of `check` on what was gathered, without a medium.

use flashfit_filesystem::Catalogue;
use flashfit_filesystem::check::{
    Examined, Finding, Mounted, Severity, Unfinished, Volume, check, verdict,
};
use flashfit_geometry::{Geometry, Known, Source};
use flashfit_medium::Bytes;

const MIB: u64 = 1 << 20;

fn partition(number: u32, start_bytes: u64, size_bytes: u64) -> Volume {
    Volume {
        name: format!("/dev/mmcblk0p{number}"),
        start_bytes,
        size_bytes,
        is_partition: true,
        facts: None,
        unreadable: None,
        mounts: Vec::new(),
    }
}

fn examined(volumes: Vec<Volume>) -> Examined {
    let erase_unit = Some(Known::new(Bytes::mib(4), Source::Given));
    Examined {
        target: "/dev/mmcblk0".to_owned(),
        disk: "mmcblk0".to_owned(),
        capacity_bytes: 1 << 30,
        geometry: Geometry { erase_unit, ..Geometry::default() },
        disagreements: Vec::new(),
        table: Some("gpt".to_owned()),
        table_complaints: Vec::new(),
        table_is_lost: false,
        volumes,
        queue: None,
        trim_timer: None,
        unfinished: None,
    }
}

fn found(examined: &Examined) -> Vec<Finding> {
    check(examined, &Catalogue::load(None).expect("valid"))
}

#[test]
fn an_aligned_medium_is_fine() {
    let findings = found(&examined(vec![partition(1, 4 * MIB, 64 * MIB)]));
    assert_eq!(verdict(&findings), Severity::Fine);
}

#[test]
fn what_was_left_unfinished_comes_with_the_command_that_ends_it() {
    let mut examined = examined(Vec::new());
    let mend = Some("flashfit apply plan.json /dev/mmcblk0".to_owned());
    examined.unfinished = Some(Unfinished { what: "interrupted".to_owned(), mend: mend.clone() });
    let findings = found(&examined);
    assert_eq!(findings[0].check, "unfinished");
    assert_eq!(findings[0].severity, Severity::Bad);
    assert_eq!(findings[0].mend, mend);
}

#[test]
fn two_partitions_in_one_erase_unit_are_bad() {
    let volumes = vec![partition(1, 4 * MIB, 5 * MIB), partition(2, 9 * MIB, 7 * MIB)];
    let findings = found(&examined(volumes));
    let bad: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Bad)
        .map(|finding| finding.check)
        .collect();
    assert_eq!(bad, ["size", "start"]);
}

#[test]
fn freed_space_is_not_told_twice() {
    let mut volume = partition(1, 4 * MIB, 64 * MIB);
    let options = ["rw", "noatime", "discard"].map(str::to_owned).to_vec();
    volume.mounts = vec![Mounted { point: "/mnt".to_owned(), kind: "ext4".to_owned(), options }];
    let mut examined = examined(vec![volume]);
    assert_eq!(verdict(&found(&examined)), Severity::Fine);
    examined.trim_timer = Some(true);
    let findings = found(&examined);
    assert_eq!((findings[0].check, findings[0].severity), ("trim", Severity::Advice));
    let mend = findings[0].mend.as_deref();
    assert_eq!(mend, Some("mount -o remount,nodiscard /mnt"));
}

#[test]
fn a_file_system_that_cannot_be_read_is_not_called_fine() {
    let mut volume = partition(1, 4 * MIB, 64 * MIB);
    volume.unreadable = Some("no loop devices".to_owned());
    assert_eq!(verdict(&found(&examined(vec![volume]))), Severity::CannotTell);
}
