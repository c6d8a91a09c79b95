//! The judgement of `check` on what was gathered, without a device.

use flashfit_device::Bytes;
use flashfit_filesystem::FileSystemCatalog;
use flashfit_filesystem::check::{
    CheckFinding, ExaminedDevice, MountedVolume, Repair, Replan, Severity, UnfinishedApply, Volume,
    check, verdict,
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
    let erase_block = Some(Sourced::new(Bytes::mib(4), QuantitySource::Given));
    ExaminedDevice {
        target: "/dev/mmcblk0".to_owned(),
        disk: "mmcblk0".to_owned(),
        capacity_bytes: 1 << 30,
        geometry: Geometry { erase_block, ..Geometry::default() },
        disagreements: Vec::new(),
        table: Some("gpt".to_owned()),
        table_complaints: Vec::new(),
        table_is_lost: false,
        lost_header_bytes: None,
        repeated_entries: 0,
        is_optical: false,
        volumes,
        queue: None,
        trim_timer: None,
        unfinished: None,
        unfinished_improvement: None,
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
        partition_uuid: None,
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

fn repair_of(examined: &ExaminedDevice, check: &str) -> Repair {
    let found = found(examined).into_iter().find(|finding| finding.check == check);
    found.expect("it is found").repair.expect("it can be repaired")
}

fn found(examined: &ExaminedDevice) -> Vec<CheckFinding> {
    check(examined, &FileSystemCatalog::load(None).expect("valid"))
}

#[test]
fn an_aligned_device_is_fine() {
    let findings = found(&examined(vec![partition(1, 4 * MIB, 64 * MIB)]));
    assert_eq!(verdict(&findings), Severity::Fine);
}

#[test]
fn partitions_are_judged_by_the_first_erase_block() {
    let at = |start: u64| {
        let volumes = vec![partition(1, start, 4 * MIB), partition(2, start + 4 * MIB, 8 * MIB)];
        let mut examined = examined(volumes);
        examined.geometry.erase_block_offset = Bytes::mib(2);
        found(&examined)
    };
    let findings = at(6 * MIB);
    assert_eq!(verdict(&findings), Severity::Fine, "{findings:?}");
    let start = findings.iter().find(|finding| finding.check == "start").unwrap();
    assert!(start.evidence.ends_with("of 4 MiB (1) after the first one at 2 MiB"), "{start:?}");
    let findings = at(4 * MIB);
    let checks: Vec<&str> = findings.iter().map(|finding| finding.check).collect();
    assert_eq!(checks[..3], ["start", "size", "start"], "{findings:?}");
    assert_eq!(findings[3].severity, Severity::Fine, "{findings:?}");
    assert!(findings[0].evidence.contains("2 MiB after a boundary"), "{findings:?}");
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
    assert_eq!(findings[0].repair, repair.map(Repair::Command));
}

#[test]
fn two_partitions_in_one_erase_block_are_bad() {
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
    let Some(Repair::Improvement(repair)) = &findings[0].repair else { panic!("{findings:?}") };
    assert_eq!(repair.command_line(), "mount -o remount,nodiscard /mnt");
}

#[test]
fn a_file_system_that_cannot_be_read_is_not_called_fine() {
    let mut volume = partition(1, 4 * MIB, 64 * MIB);
    volume.unreadable = Some("no loop devices".to_owned());
    assert_eq!(verdict(&found(&examined(vec![volume]))), Severity::CannotTell);
}

fn replan(target: &str, erased: usize) -> Replan {
    Replan {
        target: target.to_owned(),
        kind: Some("vfat".to_owned()),
        erase_block_bytes: Some(4 * MIB),
        write_unit_bytes: None,
        erased,
    }
}

#[test]
fn one_partition_is_repaired_without_the_others() {
    let repair = repair_of(&examined(two_partitions()), "data start");
    assert_eq!(repair, Repair::Replan(replan("/dev/mmcblk0p1", 1)));
}

#[test]
fn a_start_between_erase_blocks_is_fine_where_vendors_put_the_data_on_one() {
    let mut volume = partition(1, 63 * 512, 512 * MIB);
    volume.facts = facts("vfat", &[], Some(4 * MIB - 63 * 512));
    let findings = found(&examined(vec![volume.clone()]));
    let start = findings.iter().find(|finding| finding.check == "start").expect("it is judged");
    assert_eq!(start.severity, Severity::Fine, "{}", start.evidence);
    volume.facts = facts("ext4", &[], None);
    let findings = found(&examined(vec![volume]));
    assert_eq!(verdict(&findings), Severity::Bad);
}

#[test]
fn a_wrong_start_is_repaired_with_the_whole_device() {
    let mut volumes = two_partitions();
    volumes[0].start_bytes = 63 * 512;
    let repair = repair_of(&examined(volumes), "start");
    assert_eq!(repair, Repair::Replan(replan("/dev/mmcblk0", 2)));
}

#[test]
fn a_repair_uses_the_geometry_of_the_check() {
    let mut examined = examined(two_partitions());
    examined.geometry.write_unit = Some(Sourced::new(Bytes::kib(16), QuantitySource::Given));
    let expected = Replan { write_unit_bytes: Some(16 << 10), ..replan("/dev/mmcblk0p1", 1) };
    assert_eq!(repair_of(&examined, "data start"), Repair::Replan(expected));
}

#[test]
fn a_partition_within_an_image_is_repaired_by_its_offset() {
    let mut examined = examined(two_partitions());
    examined.disk = String::new();
    examined.target = "a card.img".to_owned();
    let command = "tune2fs -E stride=1024,stripe_width=1024 'a card.img?offset=541065216'";
    let repair = repair_of(&examined, "stripe");
    let Repair::Improvement(improvement) = repair else { panic!("{repair:?}") };
    assert_eq!(improvement.command_line(), command);
}

#[test]
fn what_a_plan_cannot_do_better_is_not_bad() {
    let erase_block = |mib| Some(Sourced::new(Bytes::mib(mib), QuantitySource::Given));
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
        examined.geometry.erase_block = erase_block(unit_mib);
        let findings = found(&examined);
        let worst = &findings[0];
        assert!(worst.severity <= Severity::Advice && worst.repair.is_none(), "{kind}: {worst:?}");
    }
}

#[test]
fn a_device_of_which_nothing_is_known_is_not_called_fine() {
    let volume = Volume { is_partition: false, ..partition(1, 0, 1 << 30) };
    let mut examined = examined(vec![volume]);
    examined.table = None;
    assert_eq!(verdict(&found(&examined)), Severity::CannotTell);
}

#[test]
fn a_partition_that_is_the_target_does_not_end_behind_the_device() {
    let mut volume = partition(1, 4 * MIB, 512 * MIB);
    volume.facts = facts("btrfs", &[], None);
    let mut examined = examined(vec![volume]);
    examined.target = "/dev/mmcblk0p1".to_owned();
    examined.capacity_bytes = 512 * MIB;
    examined.table = None;
    assert_eq!(verdict(&found(&examined)), Severity::Fine);
}

/// Dreamplug's recipe has a stripe width of 1024, counted in strides; `apply` follows it.
#[test]
fn a_stripe_width_in_strides_is_fine_as_its_recipe_has_it() {
    let of_stride = |stride: u64| {
        let mut volumes = two_partitions();
        let numbers = [("stride_blocks", stride), ("stripe_width_blocks", 512)];
        volumes[1].facts = facts("ext4", &numbers, None);
        let found = check(&examined(volumes), &FileSystemCatalog::load(None).unwrap());
        found.into_iter().find(|finding| finding.check == "stripe").unwrap().severity
    };
    assert_eq!(of_stride(2), Severity::Fine);
    assert_eq!(of_stride(3), Severity::Advice);
}

#[test]
fn a_full_check_every_so_many_mounts_is_named_with_what_ends_it() {
    let mut volume = partition(1, 4 * MIB, 64 * MIB);
    let found = |examined: &ExaminedDevice| {
        let findings = found(examined);
        findings.into_iter().find(|finding| finding.check == "periodic check")
    };
    for (numbers, text) in [
        (&[("max_mount_count", 20), ("check_interval_s", 2_592_000)][..], "20 mounts or 30 days"),
        (&[("check_interval_s", 86_401)], "every 2 days"),
        (&[("max_mount_count", 20)], "every 20 mounts,"),
    ] {
        volume.facts = facts("ext4", numbers, None);
        let finding = found(&examined(vec![volume.clone()])).unwrap();
        assert!(finding.evidence.contains(text), "{}", finding.evidence);
        let Some(Repair::Improvement(repair)) = finding.repair else { panic!("no repair") };
        assert_eq!(repair.command_line(), "tune2fs -c 0 -i 0 /dev/mmcblk0p1");
    }
    volume.facts = facts("ext4", &[], None);
    assert_eq!(found(&examined(vec![volume])), None);
}

#[test]
fn freed_blocks_that_nobody_discards_are_named_only_where_that_is_known() {
    let mut volume = partition(1, 4 * MIB, 64 * MIB);
    let options = ["rw", "noatime"].map(str::to_owned).to_vec();
    volume.mounts =
        vec![MountedVolume { point: "/mnt".to_owned(), kind: "ext4".to_owned(), options }];
    let mut examined = examined(vec![volume]);
    let queue = flashfit_device::queue::QueueAttributes { discards: true, ..Default::default() };
    examined.queue = Some(queue);
    let has = |examined: &ExaminedDevice| found(examined).iter().any(|one| one.check == "trim");
    assert!(!has(&examined), "without systemd, something else may do it");
    examined.trim_timer = Some(true);
    assert!(!has(&examined));
    examined.trim_timer = Some(false);
    assert!(has(&examined));
    examined.volumes[0].mounts[0].options.push("discard".to_owned());
    assert!(!has(&examined));
}
