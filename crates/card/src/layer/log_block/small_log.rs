//! A page-mapped log: erase blocks to which single pages of any place are appended.
//!
//! Its units are collected in the order in which they were filled. Who owns the log brings the
//! pages that are still the newest elsewhere, and forgets them here.

use std::collections::VecDeque;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::newest::NewestPages;
use crate::layer::block_mapped::NewerPages;
use crate::layer::free_blocks::FreeBlocks;
use crate::model::LayerModel;
use crate::nand::Nand;

/// A page-mapped log.
#[derive(Debug, Serialize, Deserialize)]
pub struct SmallLog {
    /// Oldest first; the last one is being written.
    units: VecDeque<u32>,
    most_units: usize,
    newest: NewestPages,
    /// The first place of the oldest unit that was not asked for yet.
    collected: u32,
    /// What a write takes beyond its programming.
    extra_ns: u64,
}

impl SmallLog {
    /// An empty log. So many pages are merged or rewritten together.
    pub fn new(model: &LayerModel, pages_per_group: u32) -> Self {
        Self {
            units: VecDeque::new(),
            most_units: model.log_units.expect("a checked log layer says") as usize,
            newest: NewestPages::new(pages_per_group),
            collected: 0,
            extra_ns: model.log_ns.unwrap_or(0),
        }
    }

    /// Whether the oldest unit must be given back before anything more is appended.
    pub fn is_full(&self, nand: &Nand) -> bool {
        self.units.len() == self.most_units && !self.has_room(nand)
    }

    fn has_room(&self, nand: &Nand) -> bool {
        self.units.back().is_some_and(|&unit| nand.next_place(unit) < nand.pages_per_unit())
    }

    /// Programs the page that was loaded.
    pub fn append(&mut self, nand: &mut Nand, free: &mut FreeBlocks, logical_page: u32) {
        if !self.has_room(nand) {
            self.units.push_back(free.take(nand));
        }
        let unit = *self.units.back().expect("there is room");
        let page = nand.page_at(unit, nand.next_place(unit));
        nand.program(page, logical_page);
        self.newest.insert(logical_page, page);
        if self.extra_ns > 0 {
            nand.wait(self.extra_ns);
        }
    }

    /// The next logical page whose newest is in the oldest unit. It must be elsewhere, or
    /// forgotten, before the unit is given back.
    pub fn next_to_collect(&mut self, nand: &Nand) -> Option<u32> {
        let unit = *self.units.front()?;
        while self.collected < nand.pages_per_unit() {
            let page = nand.page_at(unit, self.collected);
            self.collected += 1;
            let held = nand.logical_page(page);
            if let Some(held) = held.filter(|&held| self.page_of(held) == Some(page)) {
                return Some(held);
            }
        }
        None
    }

    /// Gives back the oldest unit, in which nothing is the newest any more.
    pub fn give_back_oldest(&mut self, nand: &Nand, free: &mut FreeBlocks) {
        if let Some(unit) = self.units.pop_front() {
            free.put(nand, unit);
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
