//! A page-mapped layer: every logical page can be anywhere.
//!
//! What the host writes is appended to one open erase block ([`collection`]), or first to units
//! with one bit per cell ([`pslc`]). The spare units are the over-provisioning; which unit is
//! collected is the concern of [`victims`]. The map is in memory as a whole, or in part
//! ([`cached_map`]); in the simulator it always is, so that only the cost of a miss is modelled.
//! Wear is levelled by taking the least worn free unit, and with `wear_spread` also by moving what
//! never changes ([`wear`]). Units that were bad from the beginning are never used. Limits: a unit
//! that was erased more often than it is rated for goes on working; it is only counted. Source: Gal
//! and Toledo, "Algorithms and data structures for flash memories" (2005), section 2.

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

/// In idle time one spare unit in so many is made free.
const IDLE_SHARE: u32 = 8;

/// A page-mapped layer.
#[derive(Debug, Serialize, Deserialize)]
pub struct PageMapped {
    /// By logical page; one more than the page of the NAND, 0 where there is none.
    map: LargeTable<u32>,
    units: Victims,
    free: FreeBlocks,
    /// The unit that is written, or [`NONE`].
    open: u32,
    /// The unit that is emptied in idle time.
    emptying: Option<GcInProgress>,
    idle_free_units: usize,
    pslc: Option<Box<PslcArea>>,
    cached_map: Option<Box<CachedMap>>,
    wear: Option<Box<WearLevelling>>,
    pages_per_unit: u32,
    counters: LayerCounters,
}

impl PageMapped {
    /// The layer of a card that was never used.
    pub fn new(model: &CardModel) -> Self {
        let units: Vec<u32> = model.good_units().collect();
        Self::over(model, model.capacity_units(), &units)
    }

    /// The layer of a part of a card that was never used: its first logical units, and the erase
    /// units to keep them in, those of the pSLC area first.
    pub fn over(model: &CardModel, logical_units: u32, units: &[u32]) -> Self {
        let pages_per_unit = model.pages_per_unit();
        let pages = logical_units as usize * pages_per_unit as usize;
        let collection = model.layer.collection.unwrap_or_default();
        let pslc_units = model.nand.pslc.as_ref().map_or(0, |pslc| pslc.units as usize);
        let (pslc, units) = units.split_at(pslc_units);
        Self {
            map: LargeTable::new(pages),
            units: Victims::new(collection, model.total_units(), pages_per_unit),
            free: FreeBlocks::of(units.iter().copied()),
            open: NONE,
            emptying: None,
            idle_free_units: 1 + (model.nand.spare_units / IDLE_SHARE) as usize,
            pslc: (pslc_units > 0).then(|| Box::new(PslcArea::new(pslc.iter().copied()))),
            cached_map: CachedMap::new(model).map(Box::new),
            wear: model.layer.wear_spread.map(WearLevelling::new).map(Box::new),
            pages_per_unit,
            counters: LayerCounters::default(),
        }
    }

    /// The bytes of memory that the map and the accounts of the units take, when all of the card is
    /// in use.
    pub fn memory_bytes(&self) -> usize {
        self.map.memory_bytes() + self.units.memory_bytes()
    }

    /// Lets a logical page be at `page` and nowhere else.
    fn remap(&mut self, logical_page: u32, page: u32) {
        let old = std::mem::replace(&mut self.map[logical_page as usize], page + 1);
        if old != 0 {
            self.units.lose((old - 1) / self.pages_per_unit);
        }
        self.units.gain(page / self.pages_per_unit);
        if let Some(cached) = &mut self.cached_map {
            cached.change(logical_page);
        }
    }

    fn forget(&mut self, logical_page: u32) {
        let old = std::mem::take(&mut self.map[logical_page as usize]);
        if old != 0 {
            self.units.lose((old - 1) / self.pages_per_unit);
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
        let held = nand.logical_page(page);
        assert_eq!(held, Some(logical_page), "the layer lost track of a page");
        nand.read(page);
        Some(page)
    }

    /// Folds first, because what the host waits for next is room in the pSLC area.
    fn work_in_background(&mut self, nand: &mut Nand) -> bool {
        let before_ns = nand.finished_ns();
        // A piece may take no time on a card whose times are zero.
        while nand.finished_ns() == before_ns {
            if !self.fold_a_piece(nand) && !self.collect_a_piece(nand) {
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
