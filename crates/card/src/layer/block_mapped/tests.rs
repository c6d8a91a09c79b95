//! Merges of each kind, sequential and random open blocks, the scratch block.

use super::*;
use crate::counters::Merges;
use crate::model::tests::small_with;
use crate::nand::contents::RetentionPolicy;

const UNIT: u32 = 16;
const PROGRAM_AND_READ_NS: u64 = 750;

struct Filled {
    layer: BlockMapped,
    nand: Nand,
}

impl Filled {
    /// Three open blocks, and additional keys.
    fn with(more: &str) -> Self {
        let mut empty = Self::empty(more);
        for page in 0..16 * UNIT {
            empty.write(page, true);
        }
        empty.layer.counters = LayerCounters::default();
        empty
    }

    fn empty(more: &str) -> Self {
        let kind = format!("kind = \"block-mapped\"\nopen_units = 3\n{more}");
        let changes = [("kind = \"page-mapped\"", kind.as_str()), ("units = 4", "units = 5")];
        let model = small_with(&changes).unwrap();
        let layer = BlockMapped::new(&model, model.good_blocks());
        Self { layer, nand: Nand::new(&model, RetentionPolicy::Nothing) }
    }

    fn write(&mut self, logical_page: u32, whole: bool) -> u64 {
        let start_ns = self.nand.finished_ns();
        self.nand.begin(start_ns);
        self.layer.write(&mut self.nand, PageWrite { logical_page, whole, request_bytes: 4096 });
        self.layer.settle(&mut self.nand);
        self.nand.finished_ns() - start_ns
    }

    fn programs(&self) -> u64 {
        self.nand.counters().programs
    }

    fn merges(&self) -> Merges {
        self.layer.counters().merges
    }
}

#[test]
fn a_block_written_in_order_is_switched() {
    let mut card = Filled::empty("");
    for page in 0..16 * UNIT {
        card.write(page, true);
    }
    assert_eq!(card.merges(), Merges { switch: 16, ..Merges::default() });
    assert_eq!(card.programs(), u64::from(16 * UNIT));
    assert_eq!(card.layer.counters().merge_ns, 0);
}

#[test]
fn a_block_begun_in_order_is_merged_partially() {
    let mut card = Filled::with("");
    for page in 0..4 {
        card.write(page, true);
    }
    let before = card.programs();
    for unit in 1..4 {
        card.write(unit * UNIT, true);
    }
    assert_eq!(card.merges(), Merges { partial: 1, ..Merges::default() });
    assert_eq!(card.programs() - before, 3 + 12);
}

#[test]
fn beyond_the_open_blocks_each_write_costs_a_full_merge() {
    let mut card = Filled::with("");
    // The last position of each block in turn, so that no log is in order.
    let places: Vec<u32> = (0..4).map(|unit| unit * UNIT + 15).collect();
    let before = card.programs();
    for i in 0..40 {
        card.write(places[i % 4], true);
    }
    assert_eq!(card.merges().full, 37);
    assert_eq!(card.programs() - before, 40 + 37 * u64::from(UNIT));
    let time_ns = card.write(places[0], true);
    assert!(time_ns >= u64::from(UNIT) * PROGRAM_AND_READ_NS, "{time_ns}");
}

#[test]
fn within_the_open_blocks_writes_cost_no_merge() {
    let mut card = Filled::with("");
    let places: Vec<u32> = (0..3).map(|unit| unit * UNIT + 15).collect();
    for i in 0..45 {
        card.write(places[i % 3], false);
    }
    assert_eq!(card.merges().full, 0);
}

#[test]
fn a_discarded_block_is_rewritten_without_copying() {
    let mut card = Filled::with("");
    card.write(UNIT + 3, true);
    card.layer.discard(&mut card.nand, 3..2 * UNIT + 1);
    assert_eq!(card.layer.locate(&card.nand, UNIT + 3), None);
    assert!(card.layer.locate(&card.nand, 3).is_some(), "a part of a unit is kept");
    let before = card.nand.counters().reads;
    for place in (0..UNIT).rev() {
        card.write(UNIT + place, true);
    }
    assert_eq!(card.nand.counters().reads - before, u64::from(UNIT));
}

#[test]
fn fewer_blocks_can_be_open_out_of_order_than_in_order() {
    let mut card = Filled::with("open_units_random = 1");
    for round in 0..4 {
        for unit in 0..3 {
            card.write(unit * UNIT + round, true);
        }
    }
    assert_eq!(card.merges(), Merges::default());
    card.write(15, true);
    assert_eq!(card.merges().full, 0, "one out of order can be open");
    card.write(UNIT + 15, true);
    assert_eq!(card.merges().full, 1, "two can not");
    card.write(2 * UNIT + 4, true);
    assert_eq!(card.merges().full, 1, "the one in order goes on");
}

#[test]
fn without_out_of_order_blocks_each_jump_costs_a_merge() {
    let mut card = Filled::with("open_units_random = 0");
    // Backwards, then forward with gaps.
    for places in [[12, 9, 6, 3], [1, 5, 8, 14]] {
        for place in places {
            let before = card.programs();
            card.write(place, true);
            card.write(place + 1, true);
            let programs = card.programs() - before;
            assert!((2..=2 * u64::from(UNIT)).contains(&programs), "{programs}");
        }
    }
    // Each write rewrites the block: the pages before, the two pages, and the pages after.
    assert_eq!(card.merges(), Merges { full: 8, ..Merges::default() });
    let before = card.programs();
    card.write(4, true);
    card.write(2, true);
    // The block of the first page, then the two pages before the second page, and that page.
    assert_eq!(card.programs() - before, u64::from(UNIT + 2 + 1));
}

#[test]
fn without_out_of_order_blocks_a_block_is_still_switched() {
    let mut card = Filled::with("open_units_random = 0");
    let before = card.programs();
    for page in 3 * UNIT..5 * UNIT {
        card.write(page, true);
    }
    assert_eq!(card.merges(), Merges { switch: 2, ..Merges::default() });
    assert_eq!(card.programs() - before, u64::from(2 * UNIT));
}

/// Writes each page of a block in four parts.
fn in_parts(card: &mut Filled, unit: u32) -> u64 {
    let before = card.programs();
    for part in 0..4 * UNIT {
        card.write(unit * UNIT + part / 4, false);
    }
    card.programs() - before
}

#[test]
fn partial_pages_in_order_are_collected_in_the_scratch_block() {
    let mut card = Filled::with("");
    let programs = in_parts(&mut card, 2);
    // A log of 16 pages is full after four pages in four parts each.
    assert_eq!((programs, card.merges().full), (4 * 16 + 3 * 16 + 16, 4));

    let mut card = Filled::with("scratch = true");
    let programs = in_parts(&mut card, 2);
    // The last page is still in the scratch block.
    assert_eq!((programs, card.merges()), (4 * 16 + 15, Merges::default()));
    card.write(2 * UNIT, true);
    assert_eq!(card.merges(), Merges { switch: 1, ..Merges::default() });
}

#[test]
fn a_full_scratch_block_is_replaced() {
    let mut card = Filled::with("scratch = true");
    for part in 0..4 * UNIT {
        for unit in 0..3 {
            card.write(unit * UNIT + part / 4, false);
        }
    }
    assert_eq!(card.merges().full, 0);
    for page in 0..3 * UNIT {
        let at = card.layer.locate(&card.nand, page).unwrap();
        assert_eq!(card.nand.logical_page(at), Some(page));
    }
}

#[test]
fn an_out_of_order_log_is_merged_at_its_page_limit() {
    let mut card = Filled::with("random_pages = 4");
    for page in [5, 3, 9] {
        card.write(page, true);
    }
    assert_eq!(card.merges(), Merges::default());
    card.write(1, true);
    assert_eq!(card.merges(), Merges { full: 1, ..Merges::default() });
    // An in-order log may fill the block.
    for page in UNIT..2 * UNIT {
        card.write(page, true);
    }
    assert_eq!(card.merges(), Merges { full: 1, switch: 1, ..Merges::default() });
}
