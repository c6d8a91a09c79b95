//! A block-mapped layer with a log for each open erase block, as cheap SD cards have it.
//!
//! Whole erase blocks are mapped. A logical unit that is written gets a log unit, to which its
//! pages are appended in whatever order ([`open_block`]). So many can be open at once as the model
//! says, and so many of them out of order; beyond that the least recently written gives way and is
//! merged ([`merges`]). So a card is fast within its open erase blocks, and beyond them each write
//! costs the copying of an erase block, however small it is. With no unit that may be out of order
//! each write that does not continue the last one costs that: the pages before it are copied into a
//! fresh unit first, those behind it when the unit closes. A log that is out of order can be
//! allowed fewer pages than an erase block has, as where the controller has little room for its
//! table. Parts of a page that are written in order can be gathered in a unit of their own
//! ([`scratch`]). Limits: no merging in idle time. Sources: Kim et al., "A space-efficient flash
//! translation layer for CompactFlash systems" (2002), known as BAST; Ban, US patent 5,937,425,
//! "Flash file system optimized for page-mode flash technologies" (1999), for logical units that
//! are kept in more than one erase block. That some cards keep no unit out of order is inferred
//! from timing (the flashbench tables).

mod merges;
mod newer_pages;
mod open_block;
mod scratch;
#[cfg(test)]
mod tests;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::free_blocks::FreeBlocks;
use super::{PageWrite, TranslationLayer};
use crate::counters::LayerCounters;
use crate::model::CardModel;
use crate::nand::Nand;
pub use newer_pages::{NewerPages, NoSmallLog};
use open_block::OpenBlock;
use scratch::ScratchUnit;

/// A block-mapped layer: whole erase blocks are mapped, and each open one has a log of pages.
#[derive(Debug, Serialize, Deserialize)]
pub struct BlockMapped {
    /// By logical unit; one more than the unit with its merged pages, each at its own place, or 0.
    data: Vec<u32>,
    /// The open erase blocks, least recently written first.
    open: Vec<OpenBlock>,
    open_units: usize,
    open_units_random: usize,
    /// How many pages a log out of order can hold.
    random_pages: u32,
    scratch: Option<ScratchUnit>,
    free: FreeBlocks,
    pages_per_unit: u32,
    counters: LayerCounters,
    /// The pages that a merge takes from elsewhere than the old unit, by place.
    #[serde(skip)]
    strays: Vec<(u32, u32)>,
}

impl BlockMapped {
    /// The layer of a card that was never used, on these erase blocks.
    pub fn new(model: &CardModel, units: impl Iterator<Item = u32>) -> Self {
        let layer = &model.layer;
        let open_units = layer.open_units.expect("a checked block-mapped model says");
        Self {
            data: vec![0; model.capacity_units() as usize],
            open: Vec::new(),
            open_units: open_units as usize,
            open_units_random: layer.open_units_random.unwrap_or(open_units) as usize,
            random_pages: layer.random_pages.unwrap_or(u32::MAX),
            scratch: layer.scratch.then(ScratchUnit::default),
            free: FreeBlocks::of(units),
            pages_per_unit: model.pages_per_unit(),
            counters: LayerCounters::default(),
            strays: Vec::new(),
        }
    }

    /// The erase blocks that hold nothing.
    pub fn free_mut(&mut self) -> &mut FreeBlocks {
        &mut self.free
    }

    /// What it has counted.
    pub fn counters_mut(&mut self) -> &mut LayerCounters {
        &mut self.counters
    }

    fn data_of(&self, logical_unit: u32) -> Option<u32> {
        self.data[logical_unit as usize].checked_sub(1)
    }

    fn index_of(&self, logical_unit: u32) -> Option<usize> {
        self.open.iter().rposition(|open| open.logical_unit == logical_unit)
    }

    /// Whether a page is the next of the unit that was written last, or the one under way there.
    pub fn continues(&self, logical_page: u32) -> bool {
        let (logical_unit, place) = self.split(logical_page);
        self.open.last().is_some_and(|open| {
            open.logical_unit == logical_unit && open.in_order && open.is_next(place)
        })
    }

    /// Opens the unit of a page that is not open, with copies of all pages before it.
    pub fn open_behind(&mut self, nand: &mut Nand, logical_page: u32, newer: &mut impl NewerPages) {
        let (logical_unit, place) = self.split(logical_page);
        self.open(nand, logical_unit, newer);
        self.begin_at(nand, place, newer);
    }

    /// Whether the unit of a page is open.
    pub fn is_open(&self, logical_page: u32) -> bool {
        self.index_of(logical_page / self.pages_per_unit).is_some()
    }

    fn split(&self, logical_page: u32) -> (u32, u32) {
        (logical_page / self.pages_per_unit, logical_page % self.pages_per_unit)
    }

    /// Where a page is that is nowhere newer.
    pub fn locate_here(&self, nand: &Nand, logical_page: u32) -> Option<u32> {
        let (logical_unit, place) = self.split(logical_page);
        let in_log = self.index_of(logical_unit).and_then(|at| self.open[at].page_of(nand, place));
        in_log.or_else(|| {
            let page = nand.page_at(self.data_of(logical_unit)?, place);
            nand.logical_page(page).map(|_| page)
        })
    }

    /// Writes a page to the log of its unit; it is nowhere newer afterwards. A page that is
    /// written in part was read before.
    pub fn write_here(&mut self, nand: &mut Nand, write: PageWrite, newer: &mut impl NewerPages) {
        let (logical_unit, place) = self.split(write.logical_page);
        self.open(nand, logical_unit, newer);
        self.arrange(nand, place, newer);
        let open = self.open.last_mut().expect("it was just opened");
        newer.forget(write.logical_page..write.logical_page + 1);
        if !write.whole && self.scratch.is_some() && open.in_order && place == open.used() {
            return self.gather(nand, write.logical_page);
        }
        let page = open.append(nand, place);
        nand.program(page, write.logical_page);
        let full = open.used() == self.pages_per_unit
            || (!open.in_order && open.used() >= self.random_pages);
        if full {
            self.close(nand, self.open.len() - 1, newer);
        } else if !open.in_order {
            self.keep_few_out_of_order(nand, newer);
        }
    }

    /// Makes the log of a logical unit the last of the open ones.
    fn open(&mut self, nand: &mut Nand, logical_unit: u32, newer: &mut impl NewerPages) {
        if let Some(index) = self.index_of(logical_unit) {
            self.open[index..].rotate_left(1);
            return;
        }
        let mut open = if self.open.len() == self.open_units {
            self.close(nand, 0, newer)
        } else {
            OpenBlock::default()
        };
        open.begin(logical_unit, self.free.take(nand));
        self.open.push(open);
    }

    /// Brings the unit that was opened last to where `place` can be written.
    fn arrange(&mut self, nand: &mut Nand, place: u32, newer: &mut impl NewerPages) {
        let open = self.open.last_mut().expect("it was just opened");
        if open.is_gathering() && place != open.used() {
            open.commit(nand);
        }
        if open.used() == self.pages_per_unit {
            let logical_unit = open.logical_unit;
            self.close(nand, self.open.len() - 1, newer);
            self.open(nand, logical_unit, newer);
        }
        let open = self.open.last_mut().expect("it was just opened");
        if self.open_units_random == 0 && place != open.used() {
            self.begin_at(nand, place, newer);
        }
    }

    fn keep_few_out_of_order(&mut self, nand: &mut Nand, newer: &mut impl NewerPages) {
        let out_of_order = self.open.iter().filter(|open| !open.in_order).count();
        if out_of_order > self.open_units_random {
            let oldest = self.open.iter().position(|open| !open.in_order);
            self.close(nand, oldest.expect("some are out of order"), newer);
        }
    }

    /// Forgets whole logical units only.
    pub fn discard_here(
        &mut self,
        nand: &Nand,
        logical_pages: &Range<u32>,
        newer: &mut impl NewerPages,
    ) {
        let first = logical_pages.start.div_ceil(self.pages_per_unit);
        for logical_unit in first..logical_pages.end / self.pages_per_unit {
            if let Some(index) = self.index_of(logical_unit) {
                let open = self.open.remove(index);
                self.free.put(nand, open.unit);
            }
            if let Some(old) = self.data_of(logical_unit) {
                self.data[logical_unit as usize] = 0;
                self.free.put(nand, old);
            }
            newer.forget(self.pages_of(logical_unit));
        }
    }

    fn pages_of(&self, logical_unit: u32) -> Range<u32> {
        let first = logical_unit * self.pages_per_unit;
        first..first + self.pages_per_unit
    }
}

impl TranslationLayer for BlockMapped {
    fn write(&mut self, nand: &mut Nand, write: PageWrite) {
        if !write.whole {
            self.read(nand, write.logical_page);
        }
        self.write_here(nand, write, &mut NoSmallLog);
    }

    fn discard(&mut self, nand: &mut Nand, logical_pages: Range<u32>) {
        self.discard_here(nand, &logical_pages, &mut NoSmallLog);
    }

    fn locate(&self, nand: &Nand, logical_page: u32) -> Option<u32> {
        self.locate_here(nand, logical_page)
    }

    fn counters(&self) -> LayerCounters {
        self.counters
    }
}
