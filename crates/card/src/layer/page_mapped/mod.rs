//! A page-mapped layer: a logical page can be at any physical page.
//!
//! Host writes are appended to one open block ([`collection`]), or first to blocks with one bit per
//! cell ([`pslc`]). The spare blocks are the over-provisioning; [`victims`] selects the block to
//! collect. The map is in memory completely or in part ([`cached_map`]); the simulator always has
//! all of it, so only the cost of a miss is modeled. Wear is leveled by taking the least worn free
//! block, and with `wear_spread` also by moving static data ([`wear`]). Factory-bad blocks are
//! never used. Limit: blocks beyond their rated endurance keep working and are only counted.
//! Source: Gal and Toledo, "Algorithms and data structures for flash memories" (2005), section 2.

mod cached_map;
mod collection;
#[cfg(test)]
mod option_tests;
mod pslc;
#[cfg(test)]
mod tests;
mod victims;
mod wear;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::free_blocks::FreeBlocks;
use super::{PageWrite, TranslationLayer};
use crate::counters::LayerCounters;
use crate::large_table::LargeTable;
use crate::model::CardModel;
use crate::nand::{NONE, Nand};
use cached_map::CachedMap;
use collection::GcInProgress;
use pslc::PslcArea;
use victims::Victims;
use wear::WearLevelling;

/// In idle time one in this many spare blocks is kept free.
const IDLE_SHARE: u32 = 8;

#[derive(Debug, Serialize, Deserialize)]
pub struct PageMapped {
    /// By logical page: one more than the physical page, or 0 if unmapped.
    map: LargeTable<u32>,
    blocks: Victims,
    free: FreeBlocks,
    /// The open block, or [`NONE`].
    open: u32,
    /// The block that is being emptied in idle time.
    emptying: Option<GcInProgress>,
    idle_free_units: usize,
    pslc: Option<Box<PslcArea>>,
    cached_map: Option<Box<CachedMap>>,
    wear: Option<Box<WearLevelling>>,
    pages_per_block: u32,
    counters: LayerCounters,
}

impl PageMapped {
    pub fn new(model: &CardModel) -> Self {
        let blocks: Vec<u32> = model.good_blocks().collect();
        Self::over(model, model.capacity_blocks(), &blocks)
    }

    /// The layer of a part of a new card: its first logical blocks, and the erase blocks to store
    /// them in, those of the pSLC area first.
    pub fn over(model: &CardModel, logical_blocks: u32, blocks: &[u32]) -> Self {
        let pages_per_block = model.pages_per_block();
        let pages = logical_blocks as usize * pages_per_block as usize;
        let collection = model.layer.collection.unwrap_or_default();
        let pslc_units = model.nand.pslc.as_ref().map_or(0, |pslc| pslc.units as usize);
        let (pslc, blocks) = blocks.split_at(pslc_units);
        Self {
            map: LargeTable::new(pages),
            blocks: Victims::new(collection, model.total_blocks(), pages_per_block),
            free: FreeBlocks::of(blocks.iter().copied()),
            open: NONE,
            emptying: None,
            idle_free_units: 1 + (model.nand.spare_units / IDLE_SHARE) as usize,
            pslc: (pslc_units > 0).then(|| Box::new(PslcArea::new(pslc.iter().copied()))),
            cached_map: CachedMap::new(model).map(Box::new),
            wear: model.layer.wear_spread.map(WearLevelling::new).map(Box::new),
            pages_per_block,
            counters: LayerCounters::default(),
        }
    }

    /// Memory of the map and the tables when the whole card is in use.
    pub fn memory_bytes(&self) -> usize {
        self.map.memory_bytes() + self.blocks.memory_bytes()
    }

    /// Maps a logical page to `page`.
    fn remap(&mut self, logical_page: u32, page: u32) {
        let old = std::mem::replace(&mut self.map[logical_page as usize], page + 1);
        if old != 0 {
            self.blocks.lose((old - 1) / self.pages_per_block);
        }
        self.blocks.gain(page / self.pages_per_block);
        if let Some(cached) = &mut self.cached_map {
            cached.change(logical_page);
        }
    }

    fn forget(&mut self, logical_page: u32) {
        let old = std::mem::take(&mut self.map[logical_page as usize]);
        if old != 0 {
            self.blocks.lose((old - 1) / self.pages_per_block);
            if let Some(cached) = &mut self.cached_map {
                cached.change(logical_page);
            }
        }
    }

    fn look_up(&mut self, nand: &mut Nand, logical_page: u32) {
        if let Some(cached) = &mut self.cached_map {
            cached.look_up(nand, &mut self.free, &mut self.counters, logical_page);
        }
    }

    fn make_map_changes(&mut self, nand: &mut Nand) {
        if let Some(cached) = &mut self.cached_map {
            cached.settle(nand, &mut self.free, &mut self.counters);
        }
    }
}

impl TranslationLayer for PageMapped {
    fn write(&mut self, nand: &mut Nand, write: PageWrite) {
        if !write.whole {
            self.read(nand, write.logical_page);
        }
        let page = self.place_for_host(nand);
        nand.program(page, write.logical_page);
        self.remap(write.logical_page, page);
    }

    fn settle(&mut self, nand: &mut Nand) {
        nand.close_write_unit();
        self.make_map_changes(nand);
    }

    fn discard(&mut self, nand: &mut Nand, logical_pages: Range<u32>) {
        for logical_page in logical_pages {
            self.forget(logical_page);
        }
        self.make_map_changes(nand);
    }

    fn locate(&self, _nand: &Nand, logical_page: u32) -> Option<u32> {
        self.map[logical_page as usize].checked_sub(1)
    }

    fn read(&mut self, nand: &mut Nand, logical_page: u32) -> Option<u32> {
        self.look_up(nand, logical_page);
        let page = self.locate(nand, logical_page)?;
        let stored = nand.logical_page(page);
        assert_eq!(stored, Some(logical_page), "the layer lost track of a page");
        nand.read(page);
        Some(page)
    }

    /// Folds first, because the host needs space in the pSLC area next.
    fn work_in_background(&mut self, nand: &mut Nand) -> bool {
        let before_ns = nand.finished_ns();
        // A piece may take no time on a card whose times are zero.
        while nand.finished_ns() == before_ns {
            if !self.fold_step(nand) && !self.collect_step(nand) {
                return false;
            }
            self.make_map_changes(nand);
        }
        true
    }

    fn counters(&self) -> LayerCounters {
        self.counters
    }
}
