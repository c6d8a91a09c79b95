//! Chunks in order and out of order, the log, and collection.

use super::*;
use crate::model::tests::small_with;
use crate::nand::contents::RetentionPolicy;

const UNIT: u32 = 16;
const CHUNK: u32 = 4;

struct Filled {
    layer: UpdateLog,
    nand: Nand,
}

impl Filled {
    /// Two open erase blocks, four chunks of four pages each; one unit of log for single pages.
    fn new() -> Self {
        let kind = "kind = \"update-log\"\nopen_units = 2\nlog_units = 1\nlog_request = \"4KiB\"\n\
                    chunk = \"16KiB\"";
        let changes = [("kind = \"page-mapped\"", kind), ("units = 4", "units = 8")];
        let model = small_with(&changes).unwrap();
        let layer = UpdateLog::new(&model, model.good_blocks());
        let mut filled = Self { layer, nand: Nand::new(&model, RetentionPolicy::Nothing) };
        for unit in 0..16 {
            filled.write(unit * UNIT, UNIT);
        }
        filled.layer.counters = LayerCounters::default();
        filled
    }

    /// Returns what was programmed.
    fn write(&mut self, first: u32, count: u32) -> u64 {
        let before = self.nand.counters().programs;
        self.nand.begin(self.nand.finished_ns());
        let request_bytes = u64::from(count) * 4096;
        for logical_page in first..first + count {
            let write = PageWrite { logical_page, whole: true, request_bytes };
            self.layer.write(&mut self.nand, write);
        }
        self.layer.settle(&mut self.nand);
        self.nand.counters().programs - before
    }
}

#[test]
fn units_written_in_order_side_by_side_copy_nothing() {
    let mut card = Filled::new();
    for place in (0..UNIT).step_by(2) {
        for unit in [3, 5] {
            assert_eq!(card.write(unit * UNIT + place, 2), 2);
        }
    }
    let merges = card.layer.counters().merges;
    assert_eq!((merges.switch, merges.partial, merges.full), (8, 0, 0));
}

#[test]
fn a_write_out_of_order_costs_a_chunk() {
    let mut card = Filled::new();
    card.write(3 * UNIT + 8, 2);
    for place in [2, 12, 4, 13, 0, 9] {
        let programs = card.write(3 * UNIT + place, 2);
        assert!(programs <= 2 * u64::from(CHUNK), "{programs}");
    }
    let merges = card.layer.counters().merges;
    assert_eq!((merges.switch, merges.partial), (0, 6));
}

#[test]
fn single_pages_go_to_the_log_and_their_chunks_are_rewritten_when_it_is_full() {
    let mut card = Filled::new();
    for number in 0..16 {
        // Four pages of each of four chunks.
        assert_eq!(card.write(number % 4 * 2 * UNIT + number / 4, 1), 1);
    }
    let programs = card.write(9 * UNIT + 2, 1);
    assert_eq!(programs, 4 * u64::from(CHUNK) + 1);
    let merges = card.layer.counters().merges;
    assert_eq!((merges.log, merges.full), (1, 4));
}

#[test]
fn beyond_the_open_erase_blocks_writing_in_order_costs_a_part_of_what_it_costs_out_of_order() {
    let mut card = Filled::new();
    let before = card.nand.counters().programs;
    for place in (0..UNIT).step_by(2) {
        for unit in 0..3 {
            card.write(unit * UNIT + place, 2);
        }
    }
    let programs = card.nand.counters().programs - before;
    let written = u64::from(3 * UNIT);
    assert!(programs > written && programs <= 3 * written, "{programs}");
}

#[test]
fn scattered_writing_for_long_finds_units_to_collect() {
    let mut card = Filled::new();
    for number in 0..5000 {
        card.write(number * 37 % 64 * CHUNK, 1 + number % 4);
    }
    assert!(card.layer.counters().garbage_collections > 100);
    let all_there = |page| card.layer.locate(&card.nand, page).is_some();
    assert!((0..16 * UNIT).all(all_there));
}
