//! A logical unit that is open, and its log: an erase block to which its pages are appended.
//!
//! As long as every page is at its own place the log is in order, and nothing else need be known.

use serde::{Deserialize, Serialize};

use crate::nand::{NONE, Nand};

/// An open erase block.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct OpenBlock {
    pub logical_unit: u32,
    /// The log.
    pub unit: u32,
    used: u32,
    /// Whether every page so far is at its own place.
    pub in_order: bool,
    /// How many pages before the first that was written were copied.
    pub head: u32,
    /// Where the page at place `used` is that was written only in part so far, or [`NONE`].
    gathered: u32,
    /// Which places of the logical unit are in a log out of order, a bit each.
    written: Vec<u64>,
    /// Place in the logical unit to place in the log, where that bit is set.
    places: Vec<u32>,
}

impl OpenBlock {
    /// Begins a log in an erased unit.
    pub fn begin(&mut self, logical_unit: u32, unit: u32) {
        self.begin_behind(logical_unit, unit, 0);
    }

    /// Begins a log in a unit to which the first `head` pages were copied.
    pub fn begin_behind(&mut self, logical_unit: u32, unit: u32, head: u32) {
        (self.logical_unit, self.unit, self.used) = (logical_unit, unit, head);
        (self.in_order, self.head, self.gathered) = (true, head, NONE);
    }

    /// Places of the log that are taken.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Whether a place is the next one in order, or the one that is gathered.
    pub fn is_next(&self, place: u32) -> bool {
        place == self.used || (self.is_gathering() && place == self.used + 1)
    }

    pub fn is_gathering(&self) -> bool {
        self.gathered != NONE
    }

    /// Where the page of the next place is for now, when it was written only in part so far.
    pub fn gathered(&self) -> Option<u32> {
        self.is_gathering().then_some(self.gathered)
    }

    /// The page of the next place is elsewhere for now.
    pub fn gather(&mut self, page: u32) {
        self.gathered = page;
    }

    /// Copies what was gathered to its place.
    pub fn commit(&mut self, nand: &mut Nand) {
        if self.is_gathering() {
            let page = std::mem::replace(&mut self.gathered, NONE);
            nand.copy(page, nand.page_at(self.unit, self.used));
            self.used += 1;
        }
    }

    /// The page that takes the next one of the logical unit, which is that of `place`.
    pub fn append(&mut self, nand: &Nand, place: u32) -> u32 {
        self.gathered = NONE;
        if self.in_order && place != self.used {
            self.leave_order(nand.pages_per_unit());
        }
        if !self.in_order {
            self.written[place as usize / 64] |= 1 << (place % 64);
            self.places[place as usize] = self.used;
        }
        self.used += 1;
        nand.page_at(self.unit, self.used - 1)
    }

    fn leave_order(&mut self, pages_per_unit: u32) {
        self.in_order = false;
        self.places.resize(pages_per_unit as usize, 0);
        self.written.clear();
        self.written.resize(pages_per_unit.div_ceil(64) as usize, 0);
        for place in 0..self.used {
            self.written[place as usize / 64] |= 1 << (place % 64);
            self.places[place as usize] = place;
        }
    }

    /// Where the page of a place is; `None` when it is not here, or was never written.
    pub fn page_of(&self, nand: &Nand, place: u32) -> Option<u32> {
        if self.is_gathering() && place == self.used {
            return Some(self.gathered);
        }
        let in_log = if self.in_order {
            (place < self.used).then_some(place)
        } else {
            let written = self.written[place as usize / 64] >> (place % 64) & 1 == 1;
            written.then(|| self.places[place as usize])
        };
        // A copied page may be one that was never written.
        in_log
            .map(|place| nand.page_at(self.unit, place))
            .filter(|&page| nand.logical_page(page).is_some())
    }

    /// Calls `take` with each place that is here, in ascending order, and with its page.
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
