//! Hypotheses about the structure of an erase block, with priors: its size, the size of its write
//! units, and the bits per cell if writes go to single-bit cells first.

use std::ops::Range;

use crate::belief::{ANSWERS, DeviceStructure, GeometryBelief};

/// Exponents of the sizes of write units, 2^k and 3 x 2^k.
pub const EXPONENTS: Range<u32> = 12..20;
/// Prior of a write unit of 3 x 2^k relative to 2^k.
const THREEFOLD: f64 = 0.3;
/// The fewest write units per erase block.
const MIN_WRITE_UNITS: u64 = 16;
/// Priors of the bits per cell if writes go to single-bit cells first; 1 means that they do not.
const BITS: [f64; 4] = [0.85, 0.05, 0.07, 0.03];
/// Prior weight of a write unit that the times by size do not support.
const UNTIMED: f64 = 0.05;

/// A possible structure of an erase block.
#[derive(Debug, Clone, Copy)]
pub struct UnitBuild {
    /// In bytes.
    pub unit: u64,
    /// In bytes.
    pub write_unit: u64,
    /// Bits per cell if writes go to single-bit units first, which hold less.
    pub bits: u64,
}

impl UnitBuild {
    /// The number of writes of a size that fill the unit.
    pub fn distance(self, write_bytes: u64) -> f64 {
        let held = self.unit / self.write_unit / self.bits;
        held as f64 / write_bytes.div_ceil(self.write_unit) as f64
    }

    /// The smallest whole number of writes that fill whole units. If a unit becomes full in the
    /// middle of a write, the device may erase while it receives the rest, so that only erasures
    /// between two writes are visible.
    pub fn whole_distance(self, write_bytes: u64) -> f64 {
        let held = self.unit / self.write_unit / self.bits;
        let (mut rest, mut common) = (write_bytes.div_ceil(self.write_unit), held);
        while rest > 0 {
            (common, rest) = (rest, common % rest);
        }
        (held / common) as f64
    }
}

/// A structure with its prior.
#[derive(Debug, Clone, Copy)]
pub struct BuildHypothesis {
    pub build: UnitBuild,
    pub prior: f64,
    /// Log-prior without the evidence of times by size.
    pub untimed: f64,
}

/// All hypotheses, weighted by the belief about units and the evidence of times by size. If the
/// device `merges`, writes do not go to single-bit cells first.
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
                if unit % write_unit != 0 || unit / write_unit < MIN_WRITE_UNITS {
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
