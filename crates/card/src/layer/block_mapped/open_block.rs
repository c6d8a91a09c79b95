//! An open logical block and its log: an erase block to which its pages are appended.
//!
//! While every page is at its own position, the log is in order and needs no table.

use serde::{Deserialize, Serialize};

use crate::nand::{NONE, Nand};

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct OpenBlock {
    pub logical_block: u32,
    pub block: u32,
    used: u32,
    /// Whether every page so far is at its own position.
    pub in_order: bool,
    /// Number of pages copied before the first written one.
    pub head: u32,
    /// Where the partial page for position `used` is, or [`NONE`].
    partial_page: u32,
    /// A bit for each position that an out-of-order log contains.
    written: Vec<u64>,
    /// Position in the log for each position in the logical block with such a bit.
    places: Vec<u32>,
}

impl OpenBlock {
    /// Begins a log in an erased block.
    pub fn begin(&mut self, logical_block: u32, block: u32) {
        self.begin_behind(logical_block, block, 0);
    }

    /// Begins a log in a block to which the first `head` pages were copied.
    pub fn begin_behind(&mut self, logical_block: u32, block: u32, head: u32) {
        (self.logical_block, self.block, self.used) = (logical_block, block, head);
        (self.in_order, self.head, self.partial_page) = (true, head, NONE);
    }

    /// Number of used positions in the log.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Whether a position is the next in order, or that of the partial page.
    pub fn is_next(&self, place: u32) -> bool {
        place == self.used || (self.has_partial_page() && place == self.used + 1)
    }

    pub fn has_partial_page(&self) -> bool {
        self.partial_page != NONE
    }

    /// The physical page of the partial next page, if there is one.
    pub fn partial_page(&self) -> Option<u32> {
        self.has_partial_page().then_some(self.partial_page)
    }

    /// Records the physical page of the partial next page.
    pub fn set_partial_page(&mut self, page: u32) {
        self.partial_page = page;
    }

    /// Copies the partial page to its position.
    pub fn commit(&mut self, nand: &mut Nand) {
        if self.has_partial_page() {
            let page = std::mem::replace(&mut self.partial_page, NONE);
            nand.copy(page, nand.page_at(self.block, self.used));
            self.used += 1;
        }
    }

    /// Returns the next page of the log and assigns it to `place`.
    pub fn append(&mut self, nand: &Nand, place: u32) -> u32 {
        self.partial_page = NONE;
        if self.in_order && place != self.used {
            self.leave_order(nand.pages_per_block());
        }
        if !self.in_order {
            self.written[place as usize / 64] |= 1 << (place % 64);
            self.places[place as usize] = self.used;
        }
        self.used += 1;
        nand.page_at(self.block, self.used - 1)
    }

    fn leave_order(&mut self, pages_per_block: u32) {
        self.in_order = false;
        self.places.resize(pages_per_block as usize, 0);
        self.written.clear();
        self.written.resize(pages_per_block.div_ceil(64) as usize, 0);
        for place in 0..self.used {
            self.written[place as usize / 64] |= 1 << (place % 64);
            self.places[place as usize] = place;
        }
    }

    /// The physical page of a position; `None` if it is not here or was never written.
    pub fn page_of(&self, nand: &Nand, place: u32) -> Option<u32> {
        if self.has_partial_page() && place == self.used {
            return Some(self.partial_page);
        }
        let in_log = if self.in_order {
            (place < self.used).then_some(place)
        } else {
            let written = self.written[place as usize / 64] >> (place % 64) & 1 == 1;
            written.then(|| self.places[place as usize])
        };
        // A log that began with copies may contain positions that were never written.
        in_log
            .map(|place| nand.page_at(self.block, place))
            .filter(|&page| nand.logical_page(page).is_some())
    }

    /// Calls `take` with each position that is here, in ascending order, and its physical page.
    pub fn each_page(&self, nand: &Nand, mut take: impl FnMut(u32, u32)) {
        if self.in_order {
            for place in 0..self.used {
                if let Some(page) = self.page_of(nand, place) {
                    take(place, page);
                }
            }
            return;
        }
        for (word, &bits) in (0_u32..).zip(&self.written) {
            let mut bits = bits;
            while bits != 0 {
                let place = word * 64 + bits.trailing_zeros();
                if let Some(page) = self.page_of(nand, place) {
                    take(place, page);
                }
                bits &= bits - 1;
            }
        }
    }
}
