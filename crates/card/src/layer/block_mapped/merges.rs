//! Merges: closes an open block.
//!
//! A log that was written completely in order replaces the old block (switch merge). If it was
//! written in order from the start, the rest is copied after it first (partial merge). Otherwise
//! every page is copied to a free block (full merge). A log that began with copies counts as a full
//! merge if most of its pages are copies.

use std::ops::Range;

use super::BlockMapped;
use super::newer_pages::NewerPages;
use super::open_block::OpenBlock;
use crate::nand::Nand;

impl BlockMapped {
    /// Merges an open block and returns its state for reuse.
    pub(super) fn close(
        &mut self,
        nand: &mut Nand,
        index: usize,
        newer: &mut impl NewerPages,
    ) -> OpenBlock {
        let mut open = self.open.remove(index);
        let before_ns = nand.finished_ns();
        open.commit(nand);
        if open.in_order {
            self.complete(nand, &open, newer);
        } else {
            self.merge(nand, open.logical_block, Some(&open), newer);
        }
        self.counters.merge_ns += nand.finished_ns() - before_ns;
        open
    }

    /// Copies the rest of the old block after an in-order log, which then replaces it.
    fn complete(&mut self, nand: &mut Nand, open: &OpenBlock, newer: &mut impl NewerPages) {
        let rest = open.used()..self.pages_per_block;
        let copied = open.head + rest.end - rest.start;
        let merges = &mut self.counters.merges;
        if copied == 0 {
            merges.switch += 1;
        } else if open.head == 0 || copied <= self.pages_per_block / 2 {
            merges.partial += 1;
        } else {
            merges.full += 1;
        }
        self.copy_places(nand, open.logical_block, None, rest, open.block, newer);
        self.replace(nand, open.logical_block, open.block);
    }

    /// Copies the newest version of every page of a block to a free one.
    fn merge(
        &mut self,
        nand: &mut Nand,
        logical_block: u32,
        open: Option<&OpenBlock>,
        newer: &mut impl NewerPages,
    ) {
        self.counters.merges.full += 1;
        let fresh = self.free.take(nand);
        self.copy_places(nand, logical_block, open, 0..self.pages_per_block, fresh, newer);
        if let Some(open) = open {
            self.free.put(nand, open.block);
        }
        self.replace(nand, logical_block, fresh);
    }

    /// Merges a logical block completely: no newer pages remain elsewhere.
    pub fn merge_wholly(
        &mut self,
        nand: &mut Nand,
        logical_block: u32,
        newer: &mut impl NewerPages,
    ) {
        let before_ns = nand.finished_ns();
        let index = self.index_of(logical_block);
        let mut open = index.map(|index| self.open.remove(index));
        if let Some(open) = &mut open {
            open.commit(nand);
        }
        self.merge(nand, logical_block, open.as_ref(), newer);
        self.counters.merge_ns += nand.finished_ns() - before_ns;
    }

    /// Closes the block opened last and reopens it after copies of all pages before `place`.
    pub(super) fn begin_at(&mut self, nand: &mut Nand, place: u32, newer: &mut impl NewerPages) {
        let last = self.open.len() - 1;
        let mut open = if self.open[last].used() == 0 {
            let open = self.open.remove(last);
            self.free.put(nand, open.block);
            open
        } else {
            self.close(nand, last, newer)
        };
        let before_ns = nand.finished_ns();
        let (logical_block, block) = (open.logical_block, self.free.take(nand));
        self.copy_places(nand, logical_block, None, 0..place, block, newer);
        self.counters.merge_ns += nand.finished_ns() - before_ns;
        open.begin_behind(logical_block, block, place);
        self.open.push(open);
    }

    /// Copies the newest versions of these positions of a block to the same positions of another.
    fn copy_places(
        &mut self,
        nand: &mut Nand,
        logical_block: u32,
        open: Option<&OpenBlock>,
        places: Range<u32>,
        to: u32,
        newer: &mut impl NewerPages,
    ) {
        let first = logical_block * self.pages_per_block;
        let strays = &mut self.strays;
        strays.clear();
        let pages = first + places.start..first + places.end;
        newer
            .each_in(pages.clone(), |logical_page, page| strays.push((logical_page - first, page)));
        let newest = strays.len();
        if let Some(open) = open {
            open.each_page(nand, |place, page| strays.push((place, page)));
        }
        if newest > 0 {
            // Of two pages for the same position, the one found first is newer.
            strays.sort_by_key(|&(place, _)| place);
            strays.dedup_by_key(|&mut (place, _)| place);
            newer.forget(pages);
        }
        let old = self.data[logical_block as usize].checked_sub(1);
        let mut next = places.start;
        let copy_old = |nand: &mut Nand, places: Range<u32>| {
            if let Some(old) = old {
                let (from, to) = (nand.page_at(old, places.start), nand.page_at(to, places.start));
                nand.copy_run(from, to, places.end - places.start);
            }
        };
        for &(place, page) in &self.strays {
            copy_old(nand, next..place);
            nand.copy(page, nand.page_at(to, place));
            next = place + 1;
        }
        copy_old(nand, next..places.end);
    }

    fn replace(&mut self, nand: &mut Nand, logical_block: u32, new: u32) {
        let old = std::mem::replace(&mut self.data[logical_block as usize], new + 1);
        if let Some(old) = old.checked_sub(1) {
            self.free.put(nand, old);
        }
    }
}
