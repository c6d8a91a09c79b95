//! Checks whether the first erase blocks are mapped differently.
//!
//! Many cards map the units that hold a file allocation table so that small writes in any order are
//! cheap. If the rest of the device merges, random writes are made in each of the first units,
//! interleaved with writes to places far behind, so that no unit is still open. Limits: requires
//! known units, a region at the start of the device, and a device that merges; zones of up to
//! [`MAX_UNITS`] units. Source: flashbench's README, `--find-fat`.

use super::boundaries::{MIN_STRETCH, SensedMerging};
use super::layout::UnitLayout;
use super::meter::{MeasurementStop, Meter};
use crate::belief::median;
use crate::findings::{GeometryFinding, QuantityValue};
use crate::probed::SamplePurpose;

/// The units to test.
pub const MAX_UNITS: u64 = 6;
const ROUNDS: u64 = 3;
/// Writes elsewhere in between, more than devices keep open.
const BETWEEN: u64 = 12;
/// A write without a merge takes less than this share of a merge beyond its sequential time.
const NO_MERGE: f64 = 0.3;
/// Each unit agrees three times out of three.
const CONFIDENCE: f64 = 0.96;

/// Writes the first units sequentially, then at random places.
pub fn measure(
    meter: &mut Meter<'_>,
    merging: &SensedMerging,
    layout: UnitLayout,
) -> Result<GeometryFinding, MeasurementStop> {
    let units = MAX_UNITS.min(merging.window.start / layout.unit);
    if meter.region().start > 0 || layout.offset > 0 || units < 2 {
        return Ok(GeometryFinding::not_measured(
            "the region does not start at the start of the device, or lacks room for the test",
        ));
    }
    meter.fill(0..units * layout.unit)?;
    let window = &merging.window;
    let room = (window.end - window.start) / BETWEEN;
    let within = layout.unit.saturating_sub(MIN_STRETCH).max(1);
    let length = MIN_STRETCH.min(layout.unit / 2) / 4096 * 4096;
    let mut times = vec![Vec::new(); usize::try_from(units).expect("it is small")];
    for _ in 0..ROUNDS {
        for between in 0..BETWEEN {
            let place = meter.random.below(room - MIN_STRETCH) / 4096 * 4096;
            let at = window.start + between * room / 4096 * 4096 + place;
            meter.write(SamplePurpose::WriteRandom, at, length)?;
        }
        for (unit, times) in (0_u64..).zip(&mut times) {
            // Not at the start of the unit, where a write would be sequential.
            let place = (4096 + meter.random.below(within) / 4096 * 4096).min(layout.unit - length);
            times.push(meter.write(
                SamplePurpose::WriteRandom,
                unit * layout.unit + place,
                length,
            )?);
        }
    }
    let in_order = merging.ns_per_byte * length as f64;
    let cheap = |times: &Vec<f64>| median(times) - in_order < NO_MERGE * merging.merge_ns;
    let cheap: Vec<bool> = times.iter().map(cheap).collect();
    let first = cheap.iter().position(|cheap| !cheap);
    Ok(match first {
        Some(0) => GeometryFinding::inconclusive(
            "the first erase blocks cause merges like all others",
            Vec::new(),
        ),
        Some(units) if cheap[units..].iter().all(|cheap| !cheap) => GeometryFinding::found(
            QuantityValue::Bytes(units as u64 * layout.unit),
            CONFIDENCE,
            "random writes cause no merges up to there",
        ),
        _ => GeometryFinding::inconclusive(
            "some of the first erase blocks cause no merges, but the end of the zone is unclear",
            Vec::new(),
        ),
    })
}
