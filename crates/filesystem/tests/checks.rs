//! The judgement of `check` on what was gathered, without a device.

use flashfit_device::Bytes;
use flashfit_filesystem::FileSystemCatalog;
use flashfit_filesystem::check::{
    CheckFinding, ExaminedDevice, MountedVolume, Severity, UnfinishedApply, Volume, check, verdict,
};
use flashfit_filesystem::facts::{FactNumber, FileSystemFacts};
use flashfit_geometry::{Geometry, QuantitySource, Sourced};

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

fn examined(volumes: Vec<Volume>) -> ExaminedDevice {
    let erase_unit = Some(Sourced::new(Bytes::mib(4), QuantitySource::Given));
    ExaminedDevice {
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

fn facts(
    kind: &str,
    numbers: &[(&str, u64)],
    data_start_bytes: Option<u64>,
) -> Option<FileSystemFacts> {
    let number = |(name, value): &(&str, u64)| FactNumber {
        name: (*name).to_owned(),
        value: *value,
        read_from: String::new(),
    };
    Some(FileSystemFacts {
        kind: kind.to_owned(),
        label: None,
        uuid: None,
        block_bytes: 4096,
        numbers: numbers.iter().map(number).collect(),
        words: Vec::new(),
        data_start_bytes,
        features: Vec::new(),
    })
}

/// As a Raspberry Pi has it; the data of the first do not start on an erase block.
fn two_partitions() -> Vec<Volume> {
    let mut boot = partition(1, 4 * MIB, 512 * MIB);
    boot.facts = facts("vfat", &[], Some(MIB));
    let mut root = partition(2, 516 * MIB, 400 * MIB);
    root.facts = facts("ext4", &[], None);
    vec![boot, root]
}

fn mend_of(examined: &ExaminedDevice, check: &str) -> String {
    let found = found(examined).into_iter().find(|finding| finding.check == check);
    found.expect("it is found").repair.expect("it can be mended")
}

fn found(examined: &ExaminedDevice) -> Vec<CheckFinding> {
    check(examined, &FileSystemCatalog::load(None).expect("valid"))
}

#[test]
fn an_aligned_medium_is_fine() {
    let findings = found(&examined(vec![partition(1, 4 * MIB, 64 * MIB)]));
    assert_eq!(verdict(&findings), Severity::Fine);
}

#[test]
fn what_was_left_unfinished_comes_with_the_command_that_ends_it() {
    let mut examined = examined(Vec::new());
    let repair = Some("flashfit apply plan.json /dev/mmcblk0".to_owned());
    examined.unfinished =
        Some(UnfinishedApply { what: "interrupted".to_owned(), repair: repair.clone() });
    let findings = found(&examined);
    assert_eq!(findings[0].check, "unfinished");
    assert_eq!(findings[0].severity, Severity::Bad);
    assert_eq!(findings[0].repair, repair);
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
    volume.mounts =
        vec![MountedVolume { point: "/mnt".to_owned(), kind: "ext4".to_owned(), options }];
    let mut examined = examined(vec![volume]);
    assert_eq!(verdict(&found(&examined)), Severity::Fine);
    examined.trim_timer = Some(true);
    let findings = found(&examined);
    assert_eq!((findings[0].check, findings[0].severity), ("trim", Severity::Advice));
    let repair = findings[0].repair.as_deref();
    assert_eq!(repair, Some("mount -o remount,nodiscard /mnt"));
}

#[test]
fn a_file_system_that_cannot_be_read_is_not_called_fine() {
    let mut volume = partition(1, 4 * MIB, 64 * MIB);
    volume.unreadable = Some("no loop devices".to_owned());
    assert_eq!(verdict(&found(&examined(vec![volume]))), Severity::CannotTell);
}

#[test]
fn one_partition_is_mended_without_the_others() {
    let examined = examined(two_partitions());
    let repair = mend_of(&examined, "data start");
    assert!(repair.starts_with("flashfit plan /dev/mmcblk0p1 --fs fat32"), "{repair}");
    assert!(repair.ends_with("# erases it: save its files before"), "{repair}");
}

#[test]
fn what_erases_every_partition_says_so() {
    let mut volumes = two_partitions();
    volumes[0].start_bytes = 63 * 512;
    let repair = mend_of(&examined(volumes), "start");
    assert!(repair.starts_with("flashfit plan /dev/mmcblk0 --fs fat32"), "{repair}");
    assert!(repair.ends_with("# erases all 2 partitions: save their files before"), "{repair}");
}

#[test]
fn a_mend_is_told_what_the_check_was_told() {
    let mut examined = examined(two_partitions());
    examined.geometry.write_unit = Some(Sourced::new(Bytes::kib(16), QuantitySource::Given));
    let repair = mend_of(&examined, "data start");
    assert!(repair.contains(" --erase-block 4MiB --write-unit 16KiB "), "{repair}");
}

#[test]
fn a_partition_within_an_image_is_mended_by_its_place() {
    let mut examined = examined(two_partitions());
    examined.disk = String::new();
    examined.target = "a card.img".to_owned();
    let repair = mend_of(&examined, "stripe");
    assert_eq!(repair, "tune2fs -E stride=1024,stripe_width=1024 'a card.img?offset=541065216'");
}

#[test]
fn what_a_plan_cannot_do_better_is_not_bad() {
    let erase_unit = |mib| Some(Sourced::new(Bytes::mib(mib), QuantitySource::Given));
    let segment = 2 * MIB;
    for (kind, unit_mib, numbers, data_start) in [
        ("exfat", 12, vec![], Some(8 * MIB)),
        ("f2fs", 3, vec![("section_bytes", segment)], Some(24 * MIB)),
        ("ext4", 192, vec![], None),
        ("xfs", 192, vec![], None),
    ] {
        let mut volume = partition(1, unit_mib * MIB * 2, 600 * MIB);
        volume.facts = facts(kind, &numbers, data_start);
        let mut examined = examined(vec![volume]);
        examined.geometry.erase_unit = erase_unit(unit_mib);
        let findings = found(&examined);
        let worst = &findings[0];
        assert!(worst.severity <= Severity::Advice && worst.repair.is_none(), "{kind}: {worst:?}");
    }
}

#[test]
fn a_medium_of_which_nothing_is_known_is_not_called_fine() {
    let volume = Volume { is_partition: false, ..partition(1, 0, 1 << 30) };
    let mut examined = examined(vec![volume]);
    examined.table = None;
    assert_eq!(verdict(&found(&examined)), Severity::CannotTell);
}

#[test]
fn a_partition_that_is_the_target_does_not_end_behind_the_medium() {
    let mut volume = partition(1, 4 * MIB, 512 * MIB);
    volume.facts = facts("btrfs", &[], None);
    let mut examined = examined(vec![volume]);
    examined.target = "/dev/mmcblk0p1".to_owned();
    examined.capacity_bytes = 512 * MIB;
    examined.table = None;
    assert_eq!(verdict(&found(&examined)), Severity::Fine);
}
