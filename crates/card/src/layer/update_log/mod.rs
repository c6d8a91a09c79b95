//! A layer that maps chunks of erase blocks and has an update log, modeled on SanDisk cards.
//!
//! The mapping granularity is the chunk, some hundred KiB ([`chunks`]). The model limits how many
//! logical blocks are open; each writes one chunk at a time, in order, to its own erase block
//! ([`streams`]). An out-of-order write completes the current chunk with copies of its rest and
//! begins its own chunk with copies of what precedes it, so requests below the size of a chunk all
//! cost about one chunk. Small ones, up to `log_request`, go to a page-mapped log instead. When
//! more blocks are written than can be open, one is closed, by default the oldest
//! ([`super::eviction`]): its chunk is completed, and writes that continue it go to the log until
//! the next chunk begins, so the slowdown is gradual.
//! When the log is full, each chunk with a current page in its oldest block is rewritten
//! ([`collection`]). Limit: nothing is collected in idle time. Source: inferred from the timing of
//! class C of the cards in wirenboard/sdcard_benchmark; the internals of such cards are not
//! published.

mod chunks;
mod collection;
mod streams;
#[cfg(test)]
mod tests;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::block_mapped::NewerPages;
use super::eviction::Eviction;
use super::free_blocks::FreeBlocks;
use super::log_block::small_log::SmallLog;
use super::{PageWrite, TranslationLayer};
use crate::counters::LayerCounters;
use crate::model::{CardModel, LayerModel};
use crate::nand::Nand;
use chunks::Chunks;
use streams::Stream;

#[derive(Debug, Serialize, Deserialize)]
pub struct UpdateLog {
    chunks: Chunks,
    /// The open blocks, least recently written first.
    streams: Vec<Stream>,
    #[serde(rename = "open_units")]
    open_erase_blocks: usize,
    log: SmallLog,
    log_request_bytes: u64,
    /// By logical block: one more than the page written last, or 0.
    written_last: Vec<u32>,
    /// Where chunks are consolidated: an erase block and its first free slot.
    consolidation: Option<(u32, u32)>,
    free: FreeBlocks,
    pages_per_chunk: u32,
    pages_per_block: u32,
    counters: LayerCounters,
    #[serde(skip)]
    eviction: Eviction,
    /// Pages of a chunk that come from the log, by position.
    #[serde(skip)]
    strays: Vec<(u32, u32)>,
}

impl UpdateLog {
    /// The layer of a new card on these erase blocks.
    pub fn new(model: &CardModel, blocks: impl Iterator<Item = u32>) -> Self {
        let layer = &model.layer;
        let pages_per_block = model.pages_per_block();
        let slots_per_block = model.chunks_per_block();
        let pages_per_chunk = pages_per_block / slots_per_block;
        Self {
            chunks: Chunks::new(model.capacity_blocks(), model.total_blocks(), slots_per_block),
            streams: Vec::new(),
            open_erase_blocks: layer.open_erase_blocks.expect("a checked log layer says") as usize,
            log: SmallLog::new(layer, pages_per_chunk),
            log_request_bytes: layer.log_request.expect("a checked log layer says").0,
            written_last: vec![0; model.capacity_blocks() as usize],
            consolidation: None,
            free: FreeBlocks::of(blocks),
            pages_per_chunk,
            pages_per_block,
            counters: LayerCounters::default(),
            eviction: Eviction::new(layer),
            strays: Vec::new(),
        }
    }

    /// Restores what is not saved with a card.
    pub fn restore(&mut self, model: &LayerModel) {
        self.eviction = Eviction::new(model);
    }

    fn split(&self, logical_page: u32) -> (u32, u32) {
        (logical_page / self.pages_per_chunk, logical_page % self.pages_per_chunk)
    }

    fn page_in_slot(&self, slot: u32, place: u32) -> u32 {
        slot * self.pages_per_chunk + place
    }

    fn pages_of(&self, chunk: u32) -> Range<u32> {
        let first = chunk * self.pages_per_chunk;
        first..first + self.pages_per_chunk
    }

    /// Whether a page is the last written one of its block, or the next.
    fn continues(&mut self, logical_page: u32) -> bool {
        let block = (logical_page / self.pages_per_block) as usize;
        let last = std::mem::replace(&mut self.written_last[block], logical_page + 1);
        last != 0 && (last == logical_page || last == logical_page + 1)
    }

    fn write_to_log(&mut self, nand: &mut Nand, logical_page: u32) {
        if self.log.is_full(nand) {
            self.collect_log(nand);
        }
        self.keep_free(nand);
        self.log.append(nand, &mut self.free, logical_page);
    }
}

impl TranslationLayer for UpdateLog {
    fn write(&mut self, nand: &mut Nand, write: PageWrite) {
        let logical_page = write.logical_page;
        if !write.whole {
            self.read(nand, logical_page);
        }
        let continues = self.continues(logical_page);
        let (chunk, place) = self.split(logical_page);
        let next = self.next_place_of(chunk);
        let small = write.request_bytes <= self.log_request_bytes;
        if next == Some(place) {
            self.use_stream_of(chunk);
        } else if small || (next.is_none() && continues && place != 0) {
            return self.write_to_log(nand, logical_page);
        } else if next.is_some_and(|next| continues && next < place) {
            self.use_stream_of(chunk);
            self.copy_up_to(nand, place);
        } else {
            self.begin_chunk(nand, chunk, place);
        }
        self.append(nand, logical_page);
    }

    /// Unmaps whole chunks only.
    fn discard(&mut self, _nand: &mut Nand, logical_pages: Range<u32>) {
        let first = logical_pages.start.div_ceil(self.pages_per_chunk);
        for chunk in first..logical_pages.end / self.pages_per_chunk {
            self.abandon(chunk);
            self.chunks.forget(chunk);
            self.log.forget(self.pages_of(chunk));
        }
    }

    fn locate(&self, nand: &Nand, logical_page: u32) -> Option<u32> {
        if let Some(page) = self.log.page_of(logical_page) {
            return Some(page);
        }
        let (chunk, place) = self.split(logical_page);
        let under_way = self.under_way(chunk).filter(|&(_, next)| place < next);
        let slot = under_way.map(|(slot, _)| slot).or_else(|| self.chunks.slot_of(chunk))?;
        let page = self.page_in_slot(slot, place);
        nand.logical_page(page).map(|_| page)
    }

    fn counters(&self) -> LayerCounters {
        self.counters
    }

    fn evictions(&self) -> u64 {
        self.eviction.count()
    }
}
