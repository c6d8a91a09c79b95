//! A scratch block for pages that were only partly written so far.
//!
//! Consecutive small writes would each take a page of the log and leave it out of order. A
//! controller with a scratch block programs each into the next page there, merged with the earlier
//! parts of the same page; when the next page begins, it copies the last version to its position.
//! Nothing waits in volatile memory. When the scratch block is full, what is still needed is copied
//! to another one. Limit: one scratch block at a time. Sources: SanDisk's US patents 7,315,916,
//! "Scratch pad block", and 7,386,655, "Non-volatile memory and method with improved indexing for
//! scratch pad and update blocks" (both 2008). That a card has a scratch block is inferred from
//! timing.

use serde::{Deserialize, Serialize};

use super::BlockMapped;
use crate::nand::Nand;

/// The scratch block and its number of used pages; `None` before its first use.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ScratchUnit {
    block: Option<u32>,
    used: u32,
}

impl BlockMapped {
    /// Programs the partial next page of the most recent open block into the scratch block.
    pub(super) fn gather(&mut self, nand: &mut Nand, logical_page: u32) {
        let full = |scratch: &ScratchUnit| scratch.used == self.pages_per_block;
        if self.scratch.as_ref().is_some_and(full) {
            self.renew(nand);
        }
        let page = self.next_scratch_page(nand);
        nand.program(page, logical_page);
        self.open.last_mut().expect("a block is open").set_partial_page(page);
    }

    fn next_scratch_page(&mut self, nand: &mut Nand) -> u32 {
        let scratch = self.scratch.as_mut().expect("only what has one gathers");
        let block = *scratch.block.get_or_insert_with(|| self.free.take(nand));
        scratch.used += 1;
        nand.page_at(block, scratch.used - 1)
    }

    /// Starts another scratch block with the partial pages of the other open blocks; the most
    /// recent one is just being written.
    fn renew(&mut self, nand: &mut Nand) {
        let old = self.scratch.replace(ScratchUnit::default()).and_then(|scratch| scratch.block);
        for index in 0..self.open.len() - 1 {
            if let Some(from) = self.open[index].partial_page() {
                let to = self.next_scratch_page(nand);
                nand.copy(from, to);
                self.open[index].set_partial_page(to);
            }
        }
        if let Some(old) = old {
            self.free.put(nand, old);
        }
    }
}
