//! A layer that maps chunks of erase blocks and has an update log, after the behaviour of SanDisk
//! cards.
//!
//! What is mapped is the chunk, some hundred kibibytes ([`chunks`]). As many logical units can be
//! open as the model says; each writes one chunk at a time, in order, into an erase block of its
//! own ([`streams`]). A write that is out of order completes the chunk under way with copies of its
//! rest, and begins its own chunk with copies of what lies before it: so requests below the size of
//! a chunk all cost about one chunk. Small ones, up to `log_request`, go to a page-mapped log
//! instead. When more units are written than can be open, one gives way: its chunk is completed,
//! and what continues it goes to the log until the next chunk begins. So the cliff is a soft one.
//! When the log is full, each chunk with a page in its oldest unit that is still the newest is
//! rewritten ([`collection`]). Limits: nothing is collected in idle time. Source: inferred from
//! timing, of class C of the cards in wirenboard/sdcard_benchmark; how such cards work inside is
//! not published.

mod chunks;
mod collection;
mod streams;
#[cfg(test)]
mod tests;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::block_mapped::NewerPages;
use super::free_blocks::FreeBlocks;
use super::log_block::small_log::SmallLog;
use super::{PageWrite, TranslationLayer};
use crate::counters::LayerCounters;
use crate::model::CardModel;
use crate::nand::Nand;
use chunks::Chunks;
use streams::Stream;

/// A layer with mapped chunks and an update log.
#[derive(Debug, Serialize, Deserialize)]
pub struct UpdateLog {
    chunks: Chunks,
    /// The open erase blocks, least recently written first.
    streams: Vec<Stream>,
    open_units: usize,
    log: SmallLog,
    log_request_bytes: u64,
    /// By logical unit; one more than the page that was written last, or 0.
    written_last: Vec<u32>,
    /// Where chunks are brought together: an erase block and its first slot that is not taken.
    gathering: Option<(u32, u32)>,
    free: FreeBlocks,
    pages_per_chunk: u32,
    pages_per_unit: u32,
    counters: LayerCounters,
    /// The pages of a chunk that come from the log, by place.
    #[serde(skip)]
    strays: Vec<(u32, u32)>,
}

impl UpdateLog {
    /// The layer of a card that was never used, on these erase blocks.
    pub fn new(model: &CardModel, units: impl Iterator<Item = u32>) -> Self {
        let layer = &model.layer;
        let pages_per_unit = model.pages_per_unit();
        let slots_per_unit = model.chunks_per_unit();
        let pages_per_chunk = pages_per_unit / slots_per_unit;
        Self {
            chunks: Chunks::new(model.capacity_units(), model.total_units(), slots_per_unit),
            streams: Vec::new(),
            open_units: layer.open_units.expect("a checked log layer says") as usize,
            log: SmallLog::new(layer, pages_per_chunk),
            log_request_bytes: layer.log_request.expect("a checked log layer says").0,
            written_last: vec![0; model.capacity_units() as usize],
            gathering: None,
            free: FreeBlocks::of(units),
            pages_per_chunk,
            pages_per_unit,
            counters: LayerCounters::default(),
            strays: Vec::new(),
        }
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

    /// Whether a page is the one that was written last in its unit, or the next.
    fn continues(&mut self, logical_page: u32) -> bool {
        let unit = (logical_page / self.pages_per_unit) as usize;
        let last = std::mem::replace(&mut self.written_last[unit], logical_page + 1);
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

    /// Forgets whole chunks only.
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
}
