//! Tells erasures from merges by writing to a second area.
//!
//! An erase block of a page-mapped layer is filled by all writes, wherever they go. A log that is
//! merged whenever it is full belongs to a part of the addresses, and is full half as often if half
//! of the writes go to another part. Where the window is so small that one erase block may contain
//! both areas, the time decides: an erasure takes much less time than filling what is erased, and a
//! merge copies data. There, a log for small writes gives no answer either, because larger writes,
//! which would tell its write unit, go to the log of the erase block instead. Limits: in such a
//! window, stalls of another cause that are more frequent than erasures are taken for merges.

use super::build::WriteShape;
use super::erased_structure::CONTRADICTED;
use super::erasures::{BuildBelief, MIN_WRITE, STRIDE};
use super::meter::{MeasurementStop, Meter};
use super::next_write::{MAX_WRITES, MIN_WRITES, TRIED};
use crate::belief::{ANSWERS, median};

/// Required log-evidence of the same distance in two areas.
const CLEAR: f64 = 7.0;
/// An erasure takes less than one of these: a share of the time of filling what is erased, or this
/// many nanoseconds.
const MAX_ERASURE_SHARE: f64 = 0.1;
const MAX_ERASURE_NS: f64 = 3e7;

impl BuildBelief {
    /// Whether the stalls of smallest writes are erasures: as far apart if half of the writes go to
    /// an area far away.
    pub(super) fn is_the_same_in_two_areas(
        &self,
        meter: &mut Meter<'_>,
    ) -> Result<bool, MeasurementStop> {
        let shape = WriteShape::aligned(MIN_WRITE);
        let Some(distance) = self.seen.first().map(|of| of.whole_distance) else {
            return Ok(false);
        };
        let most = ((TRIED * distance) as usize).clamp(MIN_WRITES, MAX_WRITES);
        let near = self.places();
        let moved = near.iter().map(|place| place - self.area.start + self.far_area);
        let places: Vec<u64> = near.iter().copied().chain(moved).collect();
        let (times, found, _) = self.measure_at(meter, &places, shape, most)?;
        let Some(found) = found else { return Ok(false) };
        let best = found.logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let same = self.builds.iter().zip(&found.logs);
        let same = same.filter(|(build, _)| build.whole_distance(shape) == distance);
        let same = same.map(|(_, log)| *log).fold(f64::NEG_INFINITY, f64::max);
        let is_erasure = self.are_far_apart() || is_short(&times, distance);
        Ok(is_erasure && same > CLEAR && best - same < CONTRADICTED)
    }

    /// Whether no erase block contains both areas.
    pub(super) fn are_far_apart(&self) -> bool {
        self.far_area.abs_diff(self.area.start) >= *ANSWERS.end()
    }
}

/// The start of an area of this length as far away from `start` as the window allows.
pub fn far_area(window: &std::ops::Range<u64>, start: u64, length: u64) -> u64 {
    let first = window.start.next_multiple_of(STRIDE);
    let last = window.end - length;
    if start - first > last.saturating_sub(start) { first } else { last / STRIDE * STRIDE }
}

/// Whether the slowest of every `distance` writes takes little enough for an erasure.
fn is_short(times: &[f32], distance: f64) -> bool {
    let mut sorted: Vec<f64> = times.iter().map(|time| f64::from(*time)).collect();
    sorted.sort_by(f64::total_cmp);
    let usual_ns = median(&sorted);
    // The middle one of those that are expected to wait.
    let from_end = (sorted.len() as f64 / distance / 2.0) as usize + 1;
    let Some(at) = sorted.len().checked_sub(from_end) else { return false };
    let stall_ns = sorted[at] - usual_ns;
    stall_ns < (MAX_ERASURE_SHARE * distance * usual_ns).max(MAX_ERASURE_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_far_area_is_at_the_other_end_of_the_window() {
        let length = 5 * STRIDE;
        let far = far_area(&(128 * MIB..384 * MIB), 132 * MIB, length);
        assert!(far + length <= 384 * MIB && far > 379 * MIB, "{far}");
        let small = far_area(&(4 * MIB..16 * MIB), 12 * MIB, length);
        assert!(small >= 4 * MIB && small + length <= 12 * MIB, "{small}");
    }

    #[test]
    fn an_erasure_takes_less_than_filling_and_a_merge_does_not() {
        let times = |stall: f32| -> Vec<f32> {
            (0..2240).map(|at| if at % 112 == 3 { stall } else { 2e6 }).collect()
        };
        assert!(is_short(&times(8e6), 112.0));
        assert!(!is_short(&times(9e8), 112.0));
    }
}
