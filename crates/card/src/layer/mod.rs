//! Translation layers: map logical pages to physical pages that cannot be overwritten.
//!
//! A layer decides which NAND operations a request needs; the [`Nand`] counts and schedules them. A
//! page is the mapped unit of the card model. A partial write arrives as `whole == false` and costs
//! reading the old page first.

mod block_mapped;
mod eviction;
mod free_blocks;
mod log_block;
mod page_mapped;
#[cfg(test)]
mod stamp_tests;
mod update_log;
mod zone;

use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use block_mapped::BlockMapped;
pub use log_block::LogBlock;
pub use page_mapped::PageMapped;
pub use update_log::UpdateLog;

use crate::counters::LayerCounters;
use crate::model::{CardModel, LayerKind};
use crate::nand::Nand;
use zone::Zone;

/// The write of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageWrite {
    pub logical_page: u32,
    /// Whether the whole page is written.
    pub whole: bool,
    /// Size of the request in bytes. Data written back from a cache counts as one request per run
    /// of adjacent pages.
    pub request_bytes: u64,
}

impl PageWrite {
    /// A request that writes exactly one whole page.
    pub fn whole(logical_page: u32, page_bytes: u64) -> Self {
        Self { logical_page, whole: true, request_bytes: page_bytes }
    }
}

/// A translation layer over a [`Nand`].
///
/// The content of a written page is loaded with [`Nand::load`] before the call; the layer programs
/// it exactly once, before it copies anything after it.
pub trait TranslationLayer: std::fmt::Debug + Send {
    /// Writes a page, completely or partly.
    fn write(&mut self, nand: &mut Nand, write: PageWrite);

    /// Ends a request or a write-back of the cache: everything written so far must be in the NAND.
    fn settle(&mut self, nand: &mut Nand) {
        nand.close_write_unit();
    }

    /// Unmaps the pages of a range as far as the layer can.
    fn discard(&mut self, nand: &mut Nand, logical_pages: Range<u32>);

    /// The physical page of a logical page; `None` if it was never written or was discarded.
    fn locate(&self, nand: &Nand, logical_page: u32) -> Option<u32>;

    /// Performs one piece of background work; `false` if there is none.
    fn work_in_background(&mut self, _nand: &mut Nand) -> bool {
        false
    }

    fn counters(&self) -> LayerCounters;

    /// How many open erase blocks were closed because another was written, since the card was made
    /// or loaded.
    fn evictions(&self) -> u64 {
        0
    }

    /// Reads a page and returns its physical page. Reading an unmapped page takes no time.
    fn read(&mut self, nand: &mut Nand, logical_page: u32) -> Option<u32> {
        let page = self.locate(nand, logical_page)?;
        let stored = nand.logical_page(page);
        assert_eq!(stored, Some(logical_page), "the layer lost track of a page");
        nand.read(page);
        Some(page)
    }
}

/// The layer of a card, with the zone at its start if the card has one.
#[derive(Debug, Serialize, Deserialize)]
pub struct Layer {
    zone: Option<Zone>,
    main: Main,
}

#[derive(Debug, Serialize, Deserialize)]
enum Main {
    BlockMapped(BlockMapped),
    LogBlock(LogBlock),
    UpdateLog(UpdateLog),
    PageMapped(PageMapped),
}

impl Layer {
    /// Creates the layer of a model.
    pub fn new(model: &CardModel) -> Self {
        let mut blocks: Vec<u32> = model.good_blocks().collect();
        let zone = model.zone.as_ref().map(|zone| Zone::new(model, zone, &mut blocks));
        let free = blocks.iter().copied();
        let main = match model.layer.kind {
            LayerKind::BlockMapped => Main::BlockMapped(BlockMapped::new(model, free)),
            LayerKind::LogBlock => Main::LogBlock(LogBlock::new(model, free)),
            LayerKind::UpdateLog => Main::UpdateLog(UpdateLog::new(model, free)),
            LayerKind::PageMapped => {
                Main::PageMapped(PageMapped::over(model, model.capacity_blocks(), &blocks))
            }
        };
        Self { zone, main }
    }

    /// Restores what is not saved with a card.
    pub fn restore(&mut self, model: &CardModel) {
        match &mut self.main {
            Main::BlockMapped(layer) => layer.restore(&model.layer),
            Main::LogBlock(layer) => layer.restore(&model.layer),
            Main::UpdateLog(layer) => layer.restore(&model.layer),
            Main::PageMapped(_) => {}
        }
    }

    fn zone_of(&mut self, logical_page: u32) -> Option<&mut Zone> {
        self.zone.as_mut().filter(|zone| logical_page < zone.end())
    }
}

/// Calls a method of the actual layer.
macro_rules! of_each {
    ($main:expr, $layer:ident => $call:expr) => {
        match $main {
            Main::BlockMapped($layer) => $call,
            Main::LogBlock($layer) => $call,
            Main::UpdateLog($layer) => $call,
            Main::PageMapped($layer) => $call,
        }
    };
}

impl TranslationLayer for Layer {
    fn write(&mut self, nand: &mut Nand, write: PageWrite) {
        if let Some(zone) = self.zone_of(write.logical_page) {
            return zone.write(nand, write);
        }
        of_each!(&mut self.main, layer => layer.write(nand, write));
    }

    fn settle(&mut self, nand: &mut Nand) {
        if let Some(zone) = &mut self.zone {
            zone.settle(nand);
        }
        of_each!(&mut self.main, layer => layer.settle(nand));
    }

    fn discard(&mut self, nand: &mut Nand, logical_pages: Range<u32>) {
        let end = self.zone.as_ref().map_or(0, Zone::end);
        let (inside, behind) = (
            logical_pages.start.min(end)..logical_pages.end.min(end),
            logical_pages.start.max(end)..logical_pages.end.max(end),
        );
        if let Some(zone) = self.zone.as_mut().filter(|_| !inside.is_empty()) {
            zone.discard(nand, inside);
        }
        if !behind.is_empty() {
            of_each!(&mut self.main, layer => layer.discard(nand, behind));
        }
    }

    fn locate(&self, nand: &Nand, logical_page: u32) -> Option<u32> {
        match &self.zone {
            Some(zone) if logical_page < zone.end() => zone.locate(nand, logical_page),
            _ => of_each!(&self.main, layer => layer.locate(nand, logical_page)),
        }
    }

    fn work_in_background(&mut self, nand: &mut Nand) -> bool {
        of_each!(&mut self.main, layer => layer.work_in_background(nand))
    }

    fn counters(&self) -> LayerCounters {
        let counters = of_each!(&self.main, layer => layer.counters());
        self.zone.as_ref().map_or(counters, |zone| zone.add_to(counters))
    }

    fn evictions(&self) -> u64 {
        of_each!(&self.main, layer => layer.evictions())
    }

    fn read(&mut self, nand: &mut Nand, logical_page: u32) -> Option<u32> {
        if let Some(zone) = self.zone_of(logical_page) {
            return zone.read(nand, logical_page);
        }
        of_each!(&mut self.main, layer => layer.read(nand, logical_page))
    }
}
