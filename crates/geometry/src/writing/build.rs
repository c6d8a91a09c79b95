//! What an erase block may be made of: its size, that of its write units, and how many bits a cell
//! has where writes go to units with one bit a cell first; and how likely that is beforehand.

use std::ops::Range;

use crate::belief::{ANSWERS, DeviceStructure, GeometryBelief};

/// The sizes that write units may have: 2^k and 3 x 2^k.
pub const EXPONENTS: Range<u32> = 12..20;
/// How likely a write unit of 3 x 2^k is against one of 2^k.
const THREEFOLD: f64 = 0.3;
/// A unit has at least so many write units.
const LEAST_WRITE_UNITS: u64 = 16;
/// How likely it is that writes go to units with one bit a cell first, by the bits that the cells
/// have; 1 test beds for no such units.
const BITS: [f64; 4] = [0.85, 0.05, 0.07, 0.03];
/// How likely a write unit is that the times of sizes do not speak for.
const UNTIMED: f64 = 0.05;

/// What an erase block may be made of.
#[derive(Debug, Clone, Copy)]
pub struct UnitBuild {
    /// In bytes.
    pub unit: u64,
    /// In bytes.
    pub write_unit: u64,
    /// Bits of a cell, where writes go to units with one bit a cell first, which hold less.
    pub bits: u64,
}

impl UnitBuild {
    /// How many writes of a size fill the unit.
    pub fn distance(self, write_bytes: u64) -> f64 {
        let held = self.unit / self.write_unit / self.bits;
        held as f64 / write_bytes.div_ceil(self.write_unit) as f64
    }

    /// The least whole number of writes that fill whole units: where one is full in the middle of
    /// a write, the device may erase while it takes in the rest, so that only those erasures show
    /// that fall between two writes.
    pub fn whole_distance(self, write_bytes: u64) -> f64 {
        let held = self.unit / self.write_unit / self.bits;
        let (mut rest, mut common) = (write_bytes.div_ceil(self.write_unit), held);
        while rest > 0 {
            (common, rest) = (rest, common % rest);
        }
        (held / common) as f64
    }
}

/// A build and how likely it is beforehand.
#[derive(Debug, Clone, Copy)]
pub struct BuildHypothesis {
    /// The build.
    pub build: UnitBuild,
    /// The logarithm of how likely it is.
    pub prior: f64,
    /// As `prior`, without what the times of sizes said of write units.
    pub untimed: f64,
}

/// All builds, by what is believed of units and by what the times of sizes said of write units.
/// Where the device `merges`, no unit has cells of one bit.
pub fn all(
    belief: &GeometryBelief,
    write_units: &[(u64, f64)],
    merges: bool,
) -> Vec<BuildHypothesis> {
    let units = belief.candidates().filter_map(DeviceStructure::bytes);
    let units: Vec<u64> = units.filter(|unit| ANSWERS.contains(unit)).collect();
    let most_bits = if merges { 1 } else { BITS.len() };
    let mut all = Vec::new();
    for exponent in EXPONENTS {
        for (write_unit, share) in [(1 << exponent, 1.0), (3 << exponent, THREEFOLD)] {
            let timed = write_units.iter().find(|(size, _)| *size == write_unit);
            let timed = UNTIMED + timed.map_or(0.0, |(_, probability)| *probability);
            for &unit in &units {
                if unit % write_unit != 0 || unit / write_unit < LEAST_WRITE_UNITS {
                    continue;
                }
                let of_unit = belief.probability(DeviceStructure::Unit(unit)).max(1e-12);
                all.extend((1..).zip(BITS).take(most_bits).map(|(bits, of_bits)| {
                    BuildHypothesis {
                        build: UnitBuild { unit, write_unit, bits },
                        prior: (share * timed * of_unit * of_bits).ln(),
                        untimed: (share * of_unit * of_bits).ln(),
                    }
                }));
            }
        }
    }
    all
}
