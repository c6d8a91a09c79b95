//! A block-mapped layer with a log for each open block, as on cheap SD cards.
//!
//! Whole erase blocks are mapped. A logical block that is written gets a log block, to which its
//! pages are appended in any order ([`open_block`]). The model limits how many blocks are open and
//! how many of them out of order; beyond that, one is merged ([`merges`]), by default the least
//! recently written one ([`super::eviction`]). Such a card is fast within its open blocks; beyond
//! them each write, however small, costs copying an erase block. If no block may be out of order,
//! each write that does not continue the last one costs a merge: the pages before it are copied to
//! a free block first, those after it when the block is closed. An out-of-order log can be limited
//! to fewer pages than an erase block, for controllers with small tables. Partial pages written in
//! order can be collected in a separate block ([`scratch`]). Limit: no merging in idle time.
//! Sources: Kim et al., "A space-efficient flash translation layer for CompactFlash systems"
//! (2002), known as BAST; Ban, US patent 5,937,425, "Flash file system optimized for page-mode
//! flash technologies" (1999), for logical blocks kept in more than one erase block. That some
//! cards keep no block out of order is inferred from timing (the flashbench tables).

mod merges;
mod newer_pages;
mod open_block;
mod scratch;
#[cfg(test)]
mod tests;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::eviction::Eviction;
use super::free_blocks::FreeBlocks;
use super::{PageWrite, TranslationLayer};
use crate::counters::LayerCounters;
use crate::model::{CardModel, LayerModel};
use crate::nand::Nand;
pub use newer_pages::{NewerPages, NoSmallLog};
use open_block::OpenBlock;
use scratch::ScratchUnit;

/// A block-mapped layer with a log for each open block.
#[derive(Debug, Serialize, Deserialize)]
pub struct BlockMapped {
    /// By logical block: one more than the block with its merged pages, or 0.
    data: Vec<u32>,
    /// The open blocks, least recently written first.
    open: Vec<OpenBlock>,
    #[serde(rename = "open_units")]
    open_erase_blocks: usize,
    #[serde(rename = "open_units_random")]
    open_erase_blocks_random: usize,
    /// Maximum number of pages in an out-of-order log.
    random_pages: u32,
    scratch: Option<ScratchUnit>,
    free: FreeBlocks,
    pages_per_block: u32,
    counters: LayerCounters,
    #[serde(skip)]
    eviction: Eviction,
    /// Pages that a merge takes from elsewhere than the old block, by position.
    #[serde(skip)]
    strays: Vec<(u32, u32)>,
}

impl BlockMapped {
    /// The layer of a new card on these erase blocks.
    pub fn new(model: &CardModel, units: impl Iterator<Item = u32>) -> Self {
        let layer = &model.layer;
        let open_erase_blocks = layer.open_erase_blocks.expect("a checked block-mapped model says");
        Self {
            data: vec![0; model.capacity_blocks() as usize],
            open: Vec::new(),
            open_erase_blocks: open_erase_blocks as usize,
            open_erase_blocks_random: layer.open_erase_blocks_random.unwrap_or(open_erase_blocks)
                as usize,
            random_pages: layer.random_pages.unwrap_or(u32::MAX),
            scratch: layer.scratch.then(ScratchUnit::default),
            free: FreeBlocks::of(units),
            pages_per_block: model.pages_per_block(),
            counters: LayerCounters::default(),
            eviction: Eviction::new(layer),
            strays: Vec::new(),
        }
    }

    pub fn free_mut(&mut self) -> &mut FreeBlocks {
        &mut self.free
    }

    pub fn counters_mut(&mut self) -> &mut LayerCounters {
        &mut self.counters
    }

    /// Restores what is not saved with a card.
    pub fn restore(&mut self, model: &LayerModel) {
        self.eviction = Eviction::new(model);
    }

    fn data_of(&self, logical_block: u32) -> Option<u32> {
        self.data[logical_block as usize].checked_sub(1)
    }

    fn index_of(&self, logical_block: u32) -> Option<usize> {
        self.open.iter().rposition(|open| open.logical_block == logical_block)
    }

    /// Whether a page continues the block written last, or is the partial page there.
    pub fn continues(&self, logical_page: u32) -> bool {
        let (logical_block, place) = self.split(logical_page);
        self.open.last().is_some_and(|open| {
            open.logical_block == logical_block && open.in_order && open.is_next(place)
        })
    }

    /// Opens the block of a page with copies of all pages before it.
    pub fn open_behind(&mut self, nand: &mut Nand, logical_page: u32, newer: &mut impl NewerPages) {
        let (logical_block, place) = self.split(logical_page);
        self.open(nand, logical_block, newer);
        self.begin_at(nand, place, newer);
    }

    pub fn is_open(&self, logical_page: u32) -> bool {
        self.index_of(logical_page / self.pages_per_block).is_some()
    }

    fn split(&self, logical_page: u32) -> (u32, u32) {
        (logical_page / self.pages_per_block, logical_page % self.pages_per_block)
    }

    /// The physical page of a logical page that is not newer elsewhere.
    pub fn locate_here(&self, nand: &Nand, logical_page: u32) -> Option<u32> {
        let (logical_block, place) = self.split(logical_page);
        let in_log = self.index_of(logical_block).and_then(|at| self.open[at].page_of(nand, place));
        in_log.or_else(|| {
            let page = nand.page_at(self.data_of(logical_block)?, place);
            nand.logical_page(page).map(|_| page)
        })
    }

    /// Writes a page to the log of its block, which makes newer copies elsewhere obsolete. For a
    /// partial write the page was read before.
    pub fn write_here(&mut self, nand: &mut Nand, write: PageWrite, newer: &mut impl NewerPages) {
        let (logical_block, place) = self.split(write.logical_page);
        self.open(nand, logical_block, newer);
        self.arrange(nand, place, newer);
        let open = self.open.last_mut().expect("it was just opened");
        newer.forget(write.logical_page..write.logical_page + 1);
        if !write.whole && self.scratch.is_some() && open.in_order && place == open.used() {
            return self.gather(nand, write.logical_page);
        }
        let page = open.append(nand, place);
        nand.program(page, write.logical_page);
        let full = open.used() == self.pages_per_block
            || (!open.in_order && open.used() >= self.random_pages);
        if full {
            self.close(nand, self.open.len() - 1, newer);
        } else if !open.in_order {
            self.keep_few_out_of_order(nand, newer);
        }
    }

    /// Makes the log of a logical block the most recent open one.
    fn open(&mut self, nand: &mut Nand, logical_block: u32, newer: &mut impl NewerPages) {
        if let Some(index) = self.index_of(logical_block) {
            self.open[index..].rotate_left(1);
            return;
        }
        let mut open = if self.open.len() == self.open_erase_blocks {
            let before_ns = nand.finished_ns();
            let index = self.eviction.choose(nand, self.open.len());
            self.counters.merge_ns += nand.finished_ns() - before_ns;
            self.close(nand, index, newer)
        } else {
            OpenBlock::default()
        };
        open.begin(logical_block, self.free.take(nand));
        self.open.push(open);
    }

    /// Prepares the block opened last for writing `place`.
    fn arrange(&mut self, nand: &mut Nand, place: u32, newer: &mut impl NewerPages) {
        let open = self.open.last_mut().expect("it was just opened");
        if open.has_partial_page() && place != open.used() {
            open.commit(nand);
        }
        if open.used() == self.pages_per_block {
            let logical_block = open.logical_block;
            self.close(nand, self.open.len() - 1, newer);
            self.open(nand, logical_block, newer);
        }
        let open = self.open.last_mut().expect("it was just opened");
        if self.open_erase_blocks_random == 0 && place != open.used() {
            self.begin_at(nand, place, newer);
        }
    }

    fn keep_few_out_of_order(&mut self, nand: &mut Nand, newer: &mut impl NewerPages) {
        let out_of_order = self.open.iter().filter(|open| !open.in_order).count();
        if out_of_order > self.open_erase_blocks_random {
            let oldest = self.open.iter().position(|open| !open.in_order);
            self.close(nand, oldest.expect("some are out of order"), newer);
        }
    }

    /// Unmaps whole logical blocks only.
    pub fn discard_here(
        &mut self,
        nand: &mut Nand,
        logical_pages: &Range<u32>,
        newer: &mut impl NewerPages,
    ) {
        let first = logical_pages.start.div_ceil(self.pages_per_block);
        for logical_block in first..logical_pages.end / self.pages_per_block {
            if let Some(index) = self.index_of(logical_block) {
                let open = self.open.remove(index);
                self.free.put(nand, open.block);
            }
            if let Some(old) = self.data_of(logical_block) {
                self.data[logical_block as usize] = 0;
                self.free.put(nand, old);
            }
            newer.forget(self.pages_of(logical_block));
        }
    }

    fn pages_of(&self, logical_block: u32) -> Range<u32> {
        let first = logical_block * self.pages_per_block;
        first..first + self.pages_per_block
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

    fn evictions(&self) -> u64 {
        self.eviction.count()
    }
}
