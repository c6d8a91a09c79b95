//! A dirty page, or a part of one, in the cache.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The dirty sectors of a page and their data.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DirtyPage {
    /// Logical page number.
    pub page: u32,
    /// Number of flushes before it.
    pub epoch: u64,
    /// First sector of the span described by `dirty`.
    first: usize,
    /// Whether each sector of the span is dirty.
    dirty: Vec<bool>,
    /// Bytes of the span; empty if contents are not kept.
    data: Vec<u8>,
    sector_bytes: usize,
    sectors_per_page: usize,
}

impl DirtyPage {
    /// A page without dirty sectors.
    pub fn new(page: u32, epoch: u64, sector_bytes: usize, sectors_per_page: usize) -> Self {
        let (first, dirty, data) = (0, Vec::new(), Vec::new());
        Self { page, epoch, first, dirty, data, sector_bytes, sectors_per_page }
    }

    /// Adds data at byte range `inside`, or only marks it as dirty; returns the number of newly
    /// dirty bytes.
    pub fn put(&mut self, inside: &Range<usize>, data: Option<&[u8]>) -> u64 {
        let sectors = self.sectors(inside);
        self.cover(&sectors, data.is_some());
        if let Some(data) = data {
            let place = inside.start - self.first * self.sector_bytes;
            self.data[place..place + data.len()].copy_from_slice(data);
        }
        self.mark(&sectors, true)
    }

    /// Drops dirty data at byte range `inside`; returns how many bytes were dropped.
    pub fn drop_range(&mut self, inside: &Range<usize>) -> u64 {
        let sectors = self.sectors(inside);
        let end = self.first + self.dirty.len();
        let within = sectors.start.max(self.first)..sectors.end.min(end);
        if within.is_empty() { 0 } else { self.mark(&within, false) }
    }

    fn sectors(&self, inside: &Range<usize>) -> Range<usize> {
        inside.start / self.sector_bytes..inside.end / self.sector_bytes
    }

    fn cover(&mut self, sectors: &Range<usize>, with_data: bool) {
        if self.dirty.is_empty() {
            self.first = sectors.start;
        }
        let before = self.first.saturating_sub(sectors.start);
        let end = sectors.end.max(self.first + self.dirty.len());
        self.first -= before;
        self.dirty.splice(0..0, std::iter::repeat_n(false, before));
        self.dirty.resize(end - self.first, false);
        if with_data {
            self.data.splice(0..0, std::iter::repeat_n(0, before * self.sector_bytes));
            self.data.resize(self.dirty.len() * self.sector_bytes, 0);
        }
    }

    fn mark(&mut self, sectors: &Range<usize>, dirty: bool) -> u64 {
        let span = &mut self.dirty[sectors.start - self.first..sectors.end - self.first];
        let changed = span.iter_mut().filter(|old| **old != dirty);
        (changed.map(|old| *old = dirty).count() * self.sector_bytes) as u64
    }

    pub fn is_dirty(&self, sector: usize) -> bool {
        let place = sector.checked_sub(self.first);
        place.and_then(|place| self.dirty.get(place)).is_some_and(|&dirty| dirty)
    }

    pub fn has_first(&self) -> bool {
        self.is_dirty(0)
    }

    pub fn has_last(&self) -> bool {
        self.is_dirty(self.sectors_per_page - 1)
    }

    pub fn is_empty(&self) -> bool {
        !self.dirty.contains(&true)
    }

    pub fn is_whole(&self) -> bool {
        self.dirty.len() == self.sectors_per_page && !self.dirty.contains(&false)
    }

    /// Number of dirty bytes.
    pub fn bytes(&self) -> u64 {
        (self.dirty.iter().filter(|&&dirty| dirty).count() * self.sector_bytes) as u64
    }

    /// Runs of dirty data with their byte offsets in the page; empty if contents are not kept.
    pub fn parts(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let places = (self.first * self.sector_bytes..).step_by(self.sector_bytes);
        let sectors = places.zip(self.data.chunks(self.sector_bytes));
        sectors.zip(&self.dirty).filter_map(|(sector, &dirty)| dirty.then_some(sector))
    }

    /// The bytes of the page if all of it is dirty and contents are kept.
    pub fn whole_data(&self) -> Option<&[u8]> {
        (self.is_whole() && !self.data.is_empty()).then_some(&self.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_grows_to_both_sides_and_tracks_gaps() {
        let mut page = DirtyPage::new(7, 0, 512, 8);
        assert_eq!(page.put(&(1024..1536), Some(&[1; 512])), 512);
        assert_eq!(page.put(&(0..512), Some(&[2; 512])), 512);
        assert_eq!(page.put(&(1024..2048), Some(&[3; 1024])), 512);
        let parts: Vec<_> = page.parts().map(|(place, part)| (place, part[0])).collect();
        assert_eq!(parts, [(0, 2), (1024, 3), (1536, 3)]);
        assert!(page.has_first() && !page.has_last() && !page.is_whole());
        assert_eq!(page.drop_range(&(512..4096)), 1024);
        assert_eq!((page.drop_range(&(2048..4096)), page.bytes()), (0, 512));
        assert_eq!(page.put(&(0..4096), Some(&[9; 4096])), 3584);
        assert_eq!(page.whole_data(), Some(&[9; 4096][..]));
    }
}
