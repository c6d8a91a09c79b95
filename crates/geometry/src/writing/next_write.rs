//! Which writes tell most about an erase block's structure, and how many of them are needed.
//!
//! Writes of several sizes, each from the start of a write unit, or writes of the smallest size
//! across multiples of possible write units, which occupy two of these instead of one. Sizes
//! distinguish more structures at once; but larger ones may not go to the log for small writes
//! whose erasures are visible.

use super::build::{EXPONENTS, UnitBuild, WriteShape};
use super::erasures::{MIN_WRITE, STRIDE};
use crate::belief::log_sum_exp;

/// Odd factors of the write sizes.
const ODD_SIZES: [u64; 5] = [1, 3, 5, 7, 9];
/// Those of multiples of possible write units.
const ODD_UNITS: [u64; 2] = [1, 3];
/// The divisor of the remaining budget that a run may use.
pub const SHARE_OF_REST: u64 = 4;
/// Erasures to observe per shape.
pub const TRIED: f64 = 40.0;
/// The fewest visible erasures for a shape to be tried.
pub const MIN_SEEN: f64 = 12.0;
/// The fewest and the most writes of one shape per run.
pub const MIN_WRITES: usize = 3072;
pub const MAX_WRITES: usize = 1 << 17;
/// The smallest distance of erasures that gives a clear result.
pub const MIN_DISTANCE: f64 = 3.0;
/// Structures less likely than this do not count.
const UNLIKELY: f64 = 1e-6;
/// The least information of a run in nats, and the factor by which a larger size must give more.
const LEAST_INFORMATION: f64 = 1e-4;
const MORE_INFORMATION: f64 = 1.15;
/// The largest probability that erasures are too close to each other.
const TOO_CLOSE: f64 = 1e-3;

/// Writes of all sizes but the smallest, smallest first.
pub fn sizes() -> impl Iterator<Item = WriteShape> {
    let sizes = EXPONENTS.flat_map(|exponent| ODD_SIZES.map(|odd| odd << exponent));
    sizes.filter(|size| *size > MIN_WRITE && *size <= STRIDE / 2).map(WriteShape::aligned)
}

/// Writes of this length across multiples of all possible write units.
pub fn across(length_bytes: u64) -> impl Iterator<Item = WriteShape> {
    let units = EXPONENTS.flat_map(|exponent| ODD_UNITS.map(|odd| odd << exponent));
    let fit = units.filter(move |unit| *unit >= length_bytes / 2 && *unit <= STRIDE / 2);
    fit.map(move |unit| WriteShape::across(unit, length_bytes))
}

/// The most informative shape and the number of writes to evaluate it, given unnormalized
/// log-probabilities of the structures.
pub fn most_informative(
    shapes: impl Iterator<Item = WriteShape>,
    builds: &[UnitBuild],
    logs: &[f64],
    left_bytes: u64,
) -> Option<(WriteShape, usize)> {
    let total = log_sum_exp(logs.iter().copied());
    let probabilities = logs.iter().map(|log| (log - total).exp());
    let likely: Vec<(UnitBuild, f64)> =
        builds.iter().copied().zip(probabilities).filter(|(_, of)| *of >= UNLIKELY).collect();
    let mut best: Option<(f64, WriteShape, usize)> = None;
    for shape in shapes {
        let mut shares: Vec<(f64, f64)> = Vec::new();
        let mut too_close = 0.0;
        for (build, probability) in &likely {
            let distance = build.whole_distance(shape);
            if build.distance(shape) < MIN_DISTANCE {
                too_close += probability;
            }
            match shares.iter_mut().find(|(other, _)| *other == distance) {
                Some((_, share)) => *share += probability,
                None => shares.push((distance, *probability)),
            }
        }
        let information: f64 = shares.iter().map(|(_, share)| -share * share.ln()).sum();
        let farthest = shares.iter().map(|(distance, _)| *distance).fold(0.0, f64::max);
        let needed = ((farthest * TRIED) as usize).clamp(MIN_WRITES, MAX_WRITES);
        let may = left_bytes / SHARE_OF_REST / shape.length_bytes;
        let needed = needed.min(usize::try_from(may).unwrap_or(MAX_WRITES));
        // Of equally informative shapes, the smallest shows erasures best.
        if (needed as f64) >= MIN_SEEN * farthest
            && information > LEAST_INFORMATION
            && too_close < TOO_CLOSE
            && best.is_none_or(|(other, _, _)| information > MORE_INFORMATION * other)
        {
            best = Some((information, shape, needed));
        }
    }
    best.map(|(_, shape, needed)| (shape, needed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builds(write_units: &[u64]) -> Vec<UnitBuild> {
        let of = |write_unit: &u64| UnitBuild {
            unit: 64 * write_unit,
            write_unit: *write_unit,
            bits: 1,
        };
        write_units.iter().map(of).collect()
    }

    #[test]
    fn a_boundary_between_two_write_units_is_tried_and_the_smaller_one_needs_two() {
        let builds = builds(&[8 << 10, 16 << 10]);
        let found = most_informative(across(4096), &builds, &[0.0; 2], 1 << 30);
        let (shape, writes) = found.expect("there is one");
        assert_eq!(shape, WriteShape::across(8 << 10, 4096));
        assert_eq!((shape.offset_bytes, shape.length_bytes), (6 << 10, 4 << 10));
        assert_eq!(builds.iter().map(|of| of.distance(shape)).collect::<Vec<_>>(), [32.0, 64.0]);
        assert_eq!(writes, MIN_WRITES);
    }

    #[test]
    fn threefold_write_units_are_told_from_those_around_them() {
        let builds = builds(&[8 << 10, 12 << 10, 16 << 10]);
        let told = |of: usize| {
            across(4096).any(|shape| {
                let distances: Vec<f64> =
                    builds.iter().map(|build| build.distance(shape)).collect();
                (0..3).all(|other| other == of || distances[other] != distances[of])
            })
        };
        assert!((0..3).all(told));
    }

    #[test]
    fn what_is_known_or_not_affordable_is_not_tried() {
        let builds = builds(&[8 << 10, 16 << 10]);
        assert_eq!(most_informative(across(4096), &builds, &[0.0, -40.0], 1 << 30), None);
        assert_eq!(most_informative(across(4096), &builds, &[0.0; 2], 1 << 20), None);
        assert_eq!(most_informative(across(4096), &builds[..1], &[0.0], 1 << 30), None);
    }
}
