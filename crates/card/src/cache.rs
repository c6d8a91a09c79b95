//! The volatile write cache: what the host wrote and no flush has brought to the NAND yet.
//!
//! Data is kept by page and sector, so that sectors written one after the other reach the NAND as
//! one page. When it is over-full, the page that has waited longest is written back; a loss of
//! power drops everything. Limits: reads are not cached, nothing is written back in idle time, and
//! the order of writing back is always that of arrival.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::pieces::in_memory;

/// A page with the sectors of it that wait.
#[derive(Debug, Serialize, Deserialize)]
pub struct DirtyPage {
    arrival: u64,
    data: Box<[u8]>,
    dirty: Box<[bool]>,
    sector_bytes: usize,
}

impl DirtyPage {
    /// Whether every sector of the page waits.
    pub fn is_whole(&self) -> bool {
        self.dirty.iter().all(|&dirty| dirty)
    }

    /// The sectors that wait, each with its place in the page, in bytes.
    pub fn sectors(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let places = (0..).step_by(self.sector_bytes);
        let sectors = places.zip(self.data.chunks(self.sector_bytes));
        sectors.zip(&self.dirty).filter_map(|(sector, &dirty)| dirty.then_some(sector))
    }

    /// How much of it waits, in bytes.
    pub fn bytes(&self) -> u64 {
        (self.sectors().count() * self.sector_bytes) as u64
    }

    fn mark(&mut self, inside: &Range<usize>, dirty: bool) -> usize {
        let sectors = inside.start / self.sector_bytes..inside.end / self.sector_bytes;
        let changed = self.dirty[sectors].iter_mut().filter(|old| **old != dirty);
        changed.map(|old| *old = dirty).count() * self.sector_bytes
    }
}

/// A volatile write cache. Pages are logical; places in them are in bytes, in whole sectors.
#[derive(Debug, Serialize, Deserialize)]
pub struct WriteCache {
    capacity_bytes: u64,
    page_bytes: usize,
    sector_bytes: usize,
    dirty_bytes: u64,
    arrivals: u64,
    pages: BTreeMap<u32, DirtyPage>,
    by_arrival: BTreeMap<u64, u32>,
}

impl WriteCache {
    /// An empty cache.
    pub fn new(capacity_bytes: u64, page_bytes: u64, sector_bytes: u32) -> Self {
        Self {
            capacity_bytes,
            page_bytes: in_memory(page_bytes),
            sector_bytes: sector_bytes as usize,
            dirty_bytes: 0,
            arrivals: 0,
            pages: BTreeMap::new(),
            by_arrival: BTreeMap::new(),
        }
    }

    /// Takes up `data`, to lie at `inside` in the page.
    pub fn put(&mut self, page: u32, inside: Range<usize>, data: &[u8]) {
        let (arrivals, by_arrival) = (&mut self.arrivals, &mut self.by_arrival);
        let entry = self.pages.entry(page).or_insert_with(|| {
            *arrivals += 1;
            by_arrival.insert(*arrivals, page);
            DirtyPage {
                arrival: *arrivals,
                data: vec![0; self.page_bytes].into(),
                dirty: vec![false; self.page_bytes / self.sector_bytes].into(),
                sector_bytes: self.sector_bytes,
            }
        });
        self.dirty_bytes += entry.mark(&inside, true) as u64;
        entry.data[inside].copy_from_slice(data);
    }

    /// Whether everything at `inside` of the page waits.
    pub fn covers(&self, page: u32, inside: &Range<usize>) -> bool {
        self.pages.get(&page).is_some_and(|entry| {
            let sectors = inside.start / self.sector_bytes..inside.end / self.sector_bytes;
            entry.dirty[sectors].iter().all(|&dirty| dirty)
        })
    }

    /// Puts what waits at `inside` of the page over `buffer`.
    pub fn overlay(&self, page: u32, inside: &Range<usize>, buffer: &mut [u8]) {
        let Some(entry) = self.pages.get(&page) else { return };
        for place in inside.clone().step_by(self.sector_bytes) {
            if entry.dirty[place / self.sector_bytes] {
                let target = place - inside.start;
                buffer[target..target + self.sector_bytes]
                    .copy_from_slice(&entry.data[place..place + self.sector_bytes]);
            }
        }
    }

    /// Drops what waits at `inside` of the page, without writing it.
    pub fn forget(&mut self, page: u32, inside: &Range<usize>) {
        let Some(entry) = self.pages.get_mut(&page) else { return };
        self.dirty_bytes -= entry.mark(inside, false) as u64;
        if !entry.dirty.contains(&true) {
            let arrival = entry.arrival;
            self.pages.remove(&page);
            self.by_arrival.remove(&arrival);
        }
    }

    /// The numbers of the pages that wait, within a range.
    pub fn pages_in(&self, pages: Range<u32>) -> Vec<u32> {
        self.pages.range(pages).map(|(&page, _)| page).collect()
    }

    /// Whether something must be written back before more is taken up.
    pub fn is_over_full(&self) -> bool {
        self.dirty_bytes > self.capacity_bytes
    }

    /// Takes out the page that has waited longest.
    pub fn take_oldest(&mut self) -> Option<(u32, DirtyPage)> {
        let (_, page) = self.by_arrival.pop_first()?;
        let entry = self.pages.remove(&page).expect("both tables hold the same pages");
        self.dirty_bytes -= entry.bytes();
        Some((page, entry))
    }

    /// What a loss of power does.
    pub fn drop_everything(&mut self) {
        self.pages.clear();
        self.by_arrival.clear();
        self.dirty_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> WriteCache {
        WriteCache::new(2048, 2048, 512)
    }

    #[test]
    fn reads_see_what_waits_and_only_that() {
        let mut cache = cache();
        cache.put(3, 512..1024, &[7; 512]);
        let mut buffer = [1; 1024];
        assert!(!cache.covers(3, &(0..1024)));
        cache.overlay(3, &(0..1024), &mut buffer);
        assert_eq!((buffer[511], buffer[512]), (1, 7));
        assert!(cache.covers(3, &(512..1024)) && !cache.covers(4, &(0..512)));
    }

    #[test]
    fn the_page_that_waited_longest_goes_first() {
        let mut cache = cache();
        cache.put(9, 0..2048, &[1; 2048]);
        assert!(!cache.is_over_full());
        cache.put(2, 512..1024, &[2; 512]);
        cache.put(9, 0..512, &[3; 512]);
        assert!(cache.is_over_full());
        let (page, dirty) = cache.take_oldest().unwrap();
        assert_eq!((page, dirty.is_whole()), (9, true));
        let (page, dirty) = cache.take_oldest().unwrap();
        assert_eq!((page, dirty.is_whole()), (2, false));
        let sectors: Vec<usize> = dirty.sectors().map(|(place, _)| place).collect();
        assert_eq!(sectors, [512]);
        assert!(cache.take_oldest().is_none());
    }

    #[test]
    fn what_is_forgotten_is_not_written_back() {
        let mut cache = cache();
        cache.put(1, 0..1024, &[1; 1024]);
        cache.forget(1, &(0..512));
        assert_eq!(cache.pages_in(0..9), [1]);
        cache.forget(1, &(512..1024));
        assert!(cache.take_oldest().is_none());
        assert_eq!(cache.dirty_bytes, 0);
    }

    #[test]
    fn a_loss_of_power_leaves_nothing() {
        let mut cache = cache();
        cache.put(1, 0..512, &[1; 512]);
        cache.drop_everything();
        assert!(!cache.covers(1, &(0..512)));
        assert!(cache.take_oldest().is_none());
    }
}
