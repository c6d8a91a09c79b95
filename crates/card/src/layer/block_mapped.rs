//! A block-mapped layer with a log for each open unit, as cheap SD cards have it.
//!
//! Whole erase units are mapped. A logical unit that is written gets a log unit, to which its pages
//! are appended in whatever order; so many can be open at once as the model says. A log that is
//! full, or that must give way (least recently written first), is merged: it takes the old unit's
//! place when it was written completely in order (switch), after the rest was copied behind it when
//! it was written in order from the start (partial), and otherwise every page is copied into a
//! fresh unit (full). So a card is fast within its open units, and beyond them each write costs the
//! copying of an erase unit. Limits: no separate log for small writes, no file allocation table
//! zone, no merging in idle time.
//! Source: Kim et al., "A space-efficient flash translation layer for CompactFlash systems" (2002),
//! known as BAST; the behaviour of real cards is in the flashbench surveys.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::free_units::FreeUnits;
use super::{PageWrite, TranslationLayer};
use crate::counters::LayerCounters;
use crate::model::CardModel;
use crate::nand::{NONE, Nand};

/// An open unit.
#[derive(Debug, Serialize, Deserialize)]
struct Log {
    logical_unit: u32,
    unit: u32,
    /// Place in the logical unit to place in the log.
    places: Vec<u32>,
    used: u32,
    /// Whether every page so far is at its own place.
    in_order: bool,
}

/// A block-mapped layer: whole erase units are mapped, and each open one has a log of pages.
#[derive(Debug, Serialize, Deserialize)]
pub struct BlockMapped {
    /// Logical unit to the unit with its merged pages, each at its own place.
    data: Vec<u32>,
    /// The open units, least recently written first.
    logs: Vec<Log>,
    open_units: usize,
    free: FreeUnits,
    pages_per_unit: u32,
    counters: LayerCounters,
}

impl BlockMapped {
    /// The layer of a card that was never used.
    pub fn new(model: &CardModel) -> Self {
        Self {
            data: vec![NONE; model.capacity_units() as usize],
            logs: Vec::new(),
            open_units: model.layer.open_units.expect("a checked block-mapped model says") as usize,
            free: FreeUnits::all(model.total_units()),
            pages_per_unit: model.pages_per_unit(),
            counters: LayerCounters::default(),
        }
    }

    /// Makes the log of a logical unit the last of the logs; returns the time it takes.
    fn open(&mut self, nand: &mut Nand, logical_unit: u32) {
        if let Some(index) = self.log_of(logical_unit) {
            self.logs[index..].rotate_left(1);
            return;
        }
        if self.logs.len() == self.open_units {
            self.close(nand, 0);
        }
        let unit = self.free.take(nand);
        let places = vec![NONE; self.pages_per_unit as usize];
        self.logs.push(Log { logical_unit, unit, places, used: 0, in_order: true });
    }

    fn log_of(&self, logical_unit: u32) -> Option<usize> {
        self.logs.iter().position(|log| log.logical_unit == logical_unit)
    }

    /// Merges a log; returns the time it takes.
    fn close(&mut self, nand: &mut Nand, index: usize) {
        let before_ns = nand.finished_ns();
        let log = self.logs.remove(index);
        let logical_unit = log.logical_unit as usize;
        let old = self.data[logical_unit];
        let new = if log.in_order {
            self.complete(nand, &log, old);
            log.unit
        } else {
            self.merge(nand, &log, old)
        };
        self.data[logical_unit] = new;
        if old != NONE {
            self.free.put(nand, old);
        }
        self.counters.merge_ns += nand.finished_ns() - before_ns;
    }

    /// Copies the rest of the old unit behind a log that was written in order.
    fn complete(&mut self, nand: &mut Nand, log: &Log, old: u32) {
        if log.used == self.pages_per_unit {
            self.counters.merges.switch += 1;
            return;
        }
        self.counters.merges.partial += 1;
        for place in log.used..self.pages_per_unit {
            if let Some(page) = merged_page(nand, old, place) {
                nand.copy(page, nand.page_at(log.unit, place));
            }
        }
    }

    /// Copies the newest of every page into a fresh unit; returns it and the time.
    fn merge(&mut self, nand: &mut Nand, log: &Log, old: u32) -> u32 {
        self.counters.merges.full += 1;
        let fresh = self.free.take(nand);
        for place in 0..self.pages_per_unit {
            if let Some(page) = newest_page(nand, Some(log), old, place) {
                nand.copy(page, nand.page_at(fresh, place));
            }
        }
        self.free.put(nand, log.unit);
        fresh
    }
}

/// The page of a merged unit, where it was ever written.
fn merged_page(nand: &Nand, unit: u32, place: u32) -> Option<u32> {
    (unit != NONE)
        .then(|| nand.page_at(unit, place))
        .filter(|&page| nand.logical_page(page).is_some())
}

/// The newest page for a place: in the log, or else in the merged unit.
fn newest_page(nand: &Nand, log: Option<&Log>, old: u32, place: u32) -> Option<u32> {
    let logged = log.and_then(|log| {
        let in_log = log.places[place as usize];
        (in_log != NONE).then(|| nand.page_at(log.unit, in_log))
    });
    logged.or_else(|| merged_page(nand, old, place))
}

impl TranslationLayer for BlockMapped {
    fn write(&mut self, nand: &mut Nand, write: PageWrite) {
        let logical_page = write.logical_page;
        if !write.whole {
            self.read(nand, logical_page);
        }
        self.open(nand, logical_page / self.pages_per_unit);
        let log = self.logs.last_mut().expect("it was just opened");
        let place = logical_page % self.pages_per_unit;
        nand.program(nand.page_at(log.unit, log.used), logical_page);
        log.in_order &= place == log.used;
        log.places[place as usize] = log.used;
        log.used += 1;
        if log.used == self.pages_per_unit {
            self.close(nand, self.logs.len() - 1);
        }
    }

    /// Forgets whole logical units only.
    fn discard(&mut self, nand: &mut Nand, logical_pages: Range<u32>) {
        let first = logical_pages.start.div_ceil(self.pages_per_unit);
        for logical_unit in first..logical_pages.end / self.pages_per_unit {
            if let Some(index) = self.log_of(logical_unit) {
                let log = self.logs.remove(index);
                self.free.put(nand, log.unit);
            }
            let old = std::mem::replace(&mut self.data[logical_unit as usize], NONE);
            if old != NONE {
                self.free.put(nand, old);
            }
        }
    }

    fn locate(&self, nand: &Nand, logical_page: u32) -> Option<u32> {
        let logical_unit = logical_page / self.pages_per_unit;
        let log = self.log_of(logical_unit).map(|index| &self.logs[index]);
        let old = self.data[logical_unit as usize];
        newest_page(nand, log, old, logical_page % self.pages_per_unit)
    }

    fn counters(&self) -> LayerCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Merges;
    use crate::model::tests::small_but;
    use crate::nand::contents::Keep;

    const UNIT: u32 = 16;

    fn write(layer: &mut BlockMapped, nand: &mut Nand, logical_page: u32, whole: bool) -> u64 {
        let start_ns = nand.finished_ns();
        nand.begin(start_ns);
        layer.write(nand, PageWrite { logical_page, whole, request_bytes: 4096 });
        layer.settle(nand);
        nand.finished_ns() - start_ns
    }

    fn layer_and_nand() -> (BlockMapped, Nand) {
        let kind = ("kind = \"page-mapped\"", "kind = \"block-mapped\"\nopen_units = 3");
        let model = small_but(&[kind]).unwrap();
        (BlockMapped::new(&model), Nand::new(&model, Keep::Nothing))
    }

    fn filled() -> (BlockMapped, Nand) {
        let (mut layer, mut nand) = layer_and_nand();
        for page in 0..16 * UNIT {
            write(&mut layer, &mut nand, page, true);
        }
        (layer, nand)
    }

    #[test]
    fn a_unit_written_in_order_is_switched() {
        let (layer, nand) = filled();
        assert_eq!(layer.counters().merges, Merges { switch: 16, ..Merges::default() });
        assert_eq!(nand.counters().programs, u64::from(16 * UNIT));
        assert_eq!(layer.counters().merge_ns, 0);
    }

    #[test]
    fn a_unit_begun_in_order_is_merged_in_part() {
        let (mut layer, mut nand) = filled();
        for page in 0..4 {
            write(&mut layer, &mut nand, page, true);
        }
        let before = nand.counters().programs;
        for unit in 1..4 {
            write(&mut layer, &mut nand, unit * UNIT, true);
        }
        assert_eq!(layer.counters().merges.partial, 1);
        assert_eq!(nand.counters().programs - before, 3 + 12);
    }

    #[test]
    fn beyond_the_open_units_each_write_costs_a_full_merge() {
        let (mut layer, mut nand) = filled();
        // The last place of each unit in turn, so that no log is in order.
        let places: Vec<u32> = (0..4).map(|unit| unit * UNIT + 15).collect();
        for i in 0..40 {
            write(&mut layer, &mut nand, places[i % 4], false);
        }
        assert_eq!(layer.counters().merges.full, 37);
        let time_ns = write(&mut layer, &mut nand, places[0], false);
        assert!(time_ns >= u64::from(UNIT) * 750, "{time_ns}");
    }

    #[test]
    fn within_the_open_units_it_does_not() {
        let (mut layer, mut nand) = filled();
        let places: Vec<u32> = (0..3).map(|unit| unit * UNIT + 15).collect();
        for i in 0..45 {
            write(&mut layer, &mut nand, places[i % 3], false);
        }
        assert_eq!(layer.counters().merges.full, 0);
    }

    #[test]
    fn a_discarded_unit_is_written_anew_without_copying() {
        let (mut layer, mut nand) = filled();
        write(&mut layer, &mut nand, UNIT + 3, true);
        layer.discard(&mut nand, 3..2 * UNIT + 1);
        assert_eq!(layer.locate(&nand, UNIT + 3), None);
        assert!(layer.locate(&nand, 3).is_some(), "a part of a unit is kept");
        let before = nand.counters().reads;
        for place in (0..UNIT).rev() {
            write(&mut layer, &mut nand, UNIT + place, true);
        }
        assert_eq!(nand.counters().reads - before, u64::from(UNIT));
    }
}
