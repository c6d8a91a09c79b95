//! Plans over all geometries: none that does not fit, overlaps, or leaves the grid of erase blocks;
//! and a plan made again of its choices is the same plan.

use std::path::PathBuf;

use flashfit_device::Bytes;
use flashfit_device::describe::DeviceKind;
use flashfit_device::identity::DeviceIdentity;
use flashfit_filesystem::plan::{
    GEOMETRY, Plan, PlanError, PlanRequest, PlannedDevice, StripeWidth, choose,
};
use flashfit_filesystem::{
    Durability, FileSystem, FileSystemCatalog, PartitionEnd, PartitionTable, Scheduler,
};
use flashfit_geometry::{EraseBlockGrid, Geometry, QuantitySource, Sourced};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn device(capacity_bytes: u64, sector_bytes: u64) -> PlannedDevice {
    PlannedDevice {
        path: PathBuf::from("/dev/mmcblk0"),
        disk: "mmcblk0".to_owned(),
        kind: DeviceKind::SdCard,
        identity: DeviceIdentity::default(),
        capacity_bytes,
        sector_bytes,
        partition_start_bytes: None,
        discard: true,
        volatile_cache: false,
    }
}

fn request(table: Option<PartitionTable>) -> PlanRequest {
    PlanRequest {
        table,
        start_bytes: None,
        end: None,
        options: None,
        scheduler: Scheduler::new("none"),
        label: None,
        second: None,
        stripe_width: StripeWidth::Blocks,
        recipe: None,
        mount_point: PathBuf::from("/mnt/flash"),
        allow: Durability::Safe,
    }
}

fn geometry(erase_block: Option<u64>, write_unit: Option<u64>) -> Geometry {
    let known =
        |bytes: Option<u64>| bytes.map(|bytes| Sourced::new(Bytes(bytes), QuantitySource::Given));
    Geometry::of_sizes(known(erase_block), known(write_unit))
}

fn plan(
    filesystem: &FileSystem,
    device: PlannedDevice,
    given: Geometry,
    declared: Geometry,
    request: &PlanRequest,
) -> Result<Plan, PlanError> {
    Plan::make(filesystem, &choose(filesystem, device, given, declared, request)?)
}

/// What must hold of any plan.
fn assert_sound(plan: &Plan, unit: u64) {
    let place = plan.place;
    let label = format!("{} {:?}", plan.setup, plan.place);
    let sector = plan.device.sector_bytes;
    let end = place.start_bytes.checked_add(place.size_bytes).expect("no overflow");
    assert!(end <= plan.device.capacity_bytes, "{label}: within the device");
    if plan.table != PartitionTable::None {
        assert_eq!(place.start_bytes % unit, 0, "{label}: start on the grid");
        let is_f2fs = plan.setup.filesystem == "f2fs";
        let grain = if is_f2fs { unit } else { unit.min(1 << 20) };
        assert_eq!(place.size_bytes % grain, 0, "{label}: whole units");
        assert!(place.size_bytes > 0, "{label}");
        assert!(place.start_bytes >= plan.table.front_bytes(sector), "{label}: behind the table");
        let back = plan.table.back_bytes(sector);
        let last = plan.device.capacity_bytes / sector * sector - back;
        assert!(end <= last, "{label}: before the table's copy");
        let reach = plan.table.reach_bytes(sector);
        assert!(last.min(reach) - end < grain, "{label}: to the end of the device");
        assert_eq!(plan.partitions.len(), 1);
    }
    if plan.table == PartitionTable::Mbr {
        assert!(end / sector <= u64::from(u32::MAX), "{label}: within the reach of an MBR");
    }
    let fitted = plan.setup.options.iter().any(|option| option == GEOMETRY);
    if let (Some(data), "fat32") = (plan.number("data_start_bytes"), &*plan.setup.filesystem) {
        let reserved = plan.number("reserved_sectors").expect("told");
        assert!(reserved <= 65_535, "{label}");
        let told = plan.warnings.iter().any(|text| text.contains("not on an erase block"));
        // Only what the reserved sectors do not reach is left on a part of an erase block.
        let is_on_grid = (place.start_bytes + data) % unit == 0;
        assert!(is_on_grid || (told && unit > 32 * MIB), "{label}: data on the grid");
    }
    let is_fat = plan.setup.filesystem == "fat32";
    if let (Some(data), true, false) =
        (plan.number("data_start_bytes"), unit.is_power_of_two(), is_fat)
    {
        assert_eq!((place.start_bytes + data) % unit, 0, "{label}: data on the grid");
    }
    if let Some(main) = plan.number("main_start_bytes") {
        let section = plan.number("section_bytes").expect("told");
        assert_eq!((place.start_bytes + main) % section, 0, "{label}: sections on the grid");
        let told = plan.warnings.iter().any(|text| text.contains("section"));
        assert!(section % unit == 0 || unit % section == 0 || told, "{label}: {section} {unit}");
    }
    if let (Some(width), Some(stride)) =
        (plan.number("stripe_width_blocks"), plan.number("stride_blocks"))
    {
        assert!(fitted && width * 4096 % unit == 0, "{label}: {width}");
        assert_eq!(width % stride, 0, "{label}");
    }
    if let (Some(swidth), Some(sunit)) = (plan.number("swidth_bytes"), plan.number("sunit_bytes")) {
        assert!(swidth % unit == 0 && swidth % sunit == 0, "{label}: {swidth} {sunit}");
    }
    assert!(plan.lost_bytes <= plan.device.capacity_bytes, "{label}");
    for number in &plan.numbers {
        assert!(!number.reason.is_empty(), "{label}: {}", number.name);
    }
}

fn units() -> impl Strategy<Value = u64> {
    let odd = [12 * MIB, 24 * MIB, 3 * MIB, 3 * MIB / 2, 48 * MIB, 5 * MIB];
    prop_oneof![
        (12u32..28).prop_map(|power| 1 << power),
        (12u32..25).prop_map(|power| 3 << power),
        proptest::sample::select(odd.to_vec()),
        (1u64..40_000).prop_map(|sectors| sectors * 4096),
    ]
}

fn capacities() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0u32..50, 0u64..4096).prop_map(|(power, more)| (1u64 << power) + more * 512),
        (1u64..4096).prop_map(|mib| mib * MIB),
        Just(8_068_792_320),
        Just(31_914_983_424),
        Just(u64::MAX / 4),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_plan_leaves_the_device_or_the_grid(
        capacity in capacities(),
        unit in units(),
        write_unit in proptest::option::of(proptest::sample::select(
            vec![512, 2048, 4096, 8192, 16384, 48 << 10, 6000, 1 << 20],
        )),
        sector in proptest::sample::select(vec![512u64, 4096]),
        table in proptest::option::of(proptest::sample::select(
            vec![PartitionTable::None, PartitionTable::Gpt, PartitionTable::Mbr],
        )),
    ) {
        let catalog = FileSystemCatalog::load(None).expect("valid");
        for filesystem in catalog.filesystems() {
            let given = geometry(Some(unit), write_unit);
            let made = plan(filesystem, device(capacity, sector), given, Geometry::default(),
                &request(table));
            let Ok(made) = made else { continue };
            assert_sound(&made, unit);
            let again = made.rebuild(&catalog).expect("it was made before");
            prop_assert_eq!(&again, &made);
            let text = serde_json::to_string(&made).expect("plain data");
            let read: Plan = serde_json::from_str(&text).expect("what was written");
            prop_assert_eq!(&read, &made);
        }
    }
}

#[test]
fn every_file_system_follows_the_first_erase_block() {
    let catalog = FileSystemCatalog::load(None).expect("valid");
    let mut request = request(None);
    request.second = Some("swap:64MiB".parse().expect("valid"));
    for (unit, offset) in [(4 * MIB, 2 * MIB), (4 * MIB, 7 << 19), (8 * MIB, MIB), (6 * MIB, 4096)]
    {
        let grid = EraseBlockGrid::new(unit, offset).expect("not 0");
        for filesystem in catalog.filesystems() {
            let known = geometry(Some(unit), None);
            let given = Geometry { erase_block_offset: Bytes(offset), ..known };
            let none = Geometry::default();
            let made = plan(filesystem, device(8 << 30, 512), given, none, &request);
            let Ok(made) = made else { continue };
            let label = format!("{} {unit} {offset}", filesystem.name);
            for partition in &made.partitions {
                assert!(grid.is_boundary(partition.start_bytes), "{label}: {partition:?}");
            }
            let data = made.number("data_start_bytes").filter(|_| filesystem.name == "fat32");
            let data = made.place.start_bytes + data.unwrap_or(0);
            assert!(grid.is_boundary(data), "{label}: {:?}", made.numbers);
            assert_eq!(made.geometry.used.erase_block_offset.0, offset, "{label}");
            let again = made.rebuild(&catalog).expect("it was made before");
            assert_eq!(again.partitions, made.partitions, "{label}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A file may contain anything.
    #[test]
    fn no_input_makes_a_plan_panic(
        numbers in proptest::array::uniform8(prop_oneof![
            any::<u64>(),
            (0u32..64).prop_map(|power| 1 << power),
            0u64..1 << 40,
        ]),
        known in proptest::array::uniform6(any::<bool>()),
    ) {
        let catalog = FileSystemCatalog::load(None).expect("valid");
        let some = |at: usize| known[at].then_some(numbers[at]);
        let mut device = device(numbers[6], if known[5] { 512 } else { numbers[7] });
        device.partition_start_bytes = some(4);
        let mut request = request(None);
        request.start_bytes = some(5);
        request.stripe_width = StripeWidth::Strides;
        for filesystem in catalog.filesystems() {
            let (given, declared) = (geometry(some(0), some(1)), geometry(some(2), some(3)));
            let given = Geometry { erase_block_offset: Bytes(some(3).unwrap_or(0)), ..given };
            if let Ok(inputs) = choose(filesystem, device.clone(), given, declared, &request) {
                let _ = Plan::make(filesystem, &inputs);
            }
        }
    }
}

fn named(name: &str) -> FileSystem {
    FileSystemCatalog::load(None).expect("valid").filesystem(name).expect("there").clone()
}

#[test]
fn usual_cards_get_a_plan_for_every_file_system() {
    let catalog = FileSystemCatalog::load(None).unwrap();
    for unit in [4 * MIB, 8 * MIB, 12 * MIB, 24 * MIB, 64 * MIB] {
        for filesystem in catalog.filesystems().iter().filter(|one| one.layered.is_none()) {
            let given = geometry(Some(unit), Some(16 << 10));
            let made = plan(
                filesystem,
                device(31_914_983_424, 512),
                given,
                Geometry::default(),
                &request(None),
            );
            let made = made.unwrap_or_else(|error| panic!("{} {unit}: {error}", filesystem.name));
            assert_sound(&made, unit);
            assert!(
                made.setup.options.iter().any(|option| option == GEOMETRY),
                "{} {unit}: {:?}",
                filesystem.name,
                made.setup.options
            );
        }
    }
}

#[test]
fn a_partition_ends_with_the_device_unless_asked_and_f2fs_on_the_grid() {
    let device = device(103 * MIB, 512);
    let known = geometry(Some(4 * MIB), None);
    let size = |name: &str, end| {
        let request = PlanRequest { end, ..request(Some(PartitionTable::Gpt)) };
        let filesystem = named(name);
        let made = plan(&filesystem, device.clone(), known.clone(), Geometry::default(), &request);
        made.unwrap().place.size_bytes / MIB
    };
    assert_eq!(size("ext4", None), 98);
    assert_eq!(size("ext4", Some(PartitionEnd::Device)), 98);
    assert_eq!(size("ext4", Some(PartitionEnd::Grid)), 96);
    assert_eq!(size("f2fs", None), 96);
    assert_eq!(size("f2fs", Some(PartitionEnd::Device)), 98);
}

#[test]
fn a_plan_of_an_earlier_version_keeps_its_end() {
    let request =
        PlanRequest { end: Some(PartitionEnd::Grid), ..request(Some(PartitionTable::Gpt)) };
    let known = geometry(Some(4 * MIB), None);
    let device = device(103 * MIB, 512);
    let made = plan(&named("ext4"), device, known, Geometry::default(), &request).unwrap();
    let mut document = serde_json::to_value(&made).unwrap();
    document["choices"].as_object_mut().unwrap().remove("end").unwrap();
    let read: Plan = serde_json::from_value(document).unwrap();
    let catalog = FileSystemCatalog::load(None).unwrap();
    assert_eq!(read.rebuild(&catalog).unwrap(), made);
}

#[test]
fn a_changed_plan_is_told_from_the_one_that_follows_from_its_choices() {
    let catalog = FileSystemCatalog::load(None).unwrap();
    let given = geometry(Some(8 * MIB), Some(8192));
    let made = plan(
        &named("ext4"),
        device(8_068_792_320, 512),
        given,
        Geometry::default(),
        &request(None),
    )
    .unwrap();
    let mut forged = made.clone();
    forged.commands[0].args.push("/dev/sda".to_owned());
    let again = forged.rebuild(&catalog).unwrap();
    assert_eq!(again, made);
    assert_eq!(flashfit_filesystem::plan::differences(&forged, &again), ["commands"]);
    let text = serde_json::to_string(&made).unwrap().replacen('{', "{\"more\":1,", 1);
    // What a newer flashfit added is passed over.
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), made);
}

#[test]
fn where_declared_and_given_differ_both_grids_are_kept() {
    let declared = geometry(Some(6 * MIB), None);
    let given = geometry(Some(4 * MIB), Some(16 << 10));
    let made = plan(&named("ext4"), device(1 << 33, 512), given, declared, &request(None)).unwrap();
    assert_sound(&made, 12 * MIB);
    assert!(made.warnings[0].contains("common multiple"), "{:?}", made.warnings);
}

#[test]
fn an_unsafe_option_needs_leave() {
    let given = geometry(Some(4 * MIB), None);
    let mut request = request(None);
    request.options = Some(vec!["nojournal".to_owned()]);
    let device = device(1 << 33, 512);
    let made = |request: &PlanRequest| {
        plan(&named("ext4"), device.clone(), given.clone(), Geometry::default(), request)
    };
    assert!(matches!(made(&request), Err(PlanError::NotAllowed { .. })));
    request.allow = Durability::MayCorrupt;
    assert_eq!(made(&request).unwrap().durability.durability, Durability::MayCorrupt);
}

#[test]
fn an_mbr_does_not_reach_behind_two_tebibytes() {
    let given = geometry(Some(4 * MIB), None);
    let made = plan(
        &named("ext4"),
        device(3 << 40, 512),
        given,
        Geometry::default(),
        &request(Some(PartitionTable::Mbr)),
    )
    .unwrap();
    assert_sound(&made, 4 * MIB);
    assert!(made.lost_bytes > 1 << 40);
    assert!(made.table_reason.contains("reach"), "{}", made.table_reason);
}

#[test]
fn a_partition_stays_where_it_is() {
    let mut partition = device(1 << 30, 512);
    partition.partition_start_bytes = Some(63 * 512);
    let given = geometry(Some(4 * MIB), None);
    let made = |table| {
        plan(
            &named("fat32"),
            partition.clone(),
            given.clone(),
            Geometry::default(),
            &request(table),
        )
    };
    let plan = made(None).unwrap();
    assert_eq!(plan.table, PartitionTable::None);
    assert!(plan.commands.iter().all(|command| command.program != "sfdisk"));
    let data = plan.number("data_start_bytes").unwrap();
    assert_eq!((63 * 512 + data) % (4 * MIB), 0);
    assert!(matches!(made(Some(PartitionTable::Gpt)), Err(PlanError::Partition { .. })));
}

/// The factory format is as good as `geometry` where its data happen to start on an erase block.
#[test]
fn the_vendors_format_is_called_unfitted_only_where_it_is() {
    for (name, options, unit, is_off) in [
        ("fat32", "vendor", 4 * MIB, false),
        ("fat32", "vendor", MIB, false),
        ("fat32", "vendor", 24 * MIB, true),
        ("fat32", "noatime", 4 * MIB, true),
        ("exfat", "vendor", 16 * MIB, false),
        ("exfat", "vendor", 20 * MIB, true),
    ] {
        let mut request = request(None);
        request.options = Some(vec![options.to_owned()]);
        let (device, given) = (device(31_914_983_424, 512), geometry(Some(unit), None));
        let plan = plan(&named(name), device, given, geometry(None, None), &request).expect(name);
        let warns = plan.warnings.iter().any(|text| text.contains("is not fitted"));
        assert_eq!(warns, is_off, "{name} {options} {unit}: {:?}", plan.warnings);
        if options == "vendor" {
            let start = plan.place.start_bytes + plan.number("data_start_bytes").expect("told");
            assert_eq!(start % unit != 0, is_off, "{name} {unit}: {start}");
        }
    }
}

#[test]
fn a_partition_whose_data_can_be_aligned_is_not_warned_of() {
    let mut partition = device(1 << 33, 512);
    partition.partition_start_bytes = Some(63 * 512);
    let made = |name: &str, option: Option<&str>| {
        let mut request = request(None);
        request.options = option.map(|option| vec![option.to_owned()]);
        let given = geometry(Some(4 * MIB), None);
        plan(&named(name), partition.clone(), given, geometry(None, None), &request).expect(name)
    };
    let is_warned =
        |plan: &Plan| plan.warnings.iter().any(|text| text.contains("the partition starts"));
    assert!(!is_warned(&made("fat32", None)) && is_warned(&made("ext4", None)));
    // Numbers that mkfs is not given align nothing.
    assert!(is_warned(&made("fat32", Some("noatime"))));
    let vendor = made("fat32", Some("vendor"));
    let data = vendor.place.start_bytes + vendor.number("data_start_bytes").unwrap();
    assert_eq!(is_warned(&vendor), data % (4 * MIB) != 0, "{data}");
}

#[test]
fn differences_ignore_explanatory_text() {
    let given = geometry(Some(8 * MIB), Some(8192));
    let none = Geometry::default();
    let made = plan(&named("ext4"), device(1 << 33, 512), given, none, &request(None)).unwrap();
    let mut reworded = made.clone();
    reworded.numbers[0].reason = "reworded".to_owned();
    reworded.partitions[0].reason = "reworded".to_owned();
    reworded.commands[0].purpose = "reworded".to_owned();
    reworded.table_reason = "reworded".to_owned();
    reworded.lost_reason = "reworded".to_owned();
    reworded.trim.reason = "reworded".to_owned();
    reworded.warnings.push("reworded".to_owned());
    assert!(flashfit_filesystem::plan::differences(&made, &reworded).is_empty());
    reworded.numbers[0].value += 1;
    assert_eq!(flashfit_filesystem::plan::differences(&made, &reworded), ["numbers"]);
}

/// What a plan states is what its commands make.
#[test]
fn zones_that_are_asked_for_are_in_the_numbers() {
    let catalog = FileSystemCatalog::load(None).unwrap();
    let f2fs = catalog.filesystem("f2fs").unwrap();
    for (options, sections, main_start) in
        [(&["geometry"][..], 1, 20 * 2 * MIB), (&["geometry", "zone-2"], 2, 24 * 2 * MIB)]
    {
        let options = options.iter().map(|name| (*name).to_owned()).collect();
        let mut request = request(Some(PartitionTable::None));
        request.options = Some(options);
        let (device, given) = (device(4_286_578_688, 512), geometry(Some(4 * MIB), None));
        let plan = plan(f2fs, device, given, geometry(None, None), &request).unwrap();
        assert_eq!(plan.number("zone_sections"), Some(sections), "{plan:#?}");
        assert_eq!(plan.number("main_start_bytes"), Some(main_start), "{plan:#?}");
        let mkfs = plan.commands.iter().any(|command| command.line().contains("-z 2"));
        assert_eq!(mkfs, sections == 2, "{plan:#?}");
    }
}

#[test]
fn a_second_partition_is_on_its_own_erase_blocks_only_if_they_are_known() {
    let catalog = FileSystemCatalog::load(None).expect("the built-in catalog");
    let ext4 = catalog.filesystem("ext4").expect("built in");
    let second = Some("swap:512MiB".parse().expect("a partition"));
    let request = PlanRequest { second, ..request(None) };
    let reason = |erase_block: Option<u64>| {
        let device = device(8 << 30, 512);
        let made = plan(ext4, device, geometry(erase_block, None), Geometry::default(), &request);
        made.expect("it fits").partitions[1].reason.clone()
    };
    let known = reason(Some(4 * MIB));
    assert!(known.contains("no erase block is shared"), "{known}");
    let unknown = reason(None);
    assert!(unknown.contains("of the usual 1 MiB"), "{unknown}");
    assert!(unknown.contains("is shared with the first partition is not known"), "{unknown}");
}
