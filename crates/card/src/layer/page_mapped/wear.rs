//! Static wear levelling: data that never changes is moved out of the least worn unit.
//!
//! When the erasures of the most worn and the least worn unit in use lie further apart than the
//! model allows, garbage collection begins by copying the least worn one to the most worn free
//! one, and its unit serves what changes. One unit is moved for one that is collected at most.
//! Limits: units of the pSLC area wear by themselves, in turn; units of the map change often
//! enough not to need it.
//! Source: Chang, Hsieh and Kuo, "Endurance enhancement of flash-memory storage systems: an
//! efficient static wear leveling design" (DAC 2007), with counters in the place of its bit array.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::PageMapped;
use super::collection::GcInProgress;
use crate::nand::Nand;

/// The wear of the units in use.
#[derive(Debug, Serialize, Deserialize)]
pub struct WearLevelling {
    /// How far two units may lie apart.
    spread: u32,
    /// The closed units by their erasures.
    closed: BTreeSet<(u32, u32)>,
    most: u32,
}

impl WearLevelling {
    /// Of a card that was never used.
    pub fn new(spread: u32) -> Self {
        Self { spread, closed: BTreeSet::new(), most: 0 }
    }

    /// A unit is full.
    pub fn close(&mut self, nand: &Nand, unit: u32) {
        let erases = nand.erases_of(unit);
        self.most = self.most.max(erases);
        self.closed.insert((erases, unit));
    }

    /// A unit is collected.
    pub fn remove(&mut self, nand: &Nand, unit: u32) {
        self.closed.remove(&(nand.erases_of(unit), unit));
    }

    /// The unit that lags behind too far, where one does.
    fn lagging(&self) -> Option<(u32, u32)> {
        self.closed.first().copied().filter(|(erases, _)| self.most - erases > self.spread)
    }
}

impl PageMapped {
    /// Moves what lies in a unit that is worn too little.
    pub(super) fn level_wear(&mut self, nand: &mut Nand) {
        let Some((erases, unit)) = self.wear.as_ref().and_then(|wear| wear.lagging()) else {
            return;
        };
        // Moving to a unit no more worn would not change anything.
        if self.free.most_erases().is_none_or(|most| most <= erases) {
            return;
        }
        let to = self.free.take_most_worn(nand);
        self.withdraw(nand, unit);
        self.move_all(nand, &mut GcInProgress::new(unit), to);
        self.close_unit(nand, to);
        self.free.put(nand, unit);
        self.counters.wear_levelling_moves += 1;
    }
}
