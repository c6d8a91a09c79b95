//! The write unit from smallest writes across multiples of possible ones.
//!
//! A log for small writes takes none of the larger sizes by which the write unit is found
//! otherwise. But a smallest write across a boundary between two write units occupies two of them,
//! so erasures are half as far apart; across a boundary within a write unit they are not. Limits:
//! devices that program several mapped pages together put both parts into one write unit, wherever
//! the boundary is, so nothing is concluded unless some writes occupy two; writes must start at
//! half of the smallest size, which some sectors do not allow.
//!
//! What is erased is a log if larger writes do not fill it.

use super::build::WriteShape;
use super::erasures::{BuildBelief, MIN_WRITE, STRIDE};
use super::meter::{MeasurementStop, Meter};
use super::next_write::{self, MAX_WRITES, MIN_DISTANCE, MIN_WRITES, SHARE_OF_REST, TRIED};
use super::period::TimeClasses;
use crate::probed::SamplePurpose;

/// A multiple of all likely write units.
const ANY_BOUNDARY: u64 = 384 << 10;
/// Number of boundaries tried.
const RUNS: usize = 8;
/// Erasures to observe between writes that may go elsewhere.
const SEEN: f64 = 30.0;
/// Required log-evidence of the distance of erasures against others.
const CLEAR: f64 = 14.0;

impl BuildBelief {
    /// Finds the write unit; returns whether writes across boundaries occupy two.
    pub(super) fn cross(&mut self, meter: &mut Meter<'_>) -> Result<bool, MeasurementStop> {
        let Some(distance) = self.distance() else { return Ok(false) };
        let length = MIN_WRITE.max(2 * meter.sector_bytes());
        let any = WriteShape::across(ANY_BOUNDARY, length);
        let writes = ((distance as f64 * TRIED) as usize).clamp(MIN_WRITES, MAX_WRITES);
        let is_affordable = writes as u64 * length <= meter.left_bytes();
        if !is_affordable || !self.crosses(meter, any, writes, &[2])? {
            return Ok(false);
        }
        for _ in 0..RUNS {
            let shapes = next_write::across(length);
            let Some((shape, most)) = self.next(shapes, meter) else { break };
            self.crosses(meter, shape, most, &[1, 2])?;
        }
        Ok(true)
    }

    /// Whether smallest writes fill what is erased as before if there is a larger one, of at least
    /// this size, between any two. These take all but one of a power of two of write units, so if
    /// they go to the same place, erasures that smallest writes meet are closer by that power.
    pub(super) fn is_filled_by_small_ones(
        &self,
        meter: &mut Meter<'_>,
        larger_bytes: u64,
    ) -> Result<bool, MeasurementStop> {
        let Some(distance) = self.distance() else { return Ok(false) };
        let write_unit = self.likeliest_write_unit();
        let larger = |power: u32| ((1 << power) - 1) * write_unit;
        let closest = |power: u32| distance as f64 / f64::from(1 << power);
        let is_possible = |power: &u32| closest(*power) >= MIN_DISTANCE && larger(*power) <= STRIDE;
        let powers: Vec<u32> = (1..10).filter(is_possible).collect();
        let enough = powers.iter().find(|power| larger(**power) >= larger_bytes);
        let Some(&power) = enough.or(powers.last()) else { return Ok(false) };
        let writes = (distance as f64 * SEEN) as u64;
        if writes * larger(power) > meter.left_bytes() / SHARE_OF_REST {
            return Ok(false);
        }
        let mut times = Vec::new();
        let mut places = self.places();
        while (times.len() as u64) < writes {
            meter.random.shuffle(&mut places);
            for at in &places {
                times.push(meter.write(SamplePurpose::WriteRandom, *at, MIN_WRITE)? as f32);
                meter.write(SamplePurpose::WriteRandom, *at, larger(power))?;
            }
        }
        let classes = TimeClasses::of(&times);
        let nothing = classes.log_nothing();
        let gain = |power: u32| classes.log_of(closest(power)).map_or(0.0, |log| log - nothing);
        let closer = (1..=power).map(gain).fold(0.0, f64::max);
        Ok(gain(0) > closer + CLEAR)
    }

    /// Whether writes of this shape clearly occupy one of these numbers of write units.
    fn crosses(
        &mut self,
        meter: &mut Meter<'_>,
        shape: WriteShape,
        most: usize,
        occupied: &[usize],
    ) -> Result<bool, MeasurementStop> {
        let (_, found, is_clear) = self.measure(meter, shape, most)?;
        let Some((found, distance)) = found.filter(|_| is_clear).zip(self.distance()) else {
            return Ok(false);
        };
        let fits = |number: &usize| found.distance == distance as f64 / *number as f64;
        let is_possible = occupied.iter().any(fits);
        if is_possible {
            self.accept(shape, found);
        }
        Ok(is_possible)
    }
}
