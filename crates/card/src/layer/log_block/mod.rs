//! A block-mapped layer with a log for small writes.
//!
//! Large writes go to the logs of open erase blocks as in [`BlockMapped`]; small ones, up to
//! `log_request`, to a page-mapped log of their own ([`small_log`]), unless they continue what was
//! written last. So the smallest writes are not slowed by the number of units that they go to,
//! larger ones are, and speed does not grow steadily with the size of requests. When the log is
//! full its oldest unit is collected: each logical unit with a page in it that is still the newest
//! is merged. What saves the log's map is only counted as time (`log_ns`). Limits: the log is
//! collected in the order of its filling, whatever it holds.
//! Sources: Lee et al., "A log buffer-based flash translation layer using fully-associative sector
//! translation" (ACM TECS, 2007), known as FAST, for the shared log; the cards of the flashbench
//! surveys that write 4 KiB at the same speed to any number of erase blocks, but not 16 KiB.

mod newest;
pub mod small_log;
#[cfg(test)]
mod tests;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::block_mapped::NewerPages;
use super::{BlockMapped, PageWrite, TranslationLayer};
use crate::counters::LayerCounters;
use crate::model::CardModel;
use crate::nand::Nand;
use small_log::SmallLog;

/// A block-mapped layer with a log for small writes.
#[derive(Debug, Serialize, Deserialize)]
pub struct LogBlock {
    blocks: BlockMapped,
    log: SmallLog,
    log_request_bytes: u64,
    /// One more than the page that was written last, or 0.
    written_last: u32,
    pages_per_unit: u32,
}

impl LogBlock {
    /// The layer of a card that was never used, on these erase blocks.
    pub fn new(model: &CardModel, units: impl Iterator<Item = u32>) -> Self {
        Self {
            blocks: BlockMapped::new(model, units),
            log: SmallLog::new(&model.layer, model.pages_per_unit()),
            log_request_bytes: model.layer.log_request.expect("a checked log layer says").0,
            written_last: 0,
            pages_per_unit: model.pages_per_unit(),
        }
    }

    /// Whether a small write goes on with a unit that is written in order. That one is, is seen at
    /// its second page, or at its first when it follows the last one of the unit before.
    fn goes_on(&mut self, nand: &mut Nand, logical_page: u32) -> bool {
        let follows = self.written_last == logical_page;
        self.written_last = logical_page + 1;
        if self.blocks.continues(logical_page) {
            return true;
        }
        let place = logical_page % self.pages_per_unit;
        let begins = follows && place <= 1 && !self.blocks.is_open(logical_page);
        if begins && logical_page > 0 {
            self.blocks.open_behind(nand, logical_page, &mut self.log);
        }
        begins && logical_page > 0
    }

    fn write_to_log(&mut self, nand: &mut Nand, logical_page: u32) {
        if self.log.is_full(nand) {
            self.collect(nand);
        }
        self.log.append(nand, self.blocks.free_mut(), logical_page);
    }

    /// Merges every logical unit whose newest pages are in the oldest unit of the log.
    fn collect(&mut self, nand: &mut Nand) {
        while let Some(logical_page) = self.log.next_to_collect(nand) {
            self.blocks.merge_wholly(nand, logical_page / self.pages_per_unit, &mut self.log);
        }
        self.log.give_back_oldest(nand, self.blocks.free_mut());
        self.blocks.counters_mut().merges.log += 1;
    }
}

impl TranslationLayer for LogBlock {
    fn write(&mut self, nand: &mut Nand, write: PageWrite) {
        if !write.whole {
            self.read(nand, write.logical_page);
        }
        let small = write.request_bytes <= self.log_request_bytes;
        if small && !self.goes_on(nand, write.logical_page) {
            self.write_to_log(nand, write.logical_page);
        } else {
            self.written_last = write.logical_page + 1;
            self.blocks.write_here(nand, write, &mut self.log);
        }
    }

    /// Forgets whole logical units only.
    fn discard(&mut self, nand: &mut Nand, logical_pages: Range<u32>) {
        self.blocks.discard_here(nand, &logical_pages, &mut self.log);
    }

    fn locate(&self, nand: &Nand, logical_page: u32) -> Option<u32> {
        self.log.page_of(logical_page).or_else(|| self.blocks.locate_here(nand, logical_page))
    }

    fn counters(&self) -> LayerCounters {
        self.blocks.counters()
    }
}
