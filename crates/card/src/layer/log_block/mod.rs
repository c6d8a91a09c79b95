//! A block-mapped layer with a log for small writes.
//!
//! Large writes go to the logs of open blocks as in [`BlockMapped`]; small ones, up to
//! `log_request`, go to a separate page-mapped log ([`small_log`]) unless they continue the last
//! write. The smallest writes are therefore not slowed down by the number of blocks they go to,
//! while larger ones are, and speed does not grow steadily with request size. When the log is full,
//! its oldest block is collected: each logical block with a current page in it is merged. Saving
//! the log's map is only modeled as time (`log_ns`). Limit: the log is collected in FIFO order.
//! Sources: Lee et al., "A log buffer-based flash translation layer using fully-associative sector
//! translation" (ACM TECS, 2007), known as FAST, for the shared log; cards in the flashbench
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
use crate::model::{CardModel, LayerModel};
use crate::nand::Nand;
use small_log::SmallLog;

#[derive(Debug, Serialize, Deserialize)]
pub struct LogBlock {
    blocks: BlockMapped,
    log: SmallLog,
    log_request_bytes: u64,
    /// One more than the page written last, or 0.
    written_last: u32,
    pages_per_block: u32,
}

impl LogBlock {
    /// The layer of a new card on these erase blocks.
    pub fn new(model: &CardModel, units: impl Iterator<Item = u32>) -> Self {
        Self {
            blocks: BlockMapped::new(model, units),
            log: SmallLog::new(&model.layer, model.pages_per_block()),
            log_request_bytes: model.layer.log_request.expect("a checked log layer says").0,
            written_last: 0,
            pages_per_block: model.pages_per_block(),
        }
    }

    /// Restores what is not saved with a card.
    pub fn restore(&mut self, model: &LayerModel) {
        self.blocks.restore(model);
    }

    /// Whether a small write continues a sequential block. A sequential write is recognized at its
    /// second page, or at its first page if it follows the last page of the previous block.
    fn continues(&mut self, nand: &mut Nand, logical_page: u32) -> bool {
        let follows = self.written_last == logical_page;
        self.written_last = logical_page + 1;
        if self.blocks.continues(logical_page) {
            return true;
        }
        let place = logical_page % self.pages_per_block;
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

    /// Merges every logical block with current pages in the oldest block of the log.
    fn collect(&mut self, nand: &mut Nand) {
        while let Some(logical_page) = self.log.next_to_collect(nand) {
            self.blocks.merge_wholly(nand, logical_page / self.pages_per_block, &mut self.log);
        }
        self.log.release_oldest(nand, self.blocks.free_mut());
        self.blocks.counters_mut().merges.log += 1;
    }
}

impl TranslationLayer for LogBlock {
    fn write(&mut self, nand: &mut Nand, write: PageWrite) {
        if !write.whole {
            self.read(nand, write.logical_page);
        }
        let small = write.request_bytes <= self.log_request_bytes;
        if small && !self.continues(nand, write.logical_page) {
            self.write_to_log(nand, write.logical_page);
        } else {
            self.written_last = write.logical_page + 1;
            self.blocks.write_here(nand, write, &mut self.log);
        }
    }

    /// Unmaps whole logical blocks only.
    fn discard(&mut self, nand: &mut Nand, logical_pages: Range<u32>) {
        self.blocks.discard_here(nand, &logical_pages, &mut self.log);
    }

    fn locate(&self, nand: &Nand, logical_page: u32) -> Option<u32> {
        self.log.page_of(logical_page).or_else(|| self.blocks.locate_here(nand, logical_page))
    }

    fn counters(&self) -> LayerCounters {
        self.blocks.counters()
    }

    fn evictions(&self) -> u64 {
        self.blocks.evictions()
    }
}
