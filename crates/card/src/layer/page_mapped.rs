//! A page-mapped layer: every logical page can be anywhere; pages are appended to one open unit.
//!
//! When only one free unit is left, the closed unit with the fewest valid pages is reclaimed into
//! it (greedy garbage collection), and the host's writes go on behind them. The spare units are the
//! over-provisioning. Limits: the whole map is in memory (no map cache), hot and cold pages share
//! the open unit, nothing is collected in idle time.
//! Sources: Gal and Toledo, "Algorithms and data structures for flash memories" (2005), section 2;
//! Bux and Iliadis, "Performance of greedy garbage collection in flash-based SSDs" (2010).

use std::ops::Range;

use super::free_units::FreeUnits;
use super::{LayerCounters, NONE, TranslationLayer};
use crate::model::CardModel;
use crate::nand::Nand;

/// A page-mapped layer with greedy garbage collection.
#[derive(Debug)]
pub struct PageMapped {
    /// Logical page to page of the NAND.
    map: Vec<u32>,
    /// For each unit, how many of its pages are the current ones.
    valid: Vec<u32>,
    /// Units that are neither free nor open.
    closed: Vec<bool>,
    free: FreeUnits,
    /// The unit that is written, and its next page.
    open: Option<(u32, u32)>,
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
    fn make_room(&mut self, nand: &mut Nand) -> u64 {
        if let Some((unit, place)) = self.open {
            if place < self.pages_per_unit {
                return 0;
            }
            self.closed[unit as usize] = true;
        }
        let victim = (self.free.len() <= 1).then(|| self.victim(nand));
        let (unit, mut time_ns) = self.free.take(nand);
        self.open = Some((unit, 0));
        if let Some(victim) = victim {
            time_ns += self.reclaim(nand, victim);
            self.counters.garbage_collections += 1;
            self.counters.merge_ns += time_ns;
        }
        time_ns
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
    fn reclaim(&mut self, nand: &mut Nand, victim: u32) -> u64 {
        let mut time_ns = 0;
        for place in 0..self.pages_per_unit {
            let page = nand.page_at(victim, place);
            let Some(stamp) = nand.stamp(page) else { continue };
            if self.map[stamp.logical_page as usize] == page {
                let to = self.next_page(nand);
                time_ns += nand.copy(page, to);
                self.remap(stamp.logical_page, to);
            }
        }
        self.closed[victim as usize] = false;
        self.free.put(nand, victim);
        time_ns
    }

    fn next_page(&mut self, nand: &Nand) -> u32 {
        let (unit, place) = self.open.as_mut().expect("room was made");
        let page = nand.page_at(*unit, *place);
        *place += 1;
        page
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
    fn write(&mut self, nand: &mut Nand, logical_page: u32, whole: bool) -> u64 {
        let mut time_ns = if whole { 0 } else { self.read(nand, logical_page) };
        time_ns += self.make_room(nand);
        let page = self.next_page(nand);
        time_ns += nand.program(page, logical_page);
        self.remap(logical_page, page);
        time_ns
    }

    fn discard(&mut self, _nand: &mut Nand, logical_pages: Range<u32>) -> u64 {
        for logical_page in logical_pages {
            self.remap(logical_page, NONE);
        }
        0
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

    fn layer_and_nand() -> (PageMapped, Nand) {
        let model = parse(SMALL).unwrap();
        (PageMapped::new(&model), Nand::new(&model))
    }

    #[test]
    fn sequential_overwrites_copy_nothing() {
        let (mut layer, mut nand) = layer_and_nand();
        for _ in 0..10 {
            for page in 0..256 {
                layer.write(&mut nand, page, true);
            }
        }
        assert_eq!(nand.counters().pages_programmed, 2560);
        assert_eq!(nand.counters().pages_read, 0);
        assert!(layer.counters().garbage_collections > 100);
        let spread = nand.erases_per_unit();
        assert!(spread.most - spread.least <= 2, "{spread:?}");
    }

    #[test]
    fn a_part_of_a_page_costs_reading_the_old_one() {
        let (mut layer, mut nand) = layer_and_nand();
        assert_eq!(layer.write(&mut nand, 5, false), 700);
        assert_eq!(layer.write(&mut nand, 5, false), 750);
        assert_eq!(layer.write(&mut nand, 5, true), 700);
    }

    #[test]
    fn discarded_pages_are_not_copied() {
        let amplified = |discards: bool| {
            let (mut layer, mut nand) = layer_and_nand();
            for page in 0..256 {
                layer.write(&mut nand, page, true);
            }
            if discards {
                layer.discard(&mut nand, 64..256);
            }
            // A stride coprime with 64 visits the remaining pages out of order.
            for round in 0..2000 {
                layer.write(&mut nand, round * 29 % 64, true);
            }
            nand.counters().pages_programmed
        };
        assert!(amplified(true) < amplified(false));
    }

    #[test]
    fn the_least_possible_spare_suffices() {
        let model = small_but(&[("spare_units = 4", "spare_units = 2")]).unwrap();
        let (mut layer, mut nand) = (PageMapped::new(&model), Nand::new(&model));
        for round in 0..5000_u32 {
            layer.write(&mut nand, round * 97 % 256, round % 3 == 0);
        }
        assert!((0..256).all(|page| layer.read(&mut nand, page) > 0));
    }
}
