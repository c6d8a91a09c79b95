//! Garbage collection: frees erase blocks that contain few valid pages.
//!
//! Host pages and moved pages share one open block. When only one free block is left (besides those
//! reserved for the map), a closed block is emptied into it, within the request that needs the
//! space. In idle time, if the model enables it, blocks are emptied one write unit at a time until
//! an eighth of the spare blocks is free, unless too little would be gained for the wear. Limit:
//! hot and cold pages share the open block. Source: Bux and Iliadis, "Performance of greedy garbage
//! collection in flash-based solid-state drives" (Performance Evaluation, 2010).

use serde::{Deserialize, Serialize};

use super::PageMapped;
use crate::nand::{NONE, Nand};

/// In idle time a block is emptied only if at least one in this many pages is gained.
const WORTHWHILE: u32 = 8;

/// A block that is emptied piece by piece.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct GcInProgress {
    pub block: u32,
    /// Positions before this one are done.
    place: u32,
    /// Valid pages among the last 64 examined positions that are not moved yet.
    valid: u64,
}

impl GcInProgress {
    pub fn new(block: u32) -> Self {
        Self { block, place: 0, valid: 0 }
    }
}

impl PageMapped {
    /// The next page for multi-bit cells; collects garbage if necessary.
    pub(super) fn next_page(&mut self, nand: &mut Nand) -> u32 {
        loop {
            if self.open != NONE {
                let place = nand.next_place(self.open);
                if place < self.pages_per_block {
                    return nand.page_at(self.open, place);
                }
                let full = std::mem::replace(&mut self.open, NONE);
                self.close_block(nand, full);
            }
            if self.free.len() > self.reserve(nand) {
                self.open = self.free.take(nand);
            } else {
                self.collect(nand);
                self.replace_retired(nand);
            }
        }
    }

    /// Frees blocks in place of those that were retired.
    fn replace_retired(&mut self, nand: &mut Nand) {
        while self.free.len() < self.reserve(nand) {
            if self.emptying.is_none() {
                let victim = self.blocks.choose();
                let gains = |block: &u32| self.blocks.valid(*block) < nand.pages_in(*block);
                let Some(victim) = victim.filter(gains) else { return };
                self.withdraw(nand, victim);
                self.emptying = Some(GcInProgress::new(victim));
            }
            self.empty_step(nand);
        }
    }

    /// Free blocks that host pages must not use.
    fn reserve(&self, nand: &Nand) -> usize {
        // Where blocks fail, one may be retired while another is being emptied.
        let can_fail = self.free.first().is_some_and(|block| nand.can_be_replaced(block));
        1 + usize::from(can_fail)
            + self.cached_map.as_ref().map_or(0, |cached| cached.blocks_owed())
    }

    /// Empties a block into a new open one.
    fn collect(&mut self, nand: &mut Nand) {
        let before_ns = nand.finished_ns();
        self.level_wear(nand);
        let mut emptying = match self.emptying.take() {
            Some(begun) => begun,
            None => self.begin_collecting(nand),
        };
        self.open = self.free.take(nand);
        self.move_all(nand, &mut emptying, self.open);
        self.free.put(nand, emptying.block);
        self.counters.garbage_collections += 1;
        self.counters.merge_ns += nand.finished_ns() - before_ns;
    }

    fn begin_collecting(&mut self, nand: &Nand) -> GcInProgress {
        let victim = self.blocks.choose().expect("all blocks but a few are closed");
        self.withdraw(nand, victim);
        GcInProgress::new(victim)
    }

    /// Collects one write unit of pages; `false` if nothing needs to be collected.
    pub(super) fn collect_step(&mut self, nand: &mut Nand) -> bool {
        if self.emptying.is_none() {
            let wanted = self.free.len() < self.reserve(nand) + self.idle_free_units;
            let victim = self.blocks.choose().filter(|_| wanted);
            let Some(victim) = victim.filter(|&block| self.is_worthwhile(block)) else {
                return false;
            };
            self.withdraw(nand, victim);
            self.emptying = Some(GcInProgress::new(victim));
        }
        self.empty_step(nand);
        true
    }

    /// Moves one write unit of pages out of the block that is being emptied.
    fn empty_step(&mut self, nand: &mut Nand) {
        for _ in 0..nand.pages_per_write_unit() {
            // Making room may need the block that is being emptied.
            let to = self.next_page(nand);
            let Some(mut emptying) = self.emptying else { return };
            if !self.move_next(nand, &mut emptying, to) {
                nand.erase(emptying.block);
                self.free.put(nand, emptying.block);
                self.emptying = None;
                self.counters.garbage_collections += 1;
                return;
            }
            self.emptying = Some(emptying);
        }
    }

    fn is_worthwhile(&self, block: u32) -> bool {
        self.blocks.valid(block) <= self.pages_per_block - self.pages_per_block.div_ceil(WORTHWHILE)
    }

    /// Moves all valid pages of a block to another block with enough space.
    pub(super) fn move_all(&mut self, nand: &mut Nand, emptying: &mut GcInProgress, block: u32) {
        while self.blocks.valid(emptying.block) > 0 {
            let to = nand.page_at(block, nand.next_place(block));
            self.move_next(nand, emptying, to);
        }
    }

    /// Moves the next valid page of a block to `to`; `false` if none is left.
    pub(super) fn move_next(
        &mut self,
        nand: &mut Nand,
        emptying: &mut GcInProgress,
        to: u32,
    ) -> bool {
        let Some((from, logical_page)) = self.next_valid(nand, emptying) else { return false };
        nand.copy(from, to);
        self.map[logical_page as usize] = to + 1;
        self.blocks.lose(emptying.block);
        self.blocks.gain(to / self.pages_per_block);
        if let Some(cached) = &mut self.cached_map {
            cached.change(logical_page);
        }
        true
    }

    fn next_valid(&self, nand: &Nand, emptying: &mut GcInProgress) -> Option<(u32, u32)> {
        if self.blocks.valid(emptying.block) == 0 {
            return None;
        }
        loop {
            while emptying.valid == 0 {
                emptying.valid = self.valid_from(nand, emptying.block, emptying.place);
                emptying.place += u64::BITS;
            }
            let place = emptying.place - u64::BITS + emptying.valid.trailing_zeros();
            emptying.valid &= emptying.valid - 1;
            let page = nand.page_at(emptying.block, place);
            let logical_page = nand.logical_page(page).expect("a valid page is programmed");
            // It may have been overwritten since it was examined.
            if self.map[logical_page as usize] == page + 1 {
                return Some((page, logical_page));
            }
        }
    }

    /// A bit for each of the 64 positions from `place`: whether the map points to its page.
    /// Examined together and without branches, so that on a large card the processor waits for many
    /// map entries at once.
    fn valid_from(&self, nand: &Nand, block: u32, place: u32) -> u64 {
        let places = place..nand.pages_in(block).min(place + u64::BITS);
        assert!(!places.is_empty(), "block {block} has fewer valid pages than were counted");
        let mut valid = 0;
        for (number, bit) in nand.stored(block, places.clone()).iter().zip(0..) {
            let entry = self.map.get(number.wrapping_sub(1) as usize).copied().unwrap_or(0);
            let page = nand.page_at(block, place + bit);
            valid |= u64::from(entry == page + 1) << bit;
        }
        valid
    }

    /// Closes a full block.
    pub(super) fn close_block(&mut self, nand: &Nand, block: u32) {
        self.blocks.close(block);
        if let Some(wear) = &mut self.wear {
            wear.close(nand, block);
        }
    }

    /// Prepares a closed block for being emptied.
    pub(super) fn withdraw(&mut self, nand: &Nand, block: u32) {
        self.blocks.remove(block);
        if let Some(wear) = &mut self.wear {
            wear.remove(nand, block);
        }
    }
}
