//! Tracks sectors that were discarded while their page is still mapped: they read as zeros.
//!
//! A translation layer only unmaps whole blocks. The loop driver uses the same call for discards
//! and for writing zeros, so a discarded range must read as zeros to its last sector. Limit: the
//! marks cost the simulated card neither time nor space.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::nand::contents::PageContent;

/// As long as the largest sector.
const ZEROS: &[u8] = &[0; 4096];

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ZeroedSectors {
    pages: BTreeMap<u32, Vec<bool>>,
}

impl ZeroedSectors {
    /// Marks sectors of a page that has `sectors` sectors.
    pub fn mark(&mut self, page: u32, inside: Range<usize>, sectors: usize) {
        self.pages.entry(page).or_insert_with(|| vec![false; sectors])[inside].fill(true);
    }

    /// Called when the page is rewritten or unmapped.
    pub fn clear(&mut self, page: u32) {
        if !self.pages.is_empty() {
            self.pages.remove(&page);
        }
    }

    pub fn pages(&self) -> Vec<u32> {
        self.pages.keys().copied().collect()
    }

    /// A page's content with zeros in the marked sectors.
    pub fn over(
        &self,
        page: u32,
        content: PageContent,
        page_bytes: u64,
        sector: usize,
    ) -> PageContent {
        if self.pages.is_empty() || content == PageContent::Zeros {
            return content;
        }
        let Some(marks) = self.pages.get(&page) else { return content };
        let marked = marks.iter().enumerate().filter(|(_, marked)| **marked);
        content.with_all(page_bytes, marked.map(|(at, _)| (at * sector, &ZEROS[..sector])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_sectors_read_as_zeros_even_if_they_were_unreadable() {
        let mut zeroed = ZeroedSectors::default();
        zeroed.mark(3, 0..1, 2);
        let page = |content| zeroed.over(3, content, 1024, 512);
        let half = page(PageContent::from_bytes(&[7; 1024]));
        assert_eq!(half, PageContent::Zeros.with(1024, 512..1024, &[7; 512]));
        assert_eq!(page(PageContent::lost(1024)).lost_sectors(), 1);
        let other = PageContent::from_bytes(&[7; 1024]);
        assert_eq!(zeroed.over(4, other.clone(), 1024, 512), other);
    }
}
