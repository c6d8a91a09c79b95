//! Collects the log, and erase blocks with obsolete chunks.

use std::ops::Range;

use super::UpdateLog;
use crate::layer::block_mapped::NewerPages;
use crate::nand::Nand;

/// One block must be free while another one is collected.
const KEEP_FREE: usize = 2;

impl UpdateLog {
    /// Ensures that one block can be taken while one more is left for collection.
    pub(super) fn keep_free(&mut self, nand: &mut Nand) {
        while self.free.len() < KEEP_FREE {
            let before_ns = nand.finished_ns();
            self.collect_block(nand);
            self.counters.merge_ns += nand.finished_ns() - before_ns;
        }
    }

    fn collect_block(&mut self, nand: &mut Nand) {
        let victim = self.chunks.take_victim().expect("more blocks than there is data for");
        for index in 0..self.chunks.slots_per_block() {
            let slot = self.chunks.slot_at(victim, index);
            if self.chunks.is_current(slot) {
                self.move_chunk(nand, slot);
            }
        }
        self.free.put(nand, victim);
        self.counters.garbage_collections += 1;
    }

    /// Rewrites every chunk with current pages in the oldest block of the log.
    pub(super) fn collect_log(&mut self, nand: &mut Nand) {
        while let Some(logical_page) = self.log.next_to_collect(nand) {
            self.keep_free(nand);
            let before_ns = nand.finished_ns();
            self.rewrite(nand, logical_page / self.pages_per_chunk);
            self.counters.merge_ns += nand.finished_ns() - before_ns;
            self.counters.merges.full += 1;
        }
        self.log.release_oldest(nand, &mut self.free);
        self.counters.merges.log += 1;
    }

    /// Consolidates the newest pages of a whole chunk.
    fn rewrite(&mut self, nand: &mut Nand, chunk: u32) {
        let slot = self.consolidation_slot(nand);
        self.copy_chunk(nand, chunk, 0..self.pages_per_chunk, slot);
        self.abandon(chunk);
        self.chunks.put(chunk, slot);
    }

    /// Moves the chunk of a slot out of a block that is collected. A write in progress continues.
    fn move_chunk(&mut self, nand: &mut Nand, old: u32) {
        let slot = self.consolidation_slot(nand);
        let (from, to) = (self.page_in_slot(old, 0), self.page_in_slot(slot, 0));
        nand.copy_run(from, to, self.pages_per_chunk);
        self.chunks.relocate(old, slot);
    }

    fn consolidation_slot(&mut self, nand: &mut Nand) -> u32 {
        let (block, index) = match self.consolidation.take() {
            Some(place) => place,
            None => (self.free.take(nand), 0),
        };
        if index + 1 == self.chunks.slots_per_block() {
            self.chunks.complete(block);
        } else {
            self.consolidation = Some((block, index + 1));
        }
        self.chunks.slot_at(block, index)
    }

    /// Copies the newest versions of these positions of a chunk to a slot.
    pub(super) fn copy_chunk(
        &mut self,
        nand: &mut Nand,
        chunk: u32,
        places: Range<u32>,
        slot: u32,
    ) {
        if places.is_empty() {
            return;
        }
        let first = self.pages_of(chunk).start;
        let pages = first + places.start..first + places.end;
        let mut strays = std::mem::take(&mut self.strays);
        strays.clear();
        self.log.each_in(pages.clone(), |page, at| strays.push((page - first, at)));
        let mut next = places.start;
        for &(place, page) in &strays {
            self.copy_old(nand, chunk, next..place, slot);
            nand.copy(page, self.page_in_slot(slot, place));
            next = place + 1;
        }
        self.copy_old(nand, chunk, next..places.end, slot);
        if !strays.is_empty() {
            self.log.forget(pages);
        }
        self.strays = strays;
    }

    /// Copies positions of a chunk that are not in the log.
    fn copy_old(&self, nand: &mut Nand, chunk: u32, places: Range<u32>, slot: u32) {
        let under_way = self.under_way(chunk).filter(|&(at, _)| at != slot);
        let next = under_way.map_or(0, |(_, next)| next).clamp(places.start, places.end);
        for (from, places) in [
            (under_way.map(|(at, _)| at), places.start..next),
            (self.chunks.slot_of(chunk), next..places.end),
        ] {
            if let Some(from) = from.filter(|_| !places.is_empty()) {
                let from = self.page_in_slot(from, places.start);
                let to = self.page_in_slot(slot, places.start);
                nand.copy_run(from, to, places.end - places.start);
            }
        }
    }
}
