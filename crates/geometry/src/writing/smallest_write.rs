//! Whether writes of a sector fill an erase block as much as larger ones.
//!
//! If `held` writes of some bytes fill an erase block and so do as many of a sector, the device
//! programs at least that many bytes for each. Otherwise erasures are two, four, or more times as
//! far apart. Limit: a device that maps larger pieces than it programs looks the same as one with
//! larger write units.

use super::meter::{MeasurementStop, Meter};
use super::period::TimeClasses;
use crate::probed::SamplePurpose;

/// Erasures to observe if they are as far apart as possible.
const SEEN: f64 = 40.0;
/// The fewest and the most writes.
const WRITES: [usize; 2] = [3072, 1 << 17];
/// Required log-evidence of one distance against the others.
const CLEAR: f64 = 14.0;

/// Writes sectors to these places in random order; `None` if the result is unclear.
pub fn fills_alike(
    meter: &mut Meter<'_>,
    places: &[u64],
    held: f64,
    larger_bytes: u64,
) -> Result<Option<bool>, MeasurementStop> {
    let sector = meter.sector_bytes();
    if sector >= larger_bytes {
        return Ok(Some(true));
    }
    let ratio = (larger_bytes / sector) as f64;
    let [fewest, most] = WRITES;
    let count = ((SEEN * ratio * held) as usize).clamp(fewest, most);
    let mut times: Vec<f32> = Vec::new();
    let mut order = places.to_vec();
    while times.len() < count {
        meter.random.shuffle(&mut order);
        for at in &order {
            times.push(meter.write(SamplePurpose::WriteRandom, *at, sector)? as f32);
        }
    }
    // The first writes may still be delayed by larger ones.
    let classes = TimeClasses::of(&times[times.len() / 8..]);
    let nothing = classes.log_nothing();
    let gain = |distance| classes.log_of(distance).map_or(0.0, |log| log - nothing);
    let alike = gain(held);
    let farther = (1..=ratio.log2() as i32).map(|doubled| gain(held * 2_f64.powi(doubled)));
    let farther = farther.fold(f64::NEG_INFINITY, f64::max);
    Ok(if alike - farther > CLEAR {
        Some(true)
    } else {
        (farther - alike > CLEAR).then_some(false)
    })
}
