//! The volatile write cache: what the host wrote and no flush has brought to the NAND yet.
//!
//! Data is kept by page and sector, so that sectors written one after the other reach the NAND as
//! one page, and adjoining pages as one run. When it is over-full, what has waited longest is
//! written back. A loss of power keeps some of it, in the cache's order ([`CacheOrder`]):
//! *unordered*, a page is in the cache once, and any subset may have reached the NAND; *ordered*, a
//! page that is written again after another waits twice, and the oldest part of the queue has
//! reached it; *barrier*, a page waits once for each span between two flushes, and spans reach the
//! NAND one after the other. Limits: reads are not cached; runs end at erase blocks.
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

/// A volatile write cache. Pages are logical; places in them are in bytes, in whole sectors.
#[derive(Debug, Serialize, Deserialize)]
pub struct WriteCache {
    order: CacheOrder,
    capacity_bytes: u64,
    page_bytes: usize,
    sector_bytes: usize,
    pages_per_unit: u32,
    keeps_data: bool,
    dirty_bytes: u64,
    arrivals: u64,
    /// Flushes so far.
    epoch: u64,
    /// What waits, by arrival.
    entries: BTreeMap<u64, DirtyPage>,
    /// Page and arrival of each entry.
    by_page: BTreeSet<(u32, u64)>,
}

impl WriteCache {
    /// An empty cache; without `keeps_data` it only knows what waits, not what it is.
    pub fn new(model: &CardModel, cache: &CacheModel, keeps_data: bool) -> Self {
        Self {
            order: cache.order,
            capacity_bytes: cache.bytes.0,
            page_bytes: in_memory(model.map_unit_bytes()),
            sector_bytes: model.sector_bytes as usize,
            pages_per_unit: model.pages_per_unit(),
            keeps_data,
            dirty_bytes: 0,
            arrivals: 0,
            epoch: 0,
            entries: BTreeMap::new(),
            by_page: BTreeSet::new(),
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Its order.
    pub fn order(&self) -> CacheOrder {
        self.order
    }

    /// Takes up `data`, to lie at `inside` in the page.
    pub fn put(&mut self, page: u32, inside: &Range<usize>, data: &[u8]) {
        let arrival = self.entry_to_join(page).unwrap_or_else(|| self.new_entry(page));
        let entry = self.entries.get_mut(&arrival).expect("it was just found or made");
        self.dirty_bytes += entry.put(inside, self.keeps_data.then_some(data));
    }

    /// The entry that more of a page can be added to without harm to the order.
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

    /// What waits of a page, oldest first.
    fn of_page(&self, page: u32) -> impl Iterator<Item = &DirtyPage> {
        let entries = self.by_page.range((page, 0)..=(page, u64::MAX));
        entries.map(|(_, arrival)| &self.entries[arrival])
    }

    /// Whether everything at `inside` of the page waits.
    pub fn covers(&self, page: u32, inside: &Range<usize>) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        let mut sectors = inside.start / self.sector_bytes..inside.end / self.sector_bytes;
        sectors.all(|sector| self.of_page(page).any(|entry| entry.holds(sector)))
    }

    /// Puts what waits at `inside` of the page over `buffer`.
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

    /// A page with what waits of it put over its content in the NAND.
    pub fn over(&self, page: u32, content: PageContent) -> PageContent {
        if self.of_page(page).next().is_none() {
            return content;
        }
        content.with_all(self.page_bytes as u64, self.of_page(page).flat_map(DirtyPage::parts))
    }

    /// Drops what waits at `inside` of the page, without writing it.
    pub fn forget(&mut self, page: u32, inside: &Range<usize>) {
        let arrivals: Vec<u64> =
            self.by_page.range((page, 0)..=(page, u64::MAX)).map(|&(_, at)| at).collect();
        for arrival in arrivals {
            let entry = self.entries.get_mut(&arrival).expect("both tables hold the same entries");
            self.dirty_bytes -= entry.forget(inside);
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

    /// The numbers of the pages that wait, within a range.
    pub fn pages_in(&self, pages: Range<u32>) -> Vec<u32> {
        let found = self.by_page.range((pages.start, 0)..(pages.end, 0));
        let mut pages: Vec<u32> = found.map(|&(page, _)| page).collect();
        pages.dedup();
        pages
    }

    /// Whether the byte before this place of the page waits.
    pub fn goes_on(&self, page: u32, place: usize) -> bool {
        place >= self.sector_bytes && self.covers(page, &(place - self.sector_bytes..place))
    }

    /// How much waits.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// Whether something must be written back before more is taken up.
    pub fn is_over_full(&self) -> bool {
        self.dirty_bytes > self.capacity_bytes
    }

    /// A flush as a barrier: what comes later reaches the NAND later.
    pub fn begin_epoch(&mut self) {
        self.epoch += 1;
    }

    /// Takes out what has waited longest, with what adjoins it and may go along.
    pub fn take_run(&mut self) -> Vec<DirtyPage> {
        let Some((&oldest, _)) = self.entries.first_key_value() else { return Vec::new() };
        let (mut first, mut last) = (oldest, oldest);
        let mut arrivals = std::collections::VecDeque::from([oldest]);
        if self.order != CacheOrder::Ordered {
            while let Some(before) = self.neighbour(first, false) {
                first = before;
                arrivals.push_front(before);
            }
        }
        while let Some(after) = self.neighbour(last, true) {
            last = after;
            arrivals.push_back(after);
        }
        arrivals.into_iter().map(|arrival| self.remove(arrival)).collect()
    }

    /// The entry whose data adjoins that of another, behind or before it, and may be written
    /// along with it.
    fn neighbour(&self, arrival: u64, behind: bool) -> Option<u64> {
        let entry = &self.entries[&arrival];
        let page = if behind { entry.page.checked_add(1) } else { entry.page.checked_sub(1) }?;
        if page / self.pages_per_unit != entry.page / self.pages_per_unit {
            return None;
        }
        let mut arrivals = self.by_page.range((page, 0)..=(page, u64::MAX)).map(|&(_, at)| at);
        let other = match self.order {
            CacheOrder::Unordered => arrivals.next(),
            CacheOrder::Barrier => arrivals.find(|at| self.entries[at].epoch == entry.epoch),
            // Arrivals that were forgotten leave gaps.
            CacheOrder::Ordered => {
                let next = self.entries.range(arrival + 1..).next().map(|(&at, _)| at);
                arrivals.find(|&at| Some(at) == next)
            }
        }?;
        let neighbour = &self.entries[&other];
        let (left, right) = if behind { (entry, neighbour) } else { (neighbour, entry) };
        (left.holds_last() && right.holds_first()).then_some(other)
    }
}
