//! Whether the first erase blocks are mapped otherwise than the rest.
//!
//! Many cards keep their first units so that small writes in any order are cheap there, for a file
//! allocation table. Where the rest costs merges, writes to ever other places are made in each of
//! the first units, with places far behind in between, so that no unit is still open. Limits: only
//! where units are known, the region begins with the device, and the device merges; zones of up to
//! [`MOST_UNITS`] units.
//! Source: flashbench's README, `--find-fat`.

use super::boundaries::{LEAST_STRETCH, SensedMerging};
use super::layout::UnitLayout;
use super::meter::{MeasurementStop, Meter};
use crate::belief::median;
use crate::findings::{GeometryFinding, QuantityValue};
use crate::probed::SamplePurpose;

/// The units that are looked at.
pub const MOST_UNITS: u64 = 6;
/// How often each is written.
const ROUNDS: u64 = 3;
/// Places behind them that are written in between, more than devices keep open.
const BETWEEN: u64 = 12;
/// A write that takes less than this part of a merge beyond what it takes in order costs none.
const NO_MERGE: f64 = 0.3;
/// Three times out of three for each unit.
const CONFIDENCE: f64 = 0.96;

/// Writes the first units in order, and then to places in them.
pub fn measure(
    meter: &mut Meter<'_>,
    merging: &SensedMerging,
    layout: UnitLayout,
) -> Result<GeometryFinding, MeasurementStop> {
    let units = MOST_UNITS.min(merging.window.start / layout.unit);
    if meter.region().start > 0 || layout.offset > 0 || units < 2 {
        return Ok(GeometryFinding::not_measured(
            "the region does not begin with the medium, or has no room before what was measured",
        ));
    }
    meter.fill(0..units * layout.unit)?;
    let window = &merging.window;
    let room = (window.end - window.start) / BETWEEN;
    let within = layout.unit.saturating_sub(LEAST_STRETCH).max(1);
    let length = LEAST_STRETCH.min(layout.unit / 2) / 4096 * 4096;
    let mut times = vec![Vec::new(); usize::try_from(units).expect("it is small")];
    for _ in 0..ROUNDS {
        for between in 0..BETWEEN {
            let place = meter.random.below(room - LEAST_STRETCH) / 4096 * 4096;
            let at = window.start + between * room / 4096 * 4096 + place;
            meter.write(SamplePurpose::WriteRandom, at, length)?;
        }
        for (unit, times) in (0_u64..).zip(&mut times) {
            // Not at its beginning, from where on it would be written in order.
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
            "the first units cost merges as all others do",
            Vec::new(),
        ),
        Some(units) if cheap[units..].iter().all(|cheap| !cheap) => GeometryFinding::found(
            QuantityValue::Bytes(units as u64 * layout.unit),
            CONFIDENCE,
            "writes in any order cost no merges up to there",
        ),
        _ => GeometryFinding::inconclusive(
            "some of the first units cost no merges, but where that ends does not show",
            Vec::new(),
        ),
    })
}
