//! Layouts on devices of many sizes, and what cannot be laid out.

use flashfit_geometry::{QuantitySource, Sourced};

use super::*;

const MIB: u64 = 1 << 20;

fn erase_block(bytes: u64) -> Geometry {
    let erase_block = Some(Sourced::new(Bytes(bytes), QuantitySource::Given));
    Geometry { erase_block, ..Geometry::default() }
}

fn partition_of(bytes: u64) -> PartitionLayout {
    let table = PartitionTable::Gpt;
    PartitionLayout::Partition { start_bytes: bytes, size_bytes: bytes, table }
}

fn partition(plan: &LayoutPlan) -> (u64, u64) {
    let PartitionLayout::Partition { start_bytes, size_bytes, .. } = plan.layout else {
        panic!("{plan:?}")
    };
    (start_bytes, size_bytes)
}

#[test]
fn a_partition_is_named_after_its_device() {
    let layout = partition_of(MIB);
    let names = [
        ("/dev/sda", "/dev/sda1"),
        ("/dev/mmcblk0", "/dev/mmcblk0p1"),
        ("/dev/nvme0n1", "/dev/nvme0n1p1"),
        ("/dev/loop7", "/dev/loop7p1"),
        (EXAMPLE_NODE, EXAMPLE_PARTITION),
    ];
    for (disk, partition) in names {
        assert_eq!(layout.node(Path::new(disk)), Path::new(partition));
        assert_eq!(PartitionLayout::WholeDevice.node(Path::new(disk)), Path::new(disk));
    }
}

#[test]
fn every_plan_starts_on_the_grid_and_ends_before_the_end() {
    let units = [4096, 16 << 10, 64 << 10, MIB, 3 * MIB / 2, 4 * MIB, 12 * MIB, 24 * MIB, 64 * MIB];
    let capacities = (0..64)
        .flat_map(|power| [1u64 << power, (1 << power) - 1, (1 << power) + 512, 3 << power])
        .chain([8_068_792_320, 31_914_983_424, 3_965_190_144, u64::MAX]);
    let mut planned = 0;
    for capacity in capacities {
        for (sector, unit) in [512, 4096].into_iter().flat_map(|s| units.map(|u| (s, u))) {
            for end in [PartitionEnd::Device, PartitionEnd::Grid] {
                let (table, geometry) = (PartitionTable::Gpt, erase_block(unit));
                let place = (LayoutStart::Auto, end);
                let Ok(plan) = plan_layout_in(table, capacity, sector, &geometry, place) else {
                    assert!(capacity < 2 * unit.max(64 << 10) + 64 * 1024, "{capacity} {unit}");
                    continue;
                };
                planned += 1;
                let (start, size) = partition(&plan);
                let back = sector + (16 << 10);
                let grain = if end == PartitionEnd::Grid { unit } else { unit.min(MIB) };
                assert!(size > 0 && aligned(start, unit) && aligned(size, grain));
                assert!(start >= 2 * sector + (16 << 10), "{capacity} {sector} {unit}");
                assert!(start.checked_add(size).unwrap() <= capacity / sector * sector - back);
                assert!(capacity - start - size < grain + back + sector, "{capacity} {unit}");
            }
        }
    }
    assert!(planned > 1000, "{planned}");
}

#[test]
fn the_dreamplugs_card_starts_at_its_second_erase_block() {
    let geometry = erase_block(8 * MIB);
    let plan = plan_layout(8_068_792_320, 512, &geometry, LayoutStart::Auto).unwrap();
    let script = plan.layout.sfdisk_script(512).unwrap();
    assert!(script.contains("start=16384, size=15740928,"), "{script}");
    assert!(script.starts_with("label: gpt\n"));
    assert!(plan.reason.contains("8 MiB"));
}

#[test]
fn an_unknown_geometry_gets_the_default_start() {
    let plan = plan_layout(100 * MIB, 512, &Geometry::default(), LayoutStart::Auto).unwrap();
    assert_eq!(partition(&plan), (MIB, 98 * MIB));
    assert!(plan.reason.contains("is unknown"));
}

#[test]
fn an_mbr_that_does_not_reach_the_end_is_the_reason() {
    let tib = 1u64 << 40;
    let reason = |table, capacity, end| {
        let request = (LayoutStart::Auto, end);
        plan_layout_in(table, capacity, 512, &erase_block(4 * MIB), request).unwrap().reason
    };
    let (mbr, device) = (PartitionTable::Mbr, PartitionEnd::Device);
    let found = reason(mbr, 3 * tib, device);
    assert!(found.contains("reach of the partition table ends, at 2.0 TiB"), "{found}");
    assert!(!found.contains("where the device ends"), "{found}");
    assert!(reason(mbr, 3 * tib, PartitionEnd::Grid).contains("the reach of the partition"));
    for (table, capacity) in [(mbr, tib), (PartitionTable::Gpt, 3 * tib)] {
        assert!(reason(table, capacity, device).contains("where the device ends"));
    }
}

#[test]
fn a_given_start_is_kept_and_judged() {
    let geometry = erase_block(4 * MIB);
    let at = |bytes| plan_layout(100 * MIB, 512, &geometry, LayoutStart::At(Bytes(bytes)));
    let plan = at(63 * 512).unwrap();
    assert_eq!(partition(&plan).0, 63 * 512);
    assert!(plan.reason.contains("after a boundary"), "{}", plan.reason);
    assert!(at(8 * MIB).unwrap().reason.contains("on a boundary"));
    assert!(matches!(at(1000), Err(LayoutError::Start { .. })));
    assert!(matches!(at(33 * 512), Err(LayoutError::Start { .. })));
    assert!(matches!(at(99 * MIB), Err(LayoutError::TooSmall { .. })));
    assert!(matches!(at(u64::MAX - 511), Err(LayoutError::TooSmall { .. })));
}

#[test]
fn partitions_follow_the_first_erase_block() {
    let offset = |bytes| Geometry { erase_block_offset: Bytes(bytes), ..erase_block(4 * MIB) };
    let start = |bytes, start| plan_layout(100 * MIB, 512, &offset(bytes), start);
    let plan = start(2 * MIB, LayoutStart::Auto).unwrap();
    assert_eq!(partition(&plan).0, 2 * MIB);
    assert_eq!(
        plan.reason,
        "the start is a multiple of the erase block of 4 MiB (given by the user), counted from \
         the first one at 2 MiB; it ends where the device ends, in whole MiB"
    );
    // The GPT takes 17 KiB.
    assert_eq!(partition(&start(8 << 10, LayoutStart::Auto).unwrap()).0, 4 * MIB + (8 << 10));
    let given = |at| start(2 * MIB, LayoutStart::At(Bytes(at))).unwrap().reason;
    assert!(given(6 * MIB).contains("on a boundary"), "{}", given(6 * MIB));
    assert!(given(4 * MIB).contains("2097152 bytes after"), "{}", given(4 * MIB));
    let whole = start(2 * MIB, LayoutStart::Whole).unwrap().reason;
    assert!(whole.contains("2 MiB before the first erase block"), "{whole}");
    let odd = start(513, LayoutStart::Auto);
    assert!(matches!(odd, Err(LayoutError::OddOffset { .. })), "{odd:?}");
}

#[test]
fn odd_units_and_sectors_are_errors() {
    let plan = |sector, unit| plan_layout(100 * MIB, sector, &erase_block(unit), LayoutStart::Auto);
    assert!(matches!(plan(512, 0), Err(LayoutError::OddUnit { .. })));
    assert!(matches!(plan(4096, 6 * 1024), Err(LayoutError::OddUnit { .. })));
    assert!(matches!(plan(0, MIB), Err(LayoutError::Sector(0))));
    assert!(matches!(plan(520, MIB), Err(LayoutError::Sector(520))));
    assert!(matches!(plan(512, 1 << 63), Err(LayoutError::TooSmall { .. })));
}

#[test]
fn a_partitions_node_is_named_as_the_kernel_does() {
    let partition = partition_of(MIB);
    assert_eq!(partition.node(Path::new("/dev/sda")), Path::new("/dev/sda1"));
    assert_eq!(partition.node(Path::new("/dev/mmcblk0")), Path::new("/dev/mmcblk0p1"));
    assert_eq!(PartitionLayout::WholeDevice.node(Path::new("/dev/sda")), Path::new("/dev/sda"));
    assert_eq!(PartitionLayout::WholeDevice.sfdisk_script(512), None);
}
