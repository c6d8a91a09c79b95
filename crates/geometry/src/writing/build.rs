//! Hypotheses about the structure of an erase block, with priors: its size, the size of its write
//! units, and the bits per cell if writes go to single-bit cells first; and how often writes of a
//! shape fill it.

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

/// A write relative to an address that is a multiple of all write units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteShape {
    pub offset_bytes: u64,
    pub length_bytes: u64,
}

impl WriteShape {
    /// A write from a write unit's start.
    pub const fn aligned(length_bytes: u64) -> Self {
        Self { offset_bytes: 0, length_bytes }
    }

    /// A write whose middle is this far from a write unit's start.
    pub const fn across(boundary: u64, length_bytes: u64) -> Self {
        Self { offset_bytes: boundary - length_bytes / 2, length_bytes }
    }

    /// Number of write units that contain a part of it.
    pub fn write_units(self, write_unit: u64) -> u64 {
        let end = self.offset_bytes + self.length_bytes;
        end.div_ceil(write_unit) - self.offset_bytes / write_unit
    }
}

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
    /// The number of writes of a shape that fill the unit.
    pub fn distance(self, shape: WriteShape) -> f64 {
        let held = self.unit / self.write_unit / self.bits;
        held as f64 / shape.write_units(self.write_unit) as f64
    }

    /// The smallest whole number of writes that fill whole units. If a unit becomes full in the
    /// middle of a write, the device may erase while it receives the rest, so that only erasures
    /// between two writes are visible.
    pub fn whole_distance(self, shape: WriteShape) -> f64 {
        let held = self.unit / self.write_unit / self.bits;
        let (mut rest, mut common) = (shape.write_units(self.write_unit), held);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_take_the_write_units_that_contain_a_part_of_them() {
        let (small, large) = (WriteShape::aligned(4096), WriteShape::aligned(20 << 10));
        assert_eq!((small.write_units(16 << 10), large.write_units(16 << 10)), (1, 2));
        let across = WriteShape::across(16 << 10, 4096);
        assert_eq!([8 << 10, 16 << 10, 32 << 10].map(|unit| across.write_units(unit)), [2, 2, 1]);
    }

    #[test]
    fn erasures_in_the_middle_of_a_write_are_counted_with_the_next_whole_ones() {
        let build = UnitBuild { unit: 96 << 10, write_unit: 4 << 10, bits: 1 };
        let odd = WriteShape::aligned(20 << 10);
        assert_eq!((build.distance(odd), build.whole_distance(odd)), (4.8, 24.0));
        let even = WriteShape::across(8 << 10, 4 << 10);
        assert_eq!((build.distance(even), build.whole_distance(even)), (12.0, 12.0));
    }
}
