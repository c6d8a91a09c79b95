//! The erase blocks that hold nothing, least worn first: dynamic wear levelling.
//!
//! A unit is erased when it is taken, not when it is given back, unless its owner has erased it by
//! then. Limits: by themselves these units level the wear only among those that come back; units
//! whose data never changes are the concern of static wear levelling.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::nand::Nand;

/// Free erase blocks, ordered by wear and then by number.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct FreeBlocks {
    by_wear: BTreeSet<(u32, u32)>,
}

impl FreeBlocks {
    /// The first `count` units of a card that was never used.
    pub fn all(count: u32) -> Self {
        Self::of(0..count)
    }

    /// These units of a card that was never used.
    pub fn of(units: impl Iterator<Item = u32>) -> Self {
        Self { by_wear: units.map(|unit| (0, unit)).collect() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_wear.len()
    }

    /// How often the most worn of them was erased.
    pub fn most_erases(&self) -> Option<u32> {
        self.by_wear.last().map(|&(erases, _)| erases)
    }

    /// Gives a unit back.
    pub fn put(&mut self, nand: &Nand, unit: u32) {
        let new = self.by_wear.insert((nand.erases_of(unit), unit));
        assert!(new, "unit {unit} is given back twice");
    }

    /// Takes the least worn unit and erases it where that is needed.
    pub fn take(&mut self, nand: &mut Nand) -> u32 {
        Self::prepared(nand, self.by_wear.pop_first())
    }

    /// Takes the most worn unit, for what will stay in it, and erases it where that is needed.
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
