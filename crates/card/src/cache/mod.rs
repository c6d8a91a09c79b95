//! The volatile write cache: data written by the host that has not reached the NAND yet.
//!
//! Data is kept by page and sector, so that consecutive sectors reach the NAND as one page and
//! adjacent pages as one run. When the cache is full, the oldest data is written back. A power cut
//! keeps a part of the cache that depends on its order ([`CacheOrder`]). *Unordered*: a page is in
//! the cache once, and any subset may have reached the NAND. *Ordered*: a page that is written
//! again after another page is in the cache twice, and the oldest part of the queue has reached the
//! NAND.
//! *Barrier*: a page is in the cache once per interval between flushes; intervals reach the NAND
//! in order. Limits: reads are not cached; runs end at erase block boundaries.
//! Sources: JEDEC JESD84-B51, sections 6.6.31 (cache, its barrier) and 7.4 (BARRIER_SUPPORT,
//! CACHE_FLUSH_POLICY).

mod dirty_page;
mod loss;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use dirty_page::DirtyPage;
pub use loss::CacheLoss;

use crate::model::{CacheModel, CacheOrder, CardModel};
use crate::nand::contents::PageContent;
use crate::request_parts::in_memory;

/// A volatile write cache. Pages are logical; ranges are in bytes and cover whole sectors.
#[derive(Debug, Serialize, Deserialize)]
pub struct WriteCache {
    order: CacheOrder,
    capacity_bytes: u64,
    page_bytes: usize,
    sector_bytes: usize,
    pages_per_block: u32,
    keeps_data: bool,
    dirty_bytes: u64,
    arrivals: u64,
    /// Number of flushes so far.
    epoch: u64,
    /// Entries by arrival number.
    entries: BTreeMap<u64, DirtyPage>,
    /// Page and arrival number of each entry.
    by_page: BTreeSet<(u32, u64)>,
}

impl WriteCache {
    /// Keeps the data of further writes.
    ///
    /// # Panics
    /// With dirty data, which was not kept.
    pub fn keep_data(&mut self) {
        assert!(self.entries.is_empty(), "the data of the cache was not kept");
        self.keeps_data = true;
    }

    /// An empty cache; without `keeps_data` it only tracks which sectors are dirty.
    pub fn new(model: &CardModel, cache: &CacheModel, keeps_data: bool) -> Self {
        Self {
            order: cache.order,
            capacity_bytes: cache.bytes.0,
            page_bytes: in_memory(model.map_unit_bytes()),
            sector_bytes: model.sector_bytes as usize,
            pages_per_block: model.pages_per_block(),
            keeps_data,
            dirty_bytes: 0,
            arrivals: 0,
            epoch: 0,
            entries: BTreeMap::new(),
            by_page: BTreeSet::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn order(&self) -> CacheOrder {
        self.order
    }

    /// Adds `data` at byte range `inside` of a page.
    pub fn put(&mut self, page: u32, inside: &Range<usize>, data: &[u8]) {
        let arrival = self.entry_to_join(page).unwrap_or_else(|| self.new_entry(page));
        let entry = self.entries.get_mut(&arrival).expect("it was just found or made");
        self.dirty_bytes += entry.put(inside, self.keeps_data.then_some(data));
    }

    /// The entry that more data of a page may join without violating the order.
    fn entry_to_join(&self, page: u32) -> Option<u64> {
        let (_, arrival) = *self.by_page.range((page, 0)..=(page, u64::MAX)).next_back()?;
        let joins = match self.order {
            CacheOrder::Unordered => true,
            CacheOrder::Ordered => arrival == self.arrivals,
            CacheOrder::Barrier => self.entries[&arrival].epoch == self.epoch,
        };
        joins.then_some(arrival)
    }

    fn new_entry(&mut self, page: u32) -> u64 {
        self.arrivals += 1;
        let sectors = self.page_bytes / self.sector_bytes;
        let entry = DirtyPage::new(page, self.epoch, self.sector_bytes, sectors);
        self.entries.insert(self.arrivals, entry);
        self.by_page.insert((page, self.arrivals));
        self.arrivals
    }

    /// The entries of a page, oldest first.
    fn of_page(&self, page: u32) -> impl Iterator<Item = &DirtyPage> {
        let entries = self.by_page.range((page, 0)..=(page, u64::MAX));
        entries.map(|(_, arrival)| &self.entries[arrival])
    }

    /// Whether all sectors at `inside` of the page are dirty.
    pub fn covers(&self, page: u32, inside: &Range<usize>) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        let mut sectors = inside.start / self.sector_bytes..inside.end / self.sector_bytes;
        sectors.all(|sector| self.of_page(page).any(|entry| entry.is_dirty(sector)))
    }

    /// Copies dirty data at `inside` of the page over `buffer`.
    pub fn overlay(&self, page: u32, inside: &Range<usize>, buffer: &mut [u8]) {
        if self.entries.is_empty() {
            return;
        }
        for (place, part) in self.of_page(page).flat_map(DirtyPage::parts) {
            if inside.contains(&place) {
                let target = place - inside.start;
                buffer[target..target + part.len()].copy_from_slice(part);
            }
        }
    }

    /// A page's NAND content with its dirty data applied.
    pub fn over(&self, page: u32, content: PageContent) -> PageContent {
        if self.of_page(page).next().is_none() {
            return content;
        }
        content.with_all(self.page_bytes as u64, self.of_page(page).flat_map(DirtyPage::parts))
    }

    /// Drops dirty data at `inside` of the page without writing it.
    pub fn drop_range(&mut self, page: u32, inside: &Range<usize>) {
        let arrivals: Vec<u64> =
            self.by_page.range((page, 0)..=(page, u64::MAX)).map(|&(_, at)| at).collect();
        for arrival in arrivals {
            let entry = self.entries.get_mut(&arrival).expect("both tables hold the same entries");
            self.dirty_bytes -= entry.drop_range(inside);
            if entry.is_empty() {
                self.remove(arrival);
            }
        }
    }

    fn remove(&mut self, arrival: u64) -> DirtyPage {
        let entry = self.entries.remove(&arrival).expect("both tables hold the same entries");
        self.by_page.remove(&(entry.page, arrival));
        self.dirty_bytes -= entry.bytes();
        entry
    }

    /// The dirty pages within a range.
    pub fn pages_in(&self, pages: Range<u32>) -> Vec<u32> {
        let found = self.by_page.range((pages.start, 0)..(pages.end, 0));
        let mut pages: Vec<u32> = found.map(|&(page, _)| page).collect();
        pages.dedup();
        pages
    }

    /// Whether the byte before this offset of the page is dirty.
    pub fn continues_at(&self, page: u32, place: usize) -> bool {
        place >= self.sector_bytes && self.covers(page, &(place - self.sector_bytes..place))
    }

    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// Whether data must be written back before more is added.
    pub fn exceeds_capacity(&self) -> bool {
        self.dirty_bytes > self.capacity_bytes
    }

    /// Marks a barrier: later data reaches the NAND later.
    pub fn begin_epoch(&mut self) {
        self.epoch += 1;
    }

    /// Removes the oldest entry together with adjacent ones that may be written with it.
    pub fn take_run(&mut self) -> Vec<DirtyPage> {
        let Some((&oldest, _)) = self.entries.first_key_value() else { return Vec::new() };
        let (mut first, mut last) = (oldest, oldest);
        let mut arrivals = std::collections::VecDeque::from([oldest]);
        if self.order != CacheOrder::Ordered {
            while let Some(before) = self.adjacent(first, false) {
                first = before;
                arrivals.push_front(before);
            }
        }
        while let Some(after) = self.adjacent(last, true) {
            last = after;
            arrivals.push_back(after);
        }
        arrivals.into_iter().map(|arrival| self.remove(arrival)).collect()
    }

    /// The entry adjacent to another one, after or before it, that may be written together with it.
    fn adjacent(&self, arrival: u64, behind: bool) -> Option<u64> {
        let entry = &self.entries[&arrival];
        let page = if behind { entry.page.checked_add(1) } else { entry.page.checked_sub(1) }?;
        if page / self.pages_per_block != entry.page / self.pages_per_block {
            return None;
        }
        let mut arrivals = self.by_page.range((page, 0)..=(page, u64::MAX)).map(|&(_, at)| at);
        let other = match self.order {
            CacheOrder::Unordered => arrivals.next(),
            CacheOrder::Barrier => arrivals.find(|at| self.entries[at].epoch == entry.epoch),
            // Dropped entries leave gaps in the arrival numbers.
            CacheOrder::Ordered => {
                let next = self.entries.range(arrival + 1..).next().map(|(&at, _)| at);
                arrivals.find(|&at| Some(at) == next)
            }
        }?;
        let adjacent = &self.entries[&other];
        let (left, right) = if behind { (entry, adjacent) } else { (adjacent, entry) };
        (left.has_last() && right.has_first()).then_some(other)
    }
}
