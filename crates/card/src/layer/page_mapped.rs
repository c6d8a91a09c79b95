//! A page-mapped layer: every logical page can be anywhere; pages are appended to one open unit.
//!
//! When only one free unit is left, the closed unit with the fewest valid pages is reclaimed into
//! it (greedy garbage collection), and the host's writes go on behind them. The spare units are the
//! over-provisioning. Limits: the whole map is in memory (no map cache), hot and cold pages share
//! the open unit, nothing is collected in idle time.
//! Sources: Gal and Toledo, "Algorithms and data structures for flash memories" (2005), section 2;
//! Bux and Iliadis, "Performance of greedy garbage collection in flash-based SSDs" (2010).

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::free_units::FreeUnits;
use super::{PageWrite, TranslationLayer};
use crate::counters::LayerCounters;
use crate::model::CardModel;
use crate::nand::{NONE, Nand};

/// A page-mapped layer with greedy garbage collection.
#[derive(Debug, Serialize, Deserialize)]
pub struct PageMapped {
    /// Logical page to page of the NAND.
    map: Vec<u32>,
    /// For each unit, how many of its pages are the current ones.
    valid: Vec<u32>,
    /// Units that are neither free nor open.
    closed: Vec<bool>,
    free: FreeUnits,
    /// The unit that is written, and its next page.
    open: Option<u32>,
    pages_per_unit: u32,
    counters: LayerCounters,
}

impl PageMapped {
    /// The layer of a card that was never used.
    pub fn new(model: &CardModel) -> Self {
        let pages = model.capacity_units() as usize * model.pages_per_unit() as usize;
        let units = model.total_units();
        Self {
            map: vec![NONE; pages],
            valid: vec![0; units as usize],
            closed: vec![false; units as usize],
            free: FreeUnits::all(units),
            open: None,
            pages_per_unit: model.pages_per_unit(),
            counters: LayerCounters::default(),
        }
    }

    /// Sees to it that the open unit has room; returns the time it takes.
    fn make_room(&mut self, nand: &mut Nand) {
        if let Some(unit) = self.open {
            if nand.next_place(unit) < self.pages_per_unit {
                return;
            }
            self.closed[unit as usize] = true;
        }
        let victim = (self.free.len() <= 1).then(|| self.victim(nand));
        let before_ns = nand.finished_ns();
        let unit = self.free.take(nand);
        self.open = Some(unit);
        if let Some(victim) = victim {
            self.reclaim(nand, victim);
            self.counters.garbage_collections += 1;
            self.counters.merge_ns += nand.finished_ns() - before_ns;
        }
    }

    /// The closed unit with the fewest valid pages; among equals the least worn.
    fn victim(&self, nand: &Nand) -> u32 {
        let closed = (0..nand.unit_count()).filter(|&unit| self.closed[unit as usize]);
        let victim = closed
            .min_by_key(|&unit| (self.valid[unit as usize], nand.erases_of(unit)))
            .expect("all units but one are closed");
        // Two spare units mean that the closed units hold more pages than there are logical ones.
        assert!(self.valid[victim as usize] < self.pages_per_unit, "nothing can be reclaimed");
        victim
    }

    /// Moves the valid pages of a unit to the open one, and frees it.
    fn reclaim(&mut self, nand: &mut Nand, victim: u32) {
        for place in 0..self.pages_per_unit {
            let page = nand.page_at(victim, place);
            let Some(logical_page) = nand.logical_page(page) else { continue };
            if self.map[logical_page as usize] == page {
                let to = self.next_page(nand);
                nand.copy(page, to);
                self.remap(logical_page, to);
            }
        }
        self.closed[victim as usize] = false;
        self.free.put(nand, victim);
    }

    fn next_page(&self, nand: &Nand) -> u32 {
        let unit = self.open.expect("room was made");
        nand.page_at(unit, nand.next_place(unit))
    }

    /// Lets a logical page be at `page` and nowhere else.
    fn remap(&mut self, logical_page: u32, page: u32) {
        let old = std::mem::replace(&mut self.map[logical_page as usize], page);
        for (page, change) in [(old, -1), (page, 1)] {
            if page != NONE {
                let valid = &mut self.valid[(page / self.pages_per_unit) as usize];
                *valid = valid.checked_add_signed(change).expect("valid pages are counted once");
            }
        }
    }
}

impl TranslationLayer for PageMapped {
    fn write(&mut self, nand: &mut Nand, write: PageWrite) {
        if !write.whole {
            self.read(nand, write.logical_page);
        }
        self.make_room(nand);
        let page = self.next_page(nand);
        nand.program(page, write.logical_page);
        self.remap(write.logical_page, page);
    }

    fn discard(&mut self, _nand: &mut Nand, logical_pages: Range<u32>) {
        for logical_page in logical_pages {
            self.remap(logical_page, NONE);
        }
    }

    fn locate(&self, _nand: &Nand, logical_page: u32) -> Option<u32> {
        Some(self.map[logical_page as usize]).filter(|&page| page != NONE)
    }

    fn counters(&self) -> LayerCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{SMALL, parse, small_but};
    use crate::nand::contents::Keep;

    fn write(layer: &mut PageMapped, nand: &mut Nand, logical_page: u32, whole: bool) -> u64 {
        let start_ns = nand.finished_ns();
        nand.begin(start_ns);
        layer.write(nand, PageWrite { logical_page, whole, request_bytes: 4096 });
        layer.settle(nand);
        nand.finished_ns() - start_ns
    }

    fn layer_and_nand() -> (PageMapped, Nand) {
        let model = parse(SMALL).unwrap();
        (PageMapped::new(&model), Nand::new(&model, Keep::Nothing))
    }

    #[test]
    fn sequential_overwrites_copy_nothing() {
        let (mut layer, mut nand) = layer_and_nand();
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

    #[test]
    fn a_part_of_a_page_costs_reading_the_old_one() {
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
    fn the_least_possible_spare_suffices() {
        let model = small_but(&[("spare_units = 4", "spare_units = 2")]).unwrap();
        let (mut layer, mut nand) = (PageMapped::new(&model), Nand::new(&model, Keep::Nothing));
        for round in 0..5000_u32 {
            write(&mut layer, &mut nand, round * 97 % 256, round % 3 == 0);
        }
        assert!((0..256).all(|page| layer.read(&mut nand, page).is_some()));
    }
}
