//! The free erase blocks, least worn first: dynamic wear leveling.
//!
//! A block is erased when it is taken, unless its owner has erased it already. Limit: dynamic wear
//! leveling only evens out blocks that are reused; blocks with static data need static wear
//! leveling.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::nand::Nand;

/// Free erase blocks, ordered by wear and then by number.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct FreeBlocks {
    by_wear: BTreeSet<(u32, u32)>,
}

impl FreeBlocks {
    /// The first `count` blocks of a new card.
    pub fn all(count: u32) -> Self {
        Self::of(0..count)
    }

    /// These blocks of a new card.
    pub fn of(units: impl Iterator<Item = u32>) -> Self {
        Self { by_wear: units.map(|unit| (0, unit)).collect() }
    }

    pub fn len(&self) -> usize {
        self.by_wear.len()
    }

    /// Erase count of the most worn free block.
    pub fn most_erases(&self) -> Option<u32> {
        self.by_wear.last().map(|&(erases, _)| erases)
    }

    pub fn put(&mut self, nand: &Nand, unit: u32) {
        let new = self.by_wear.insert((nand.erases_of(unit), unit));
        assert!(new, "unit {unit} is given back twice");
    }

    /// Takes the least worn block and erases it if necessary.
    pub fn take(&mut self, nand: &mut Nand) -> u32 {
        Self::prepared(nand, self.by_wear.pop_first())
    }

    /// Takes the most worn block, for static data, and erases it if necessary.
    pub fn take_most_worn(&mut self, nand: &mut Nand) -> u32 {
        Self::prepared(nand, self.by_wear.pop_last())
    }

    fn prepared(nand: &mut Nand, taken: Option<(u32, u32)>) -> u32 {
        let (_, unit) = taken.expect("a checked model never runs out of units");
        if !nand.is_erased(unit) {
            nand.erase(unit);
        }
        unit
    }
}
