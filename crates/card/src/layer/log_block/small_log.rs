//! A page-mapped log: erase blocks to which single pages from anywhere are appended.
//!
//! Its blocks are collected in FIFO order. The owner of the log moves pages that are still current
//! elsewhere and removes them from the log.

use std::collections::VecDeque;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::newest::NewestPages;
use crate::layer::block_mapped::NewerPages;
use crate::layer::free_blocks::FreeBlocks;
use crate::model::LayerModel;
use crate::nand::Nand;

#[derive(Debug, Serialize, Deserialize)]
pub struct SmallLog {
    /// Oldest first; the last one is being written.
    blocks: VecDeque<u32>,
    most_units: usize,
    newest: NewestPages,
    /// The first position of the oldest block that was not examined yet.
    collected: u32,
    /// Time of a write in addition to programming.
    extra_ns: u64,
}

impl SmallLog {
    /// An empty log; `group_pages` pages are merged or rewritten together.
    pub fn new(model: &LayerModel, pages_per_group: u32) -> Self {
        Self {
            blocks: VecDeque::new(),
            most_units: model.log_units.expect("a checked log layer says") as usize,
            newest: NewestPages::new(pages_per_group),
            collected: 0,
            extra_ns: model.log_ns.unwrap_or(0),
        }
    }

    /// Whether the oldest block must be released before anything is appended.
    pub fn is_full(&self, nand: &Nand) -> bool {
        self.blocks.len() == self.most_units && !self.has_room(nand)
    }

    fn has_room(&self, nand: &Nand) -> bool {
        self.blocks.back().is_some_and(|&block| nand.next_place(block) < nand.pages_per_block())
    }

    /// Programs the loaded page.
    pub fn append(&mut self, nand: &mut Nand, free: &mut FreeBlocks, logical_page: u32) {
        if !self.has_room(nand) {
            self.blocks.push_back(free.take(nand));
        }
        let block = *self.blocks.back().expect("there is room");
        let page = nand.page_at(block, nand.next_place(block));
        nand.program(page, logical_page);
        self.newest.insert(logical_page, page);
        if self.extra_ns > 0 {
            nand.wait(self.extra_ns);
        }
    }

    /// The next logical page whose newest version is in the oldest block. It must be moved or
    /// removed before the block is released.
    pub fn next_to_collect(&mut self, nand: &Nand) -> Option<u32> {
        let block = *self.blocks.front()?;
        while self.collected < nand.pages_per_block() {
            let page = nand.page_at(block, self.collected);
            self.collected += 1;
            let stored = nand.logical_page(page);
            if let Some(stored) = stored.filter(|&stored| self.page_of(stored) == Some(page)) {
                return Some(stored);
            }
        }
        None
    }

    /// Releases the oldest block, which contains no current page.
    pub fn release_oldest(&mut self, nand: &mut Nand, free: &mut FreeBlocks) {
        if let Some(block) = self.blocks.pop_front() {
            free.put(nand, block);
        }
        self.collected = 0;
    }
}

impl NewerPages for SmallLog {
    fn page_of(&self, logical_page: u32) -> Option<u32> {
        self.newest.page_of(logical_page)
    }

    fn each_in(&self, logical_pages: Range<u32>, take: impl FnMut(u32, u32)) {
        self.newest.each_in(logical_pages, take);
    }

    fn forget(&mut self, logical_pages: Range<u32>) {
        self.newest.forget(logical_pages);
    }
}
