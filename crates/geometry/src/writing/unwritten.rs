//! Checks whether reads of never-written areas are faster.
//!
//! A layer without a mapping for an address answers without accessing the flash. Places are read
//! before anything is written there, and others of the same area afterwards. Limits: an area that
//! held data before shows no difference, which cannot be recognized; only a difference is an
//! answer.

use std::ops::Range;

use super::meter::{MeasurementStop, Meter};
use crate::belief::median;
use crate::findings::{GeometryFinding, QuantityValue};

const READ: u64 = 16 << 10;
const PLACES: u64 = 12;
/// Smallest ratio of the read times.
const SLOWER: f64 = 1.04;
/// The share of pairs in which the written place is slower.
const SHARE: f64 = 0.9;
/// Probability that so many pairs are not due to chance.
const CONFIDENCE: f64 = 0.99;

/// Reads places of an area; `turn` is 0 before and 1 after it is written.
pub fn read(
    meter: &mut Meter<'_>,
    within: &Range<u64>,
    turn: u64,
) -> Result<Vec<f64>, MeasurementStop> {
    let room = (within.end - within.start) / (2 * PLACES);
    (0..PLACES)
        .map(|place| {
            let at = within.start + (2 * place + turn) * room;
            let at = (at + meter.random.below(room - READ)) / READ * READ;
            meter.read(at.max(within.start.next_multiple_of(READ)), READ)
        })
        .collect()
}

pub fn finding(before: &[f64], after: &[f64]) -> GeometryFinding {
    let pairs = before.iter().flat_map(|one| after.iter().map(move |other| one < other));
    let share =
        pairs.filter(|slower| *slower).count() as f64 / (before.len() * after.len()).max(1) as f64;
    let ratio = median(after) / median(before);
    if ratio > SLOWER && share > SHARE {
        let reason = format!("reads took {ratio:.2} times as long after the place was written");
        return GeometryFinding::found(QuantityValue::Is(true), CONFIDENCE, reason);
    }
    GeometryFinding::inconclusive(
        "reads took as long before a place was written as after; it may have held data before",
        Vec::new(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_difference_is_an_answer() {
        let fast = [100.0, 101.0, 102.0, 150.0];
        let slow = [160.0, 161.0, 159.0, 300.0];
        assert_eq!(finding(&fast, &slow).value, Some(QuantityValue::Is(true)));
        assert_eq!(finding(&slow, &fast).value, None);
        assert_eq!(finding(&fast, &fast).value, None);
    }
}
