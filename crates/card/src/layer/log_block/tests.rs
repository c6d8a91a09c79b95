//! Which writes go to the log, and the cost of collecting it.

use super::*;
use crate::model::tests::small_with;
use crate::nand::contents::RetentionPolicy;

const UNIT: u32 = 16;

struct Filled {
    layer: LogBlock,
    nand: Nand,
}

impl Filled {
    /// Two open blocks, and one block of log for single pages.
    fn new() -> Self {
        let kind = "kind = \"log-block\"\nopen_units = 2\nlog_units = 1\nlog_request = \"4KiB\"\n\
                    log_ns = 100";
        let changes = [("kind = \"page-mapped\"", kind), ("units = 4", "units = 5")];
        let model = small_with(&changes).unwrap();
        let layer = LogBlock::new(&model, model.good_blocks());
        let mut filled = Self { layer, nand: Nand::new(&model, RetentionPolicy::Nothing) };
        for unit in 0..16 {
            filled.write(unit * UNIT, UNIT);
        }
        filled
    }

    fn write(&mut self, first: u32, count: u32) -> u64 {
        let start_ns = self.nand.finished_ns();
        self.nand.begin(start_ns);
        let request_bytes = u64::from(count) * 4096;
        for logical_page in first..first + count {
            let write = PageWrite { logical_page, whole: true, request_bytes };
            self.layer.write(&mut self.nand, write);
        }
        self.layer.settle(&mut self.nand);
        self.nand.finished_ns() - start_ns
    }
}

#[test]
fn single_pages_to_any_number_of_blocks_cost_a_program_and_log_time() {
    let mut card = Filled::new();
    for unit in 0..16 {
        assert_eq!(card.write(unit * UNIT + 7, 1), 700 + 100);
    }
    assert_eq!(card.layer.counters().merges.log, 0);
}

#[test]
fn a_full_log_costs_a_merge_for_each_block_in_it() {
    let mut card = Filled::new();
    let filled = card.layer.counters().merges;
    for number in 0..16 {
        card.write(number % 4 * UNIT + 3 + number / 4, 1);
    }
    let before = card.nand.counters().programs;
    card.write(9 * UNIT + 3, 1);
    let merges = card.layer.counters().merges;
    assert_eq!((merges.log, merges.full - filled.full), (1, 4));
    assert_eq!(card.nand.counters().programs - before, u64::from(4 * UNIT + 1));
}

#[test]
fn rewritten_pages_need_no_merge() {
    let mut card = Filled::new();
    let filled = card.layer.counters().merges;
    for _ in 0..160 {
        card.write(7, 1);
    }
    // Each full block of the log contains only one current page.
    let merges = card.layer.counters().merges;
    assert_eq!((merges.log, merges.full - filled.full), (9, 9));
    card.write(0, UNIT);
    let before = card.layer.counters().merges;
    for number in 0..17 {
        card.write(5 * UNIT + number * 7 % 16, 1);
    }
    let merges = card.layer.counters().merges;
    assert_eq!((merges.log - before.log, merges.full - before.full), (2, 1));
}

#[test]
fn larger_requests_need_open_blocks() {
    let mut card = Filled::new();
    let filled = card.layer.counters().merges;
    for number in 0..30 {
        card.write(number % 3 * UNIT + 8 + number / 3 % 4, 2);
    }
    assert!(card.layer.counters().merges.full - filled.full >= 28);
}

#[test]
fn sequential_single_pages_go_to_the_block() {
    let mut card = Filled::new();
    let before = (card.nand.counters().programs, card.layer.counters().merges);
    for page in 0..4 * UNIT {
        card.write(page, 1);
    }
    // Only the first page is not recognized as sequential and must be copied.
    assert_eq!(card.nand.counters().programs - before.0, u64::from(4 * UNIT + 1));
    let merges = card.layer.counters().merges;
    assert_eq!((merges.log, merges.full), (before.1.log, before.1.full));
    assert_eq!((merges.switch - before.1.switch, merges.partial - before.1.partial), (3, 1));
}
