//! The pSLC area: blocks with one bit per cell, to which host writes go first.
//!
//! They are filled in turn. When all are full, the oldest one is folded within the request: its
//! valid pages are copied to multi-bit blocks, and further host pages go there directly. In idle
//! time all full blocks are folded, one write unit at a time, and erased. Pages overwritten or
//! discarded in the meantime are never copied. Limits: the area has a fixed size, and writes never
//! bypass it. Source: reviews of cards and drives with such an area (SanDisk's nCache: sequential
//! folding from one-bit to multi-bit cells, where short-lived data is never folded).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::super::free_blocks::FreeBlocks;
use super::PageMapped;
use super::collection::GcInProgress;
use crate::nand::{NONE, Nand};

/// The blocks with one bit per cell.
#[derive(Debug, Serialize, Deserialize)]
pub struct PslcArea {
    free: FreeBlocks,
    /// The open block, or [`NONE`].
    open: u32,
    /// Full blocks, oldest first.
    full: VecDeque<u32>,
    folding: Option<GcInProgress>,
}

impl PslcArea {
    pub fn new(blocks: impl Iterator<Item = u32>) -> Self {
        Self { free: FreeBlocks::of(blocks), open: NONE, full: VecDeque::new(), folding: None }
    }

    /// The next page of the open block, if it has one; closes a full block.
    fn open_place(&mut self, nand: &Nand) -> Option<u32> {
        if self.open == NONE {
            return None;
        }
        let place = nand.next_place(self.open);
        if place < nand.pages_in(self.open) {
            return Some(nand.page_at(self.open, place));
        }
        self.full.push_back(self.open);
        self.open = NONE;
        None
    }

    fn open_another(&mut self, nand: &mut Nand) {
        self.open = self.free.take(nand);
        if !nand.is_pslc(self.open) {
            nand.use_as_pslc(self.open, true);
        }
    }

    /// The block that is being folded, or the next one to fold.
    fn take_oldest(&mut self) -> Option<GcInProgress> {
        self.folding.take().or_else(|| self.full.pop_front().map(GcInProgress::new))
    }
}

impl PageMapped {
    /// The next page for the host.
    pub(super) fn place_for_host(&mut self, nand: &mut Nand) -> u32 {
        loop {
            let Some(area) = &mut self.pslc else { return self.next_page(nand) };
            if let Some(page) = area.open_place(nand) {
                return page;
            }
            if area.free.len() > 0 {
                area.open_another(nand);
            } else {
                self.fold_in_a_request(nand);
            }
        }
    }

    fn fold_in_a_request(&mut self, nand: &mut Nand) {
        let before_ns = nand.finished_ns();
        let oldest = self.pslc.as_mut().and_then(|area| area.take_oldest());
        let oldest = oldest.expect("without a free block one is full");
        let block = oldest.block;
        let rest = self.fold(nand, oldest, u32::MAX);
        assert!(rest.is_none(), "all of block {block} is folded");
        if let Some(area) = &mut self.pslc {
            area.free.put(nand, block);
        }
        self.counters.merge_ns += nand.finished_ns() - before_ns;
    }

    /// Copies up to `pages` pages of a block; returns its remaining state.
    fn fold(
        &mut self,
        nand: &mut Nand,
        mut folding: GcInProgress,
        pages: u32,
    ) -> Option<GcInProgress> {
        for _ in 0..pages {
            if self.blocks.valid(folding.block) == 0 {
                self.counters.folds += 1;
                return None;
            }
            let to = self.next_page(nand);
            self.move_next(nand, &mut folding, to);
        }
        Some(folding)
    }

    /// Folds one write unit of pages; `false` if there is nothing to fold.
    pub(super) fn fold_step(&mut self, nand: &mut Nand) -> bool {
        let Some(area) = &mut self.pslc else { return false };
        area.open_place(nand);
        let Some(folding) = area.take_oldest() else { return false };
        let block = folding.block;
        let rest = self.fold(nand, folding, nand.pages_per_write_unit());
        if let Some(area) = &mut self.pslc {
            area.folding = rest;
            if area.folding.is_none() {
                nand.erase(block);
                area.free.put(nand, block);
            }
        }
        true
    }
}
