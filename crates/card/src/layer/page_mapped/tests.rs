//! Costs of writes, in NAND pages and in time.

use super::*;
use crate::model::tests::{SMALL, parse, small_with};
use crate::nand::contents::RetentionPolicy;

fn write(layer: &mut PageMapped, nand: &mut Nand, logical_page: u32, whole: bool) -> u64 {
    let start_ns = nand.finished_ns();
    nand.begin(start_ns);
    layer.write(nand, PageWrite { logical_page, whole, request_bytes: 4096 });
    layer.settle(nand);
    nand.finished_ns() - start_ns
}

fn new(model: &CardModel) -> (PageMapped, Nand) {
    (PageMapped::new(model), Nand::new(model, RetentionPolicy::Nothing))
}

fn layer_and_nand() -> (PageMapped, Nand) {
    new(&parse(SMALL).unwrap())
}

/// Performs all background work.
fn idle(layer: &mut PageMapped, nand: &mut Nand) {
    let start_ns = nand.finished_ns();
    nand.begin(start_ns);
    while layer.work_in_background(nand) {}
}

fn everything_is_found(layer: &mut PageMapped, nand: &mut Nand) -> bool {
    (0..256).all(|page| layer.read(nand, page).is_some())
}

#[test]
fn sequential_overwrites_copy_nothing() {
    for collection in ["greedy", "cost-benefit", "fifo"] {
        let collection = format!("collection = \"{collection}\"\n[discard]");
        let (mut layer, mut nand) = new(&small_with(&[("[discard]", &collection)]).unwrap());
        for _ in 0..10 {
            for page in 0..256 {
                write(&mut layer, &mut nand, page, true);
            }
        }
        assert_eq!(nand.counters().programs, 2560);
        assert_eq!(nand.counters().reads, 0);
        assert!(layer.counters().garbage_collections > 100);
        let spread = nand.erases_per_unit();
        assert!(spread.most - spread.least <= 2, "{spread:?}");
    }
}

#[test]
fn a_partial_write_costs_reading_the_old_page() {
    let (mut layer, mut nand) = layer_and_nand();
    assert_eq!(write(&mut layer, &mut nand, 5, false), 700);
    assert_eq!(write(&mut layer, &mut nand, 5, false), 750);
    assert_eq!(write(&mut layer, &mut nand, 5, true), 700);
}

#[test]
fn discarded_pages_are_not_copied() {
    let amplified = |discards: bool| {
        let (mut layer, mut nand) = layer_and_nand();
        for page in 0..256 {
            write(&mut layer, &mut nand, page, true);
        }
        if discards {
            layer.discard(&mut nand, 64..256);
        }
        // A stride coprime with 64 visits the remaining pages out of order.
        for round in 0..2000 {
            write(&mut layer, &mut nand, round * 29 % 64, true);
        }
        nand.counters().programs
    };
    assert!(amplified(true) < amplified(false));
}

#[test]
fn the_minimum_spare_blocks_suffice() {
    let write_unit = ("page = \"4KiB\"", "page = \"16KiB\"");
    let mapped = "map_unit = \"4KiB\"\nwear_spread = 3\n";
    for collection in ["greedy", "cost-benefit", "fifo"] {
        let section = format!("{mapped}collection = \"{collection}\"\n[discard]");
        for section in [section.clone(), format!("map_cache = \"16KiB\"\n{section}")] {
            let spare = if section.starts_with("map_cache") { 5 } else { 2 };
            let spare = format!("spare_units = {spare}");
            let changes = [write_unit, ("spare_units = 4", &spare), ("[discard]", &section)];
            let (mut layer, mut nand) = new(&small_with(&changes).unwrap());
            for round in 0..5000_u32 {
                write(&mut layer, &mut nand, round * 97 % 256, round % 3 == 0);
            }
            assert!(everything_is_found(&mut layer, &mut nand));
        }
    }
}

#[test]
fn pages_written_together_cost_one_program() {
    let changes =
        [("page = \"4KiB\"", "page = \"16KiB\""), ("[discard]", "map_unit = \"4KiB\"\n[discard]")];
    let (mut layer, mut nand) = new(&small_with(&changes).unwrap());
    for page in 0..16 {
        layer.write(&mut nand, PageWrite::whole(page, 4096));
    }
    layer.settle(&mut nand);
    assert_eq!(nand.counters().programs, 4);
    write(&mut layer, &mut nand, 1, true);
    write(&mut layer, &mut nand, 2, true);
    assert_eq!(nand.counters().programs, 6);
}

#[test]
fn bad_units_are_never_used() {
    let bad = ("spare_units = 4", "spare_units = 4\nfactory_bad_units = 3");
    let model = small_with(&[bad]).unwrap();
    let (mut layer, mut nand) = new(&model);
    for round in 0..3000_u32 {
        write(&mut layer, &mut nand, round * 97 % 256, true);
    }
    let bad: Vec<u32> = model.factory_bad_units().collect();
    assert_eq!(bad, [3, 11, 19]);
    assert!(bad.iter().all(|&unit| nand.erases_of(unit) == 0 && nand.is_erased(unit)));
    assert!(nand.erases_per_unit().least > 0, "they are no part of the spread");
}

#[test]
fn wear_beyond_the_rating_is_counted() {
    let (mut layer, mut nand) =
        new(&small_with(&[("endurance_cycles = 1000", "endurance_cycles = 3")]).unwrap());
    for round in 0..2 * 256 {
        write(&mut layer, &mut nand, round % 256, true);
    }
    assert_eq!(nand.units_beyond_rating(), 0);
    for round in 0..20 * 256 {
        write(&mut layer, &mut nand, round % 256, true);
    }
    assert_eq!(nand.units_beyond_rating(), 20);
}

const PSLC: &str = "[nand.pslc]\nunits = 2\nread_ns = 20\nprogram_ns = 200\nerase_ns = 2000
endurance_cycles = 9000\n[bus]";

#[test]
fn the_host_writes_to_single_bit_cells_until_all_are_full() {
    let changes = [("[bus]", PSLC), ("[discard]", "[background]\nafter_ns = 1\n[discard]")];
    let (mut layer, mut nand) = new(&small_with(&changes).unwrap());
    // With two bits per cell, a pSLC block has 8 of the 16 pages.
    let times: Vec<u64> = (0..17).map(|page| write(&mut layer, &mut nand, page, true)).collect();
    assert!(times[..16].iter().all(|&time_ns| time_ns == 200), "{times:?}");
    assert!(times[16] > 8 * 700, "{times:?}");
    assert_eq!(layer.counters().folds, 1);
    assert_eq!(nand.counters().programs, 17 + 8);
}

#[test]
fn idle_time_frees_the_pslc_area() {
    let changes = [("[bus]", PSLC), ("[discard]", "[background]\nafter_ns = 1\n[discard]")];
    let (mut layer, mut nand) = new(&small_with(&changes).unwrap());
    for round in 0..40 {
        for page in 0..16 {
            let time_ns = write(&mut layer, &mut nand, round * 67 % 200 + page, true);
            assert_eq!(time_ns, 200, "round {round}, page {page}");
        }
        idle(&mut layer, &mut nand);
    }
    assert_eq!(layer.counters().folds, 80);
}

#[test]
fn short_lived_data_is_not_folded() {
    let (mut layer, mut nand) = new(&small_with(&[("[bus]", PSLC)]).unwrap());
    for round in 0..400 {
        write(&mut layer, &mut nand, round % 4, true);
    }
    assert!(nand.counters().programs < 420, "{:?}", nand.counters());
}

#[test]
fn garbage_is_collected_in_idle_time_in_steps() {
    let (mut layer, mut nand) =
        new(&small_with(&[("spare_units = 4", "spare_units = 16")]).unwrap());
    for round in 0..2000_u32 {
        write(&mut layer, &mut nand, round * 97 % 256, true);
    }
    let start_ns = nand.finished_ns();
    nand.begin(start_ns);
    assert!(layer.work_in_background(&mut nand));
    assert!(nand.finished_ns() - start_ns <= 750 + 2 * 3000);
    idle(&mut layer, &mut nand);
    let foreground_ns = layer.counters().merge_ns;
    for page in 0..16 {
        assert_eq!(write(&mut layer, &mut nand, page, true), 700);
    }
    assert_eq!(layer.counters().merge_ns, foreground_ns);
    assert!(everything_is_found(&mut layer, &mut nand));
}

#[test]
fn background_work_without_time_ends() {
    let zero = [("program_ns = 700", "program_ns = 0"), ("erase_ns = 3000", "erase_ns = 0")];
    let changes = [zero[0], zero[1], ("read_ns = 50", "read_ns = 0")];
    let (mut layer, mut nand) = new(&small_with(&changes).unwrap());
    for round in 0..1000_u32 {
        write(&mut layer, &mut nand, round * 97 % 256, true);
    }
    assert!(!layer.work_in_background(&mut nand));
}

#[test]
fn a_map_in_memory_costs_nothing_and_a_missing_piece_costs_a_read() {
    // Four pieces of 1024 entries, of which one is in memory.
    let changes = [
        ("capacity = \"1MiB\"", "capacity = \"16MiB\""),
        ("spare_units = 4", "spare_units = 12"),
        ("[discard]", "map_cache = \"4KiB\"\n[discard]"),
    ];
    let (mut layer, mut nand) = new(&small_with(&changes).unwrap());
    for page in 0..4096 {
        write(&mut layer, &mut nand, page, true);
    }
    let map = |layer: &PageMapped| (layer.counters().map_reads, layer.counters().map_writes);
    assert_eq!(map(&layer), (0, 3));
    assert_eq!(write(&mut layer, &mut nand, 4000, true), 700);
    assert_eq!(write(&mut layer, &mut nand, 0, true), 700 + 700 + 50, "one out, one in");
    assert_eq!(map(&layer), (1, 4));
    let start_ns = nand.finished_ns();
    nand.begin(start_ns);
    layer.read(&mut nand, 2000);
    assert_eq!(nand.finished_ns() - start_ns, 700 + 50 + 50);
    assert_eq!(map(&layer), (2, 5));
    assert_eq!(nand.counters().programs, 4098 + 5, "the map's bytes are the NAND's");
}

#[test]
fn a_large_card_needs_little_memory() {
    let changes = [
        ("capacity = \"1MiB\"", "capacity = \"64GiB\""),
        ("erase_unit = \"64KiB\"", "erase_unit = \"4MiB\""),
        ("spare_units = 4", "spare_units = 1200"),
    ];
    let (layer, nand) = new(&small_with(&changes).unwrap());
    let bytes = layer.memory_bytes() + nand.memory_bytes();
    assert!((128 << 20..256 << 20).contains(&bytes), "{bytes}");
}

#[test]
fn a_layer_survives_being_written_and_read() {
    let changes = [
        ("[bus]", PSLC),
        ("spare_units = 4", "spare_units = 8"),
        ("[discard]", "map_cache = \"4KiB\"\nwear_spread = 2\n[discard]"),
    ];
    let (mut layer, mut nand) = new(&small_with(&changes).unwrap());
    for round in 0..2000_u32 {
        write(&mut layer, &mut nand, round * 97 % 256, true);
    }
    let mut again: PageMapped =
        serde_json::from_str(&serde_json::to_string(&layer).unwrap()).unwrap();
    assert_eq!(format!("{again:?}"), format!("{layer:?}"));
    assert!(everything_is_found(&mut again, &mut nand));
}
