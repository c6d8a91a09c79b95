//! A unit in which pages are kept that were written only in part so far.
//!
//! Small writes that follow each other would take a page of the log each, and leave it out of
//! order. A controller with a scratch unit programs each into the next page there, together with
//! what it already has of that page; when the next page is begun, it copies the last of them to its
//! place. Nothing waits in volatile memory. When the unit is full, what is still needed of it is
//! copied to another. Limits: one unit at a time.
//! Sources: SanDisk's US patents 7,315,916, "Scratch pad block", and 7,386,655, "Non-volatile
//! memory and method with improved indexing for scratch pad and update blocks" (both 2008). That a
//! card has such a unit is inferred from timing.

use serde::{Deserialize, Serialize};

use super::BlockMapped;
use crate::nand::Nand;

/// The scratch unit and how many of its pages are taken; none before it is needed first.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ScratchUnit {
    unit: Option<u32>,
    used: u32,
}

impl BlockMapped {
    /// Programs the page of the next place of the last open erase block into the scratch unit.
    pub(super) fn gather(&mut self, nand: &mut Nand, logical_page: u32) {
        let full = |scratch: &ScratchUnit| scratch.used == self.pages_per_unit;
        if self.scratch.as_ref().is_some_and(full) {
            self.renew(nand);
        }
        let page = self.next_scratch_page(nand);
        nand.program(page, logical_page);
        self.open.last_mut().expect("a unit is open").gather(page);
    }

    fn next_scratch_page(&mut self, nand: &mut Nand) -> u32 {
        let scratch = self.scratch.as_mut().expect("only what has one gathers");
        let unit = *scratch.unit.get_or_insert_with(|| self.free.take(nand));
        scratch.used += 1;
        nand.page_at(unit, scratch.used - 1)
    }

    /// Begins another scratch unit, with what the other open erase blocks have in this one: the
    /// last of them is just being written.
    fn renew(&mut self, nand: &mut Nand) {
        let old = self.scratch.replace(ScratchUnit::default()).and_then(|scratch| scratch.unit);
        for index in 0..self.open.len() - 1 {
            if let Some(from) = self.open[index].gathered() {
                let to = self.next_scratch_page(nand);
                nand.copy(from, to);
                self.open[index].gather(to);
            }
        }
        if let Some(old) = old {
            self.free.put(nand, old);
        }
    }
}
