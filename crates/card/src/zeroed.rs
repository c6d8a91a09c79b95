//! Sectors that were discarded although their page is still mapped: they read as zeros.
//!
//! A translation layer forgets whole units only. The loop driver sends a discard and a request to
//! write zeros as one and the same call, so a discarded range must read as zeros to its last
//! sector. Limits: the marks are kept like the map, without a cost of their own.

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The marked sectors, by logical page.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Zeroed {
    pages: HashMap<u32, Vec<bool>>,
}

impl Zeroed {
    /// Whether there is none, the usual case.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Marks sectors of a page that has `sectors` of them.
    pub fn mark(&mut self, page: u32, inside: Range<usize>, sectors: usize) {
        self.pages.entry(page).or_insert_with(|| vec![false; sectors])[inside].fill(true);
    }

    /// The page is written anew, or is mapped no more.
    pub fn clear(&mut self, page: u32) {
        if !self.pages.is_empty() {
            self.pages.remove(&page);
        }
    }

    /// Fills the marked sectors of a part of a page, which begins at sector `first`.
    pub fn apply(&self, page: u32, first: usize, sector_bytes: usize, part: &mut [u8]) {
        let Some(marks) = self.pages.get(&page) else { return };
        for (sector, marked) in part.chunks_mut(sector_bytes).zip(&marks[first..]) {
            if *marked {
                sector.fill(0);
            }
        }
    }
}
