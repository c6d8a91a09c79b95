//! The open blocks: each writes one chunk at a time into slots of its own erase block.

use serde::{Deserialize, Serialize};

use super::UpdateLog;
use crate::layer::block_mapped::NewerPages;
use crate::nand::Nand;

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Stream {
    logical_block: u32,
    /// The erase block and the slot in it that is written now or next.
    slot: Option<(u32, u32)>,
    under_way: Option<UnderWay>,
}

/// A chunk that is being written.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct UnderWay {
    chunk: u32,
    /// The first unwritten position.
    next: u32,
    /// Whether any of it was copied.
    copied: bool,
}

impl UpdateLog {
    fn index_of(&self, chunk: u32) -> Option<usize> {
        let of_chunk = |way: &UnderWay| way.chunk == chunk;
        self.streams.iter().rposition(|stream| stream.under_way.as_ref().is_some_and(of_chunk))
    }

    /// The slot where a chunk is being written, and the first unwritten position.
    pub(super) fn under_way(&self, chunk: u32) -> Option<(u32, u32)> {
        let stream = &self.streams[self.index_of(chunk)?];
        let (block, index) = stream.slot.expect("what is under way has a slot");
        let next = stream.under_way.as_ref().map_or(0, |way| way.next);
        Some((self.chunks.slot_at(block, index), next))
    }

    pub(super) fn next_place_of(&self, chunk: u32) -> Option<u32> {
        let stream = &self.streams[self.index_of(chunk)?];
        stream.under_way.as_ref().map(|way| way.next)
    }

    /// Makes the stream that writes a chunk the most recent one.
    pub(super) fn use_stream_of(&mut self, chunk: u32) {
        let index = self.index_of(chunk).expect("the chunk is under way");
        self.streams[index..].rotate_left(1);
    }

    /// Begins a chunk with copies of everything before `place`. The stream of its block completes
    /// its current chunk; so does the stream that must be closed.
    pub(super) fn begin_chunk(&mut self, nand: &mut Nand, chunk: u32, place: u32) {
        let before_ns = nand.finished_ns();
        let logical_block = chunk / self.chunks.slots_per_block();
        let own = self.streams.iter().position(|stream| stream.logical_block == logical_block);
        if let Some(index) = own {
            self.streams[index..].rotate_left(1);
        } else if self.streams.len() < self.open_erase_blocks {
            self.streams.push(Stream::default());
        } else {
            let index = self.eviction.choose(nand, self.streams.len());
            self.streams[index..].rotate_left(1);
        }
        self.finish(nand);
        if self.last().slot.is_none() {
            self.keep_free(nand);
            let block = self.free.take(nand);
            self.last().slot = Some((block, 0));
        }
        self.last().logical_block = logical_block;
        self.last().under_way = Some(UnderWay { chunk, next: 0, copied: false });
        self.copy_up_to(nand, place);
        self.counters.merge_ns += nand.finished_ns() - before_ns;
    }

    fn last(&mut self) -> &mut Stream {
        self.streams.last_mut().expect("a block is open")
    }

    /// Completes the current chunk of the most recent stream.
    fn finish(&mut self, nand: &mut Nand) {
        if self.last().under_way.is_some() {
            self.copy_up_to(nand, self.pages_per_chunk);
            self.take_place();
        }
    }

    /// Copies everything before `place` of the chunk that the most recent stream writes.
    pub(super) fn copy_up_to(&mut self, nand: &mut Nand, place: u32) {
        let stream = self.last();
        let way = stream.under_way.as_mut().expect("a chunk is under way");
        let (block, index) = stream.slot.expect("what is under way has a slot");
        let (chunk, places) = (way.chunk, way.next..place);
        way.copied |= !places.is_empty();
        way.next = place;
        self.copy_chunk(nand, chunk, places, self.chunks.slot_at(block, index));
    }

    /// Programs the next page of the most recent stream.
    pub(super) fn append(&mut self, nand: &mut Nand, logical_page: u32) {
        self.log.forget(logical_page..logical_page + 1);
        let stream = self.last();
        let way = stream.under_way.as_mut().expect("a chunk is under way");
        let (block, index) = stream.slot.expect("what is under way has a slot");
        let place = way.next;
        way.next += 1;
        let page = self.page_in_slot(self.chunks.slot_at(block, index), place);
        nand.program(page, logical_page);
        if place + 1 == self.pages_per_chunk {
            self.take_place();
        }
    }

    /// Replaces the old version of a chunk by the complete one of the most recent stream.
    fn take_place(&mut self) {
        let stream = self.last();
        let way = stream.under_way.take().expect("a chunk is under way");
        let (block, index) = stream.slot.expect("what is under way has a slot");
        if way.copied {
            self.counters.merges.partial += 1;
        } else {
            self.counters.merges.switch += 1;
        }
        self.chunks.put(way.chunk, self.chunks.slot_at(block, index));
        let last = self.streams.len() - 1;
        self.next_slot(last);
    }

    /// Gives up writing a chunk; what was written of it is lost.
    pub(super) fn abandon(&mut self, chunk: u32) {
        if let Some(index) = self.index_of(chunk) {
            self.streams[index].under_way = None;
            self.next_slot(index);
        }
    }

    fn next_slot(&mut self, stream: usize) {
        let stream = &mut self.streams[stream];
        let (block, index) = stream.slot.take().expect("what was under way has a slot");
        if index + 1 == self.chunks.slots_per_block() {
            self.chunks.complete(block);
        } else {
            stream.slot = Some((block, index + 1));
        }
    }
}
