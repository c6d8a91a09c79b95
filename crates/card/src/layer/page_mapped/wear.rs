//! Static wear leveling: moves data that never changes out of the least worn block.
//!
//! When the erase counts of the most and the least worn block in use differ by more than the model
//! allows, garbage collection first copies the least worn block to the most worn free one, and the
//! freed block is used for changing data. At most one block is moved per collected block. Limits:
//! blocks of the pSLC area wear separately, in turn; blocks of the map change often enough.
//! Source: Chang, Hsieh and Kuo, "Endurance enhancement of flash-memory storage systems: an
//! efficient static wear leveling design" (DAC 2007), with counters instead of its bit array.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::PageMapped;
use super::collection::GcInProgress;
use crate::nand::Nand;

/// The wear of the blocks in use.
#[derive(Debug, Serialize, Deserialize)]
pub struct WearLevelling {
    /// Maximum difference of erase counts.
    spread: u32,
    /// Closed blocks by erase count.
    closed: BTreeSet<(u32, u32)>,
    most: u32,
}

impl WearLevelling {
    pub fn new(spread: u32) -> Self {
        Self { spread, closed: BTreeSet::new(), most: 0 }
    }

    /// Adds a full block.
    pub fn close(&mut self, nand: &Nand, block: u32) {
        let erases = nand.erases_of(block);
        self.most = self.most.max(erases);
        self.closed.insert((erases, block));
    }

    /// Removes a block that is collected.
    pub fn remove(&mut self, nand: &Nand, block: u32) {
        self.closed.remove(&(nand.erases_of(block), block));
    }

    /// The block whose erase count is too low, if any.
    fn lagging(&self) -> Option<(u32, u32)> {
        self.closed.first().copied().filter(|(erases, _)| self.most - erases > self.spread)
    }
}

impl PageMapped {
    /// Moves the data of a block that is worn too little.
    pub(super) fn level_wear(&mut self, nand: &mut Nand) {
        let Some((erases, block)) = self.wear.as_ref().and_then(|wear| wear.lagging()) else {
            return;
        };
        // Moving to a block that is not more worn would not help.
        if self.free.most_erases().is_none_or(|most| most <= erases) {
            return;
        }
        let to = self.free.take_most_worn(nand);
        self.withdraw(nand, block);
        self.move_all(nand, &mut GcInProgress::new(block), to);
        self.close_block(nand, to);
        self.free.put(nand, block);
        self.counters.wear_levelling_moves += 1;
    }
}
