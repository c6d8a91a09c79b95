//! The erase units that hold nothing, least worn first: dynamic wear levelling.
//!
//! A unit is erased when it is taken, not when it is given back. Limits: units that hold data which
//! never changes are never moved (no static wear levelling).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::nand::Nand;

/// Free erase units, ordered by wear and then by number.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct FreeUnits {
    by_wear: BTreeSet<(u32, u32)>,
}

impl FreeUnits {
    /// All units of a card that was never used.
    pub fn all(count: u32) -> Self {
        Self { by_wear: (0..count).map(|unit| (0, unit)).collect() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_wear.len()
    }

    /// Gives a unit back.
    pub fn put(&mut self, nand: &Nand, unit: u32) {
        let new = self.by_wear.insert((nand.erases_of(unit), unit));
        assert!(new, "unit {unit} is given back twice");
    }

    /// Takes the least worn unit and erases it where that is needed.
    pub fn take(&mut self, nand: &mut Nand) -> u32 {
        let (_, unit) = self.by_wear.pop_first().expect("a checked model never runs out of units");
        if !nand.is_erased(unit) {
            nand.erase(unit);
        }
        unit
    }
}
