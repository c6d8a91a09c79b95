//! Whether small writes go to a log of their own.
//!
//! Some layers that merge send writes up to a size to a page-mapped log instead: then those to ever
//! other places cost no merge, and larger ones do. Sizes are tried in turn, each at places of its
//! own. Limits: sizes of 2^k up to 64 KiB; the collection of the log itself, which comes once in
//! many writes, is not looked for.
//! Source: the cards of the flashbench surveys that write 4 KiB at the same speed to any number of
//! erase blocks, but not 16 KiB.

use super::boundaries::SensedMerging;
use super::meter::{MeasurementStop, Meter};
use crate::belief::median;
use crate::findings::{GeometryFinding, QuantityValue};
use crate::probed::{PlotPoint, PlotSeries, SamplePurpose};

const SIZES: [u64; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// Writes of each size.
const WRITES: u64 = 15;
/// A write that takes less than this part of a merge beyond what it takes in order costs none.
const NO_MERGE: f64 = 0.35;
/// Another answer would need so many of the times to be exceptions.
const CONFIDENCE: f64 = 0.97;

/// Tries all sizes; `series` gets what each took.
pub fn measure(
    meter: &mut Meter<'_>,
    merging: &SensedMerging,
) -> Result<GeometryFinding, MeasurementStop> {
    let window = &merging.window;
    let mut times = vec![Vec::new(); SIZES.len()];
    let room = (window.end - window.start - SIZES[SIZES.len() - 1]) / WRITES;
    for round in 0..WRITES {
        for (at, &size) in SIZES.iter().enumerate() {
            // Never where the one before ended, which would go on with it.
            let place = meter.random.below(room / size) * size;
            let spread = (round * 7 + at as u64 * 3) % WRITES * room;
            let offset = (window.start + spread + place) / size * size;
            let offset = offset.max(window.start.next_multiple_of(size));
            times[at].push(meter.write(SamplePurpose::WriteRandom, offset, size)?);
        }
    }
    let beyond: Vec<f64> = SIZES
        .iter()
        .zip(&times)
        .map(|(size, times)| median(times) - merging.ns_per_byte * *size as f64)
        .collect();
    let points = SIZES.iter().zip(&times).map(|(size, times)| {
        let mut sorted = times.clone();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (sorted[sorted.len() / 10], sorted[sorted.len() * 9 / 10]);
        PlotPoint { x: *size as f64, y: median(times), low, high }
    });
    meter.probed.evidence.series.push(PlotSeries {
        name: "small writes to ever other places".to_owned(),
        x_unit: "bytes".to_owned(),
        y_unit: "ns".to_owned(),
        points: points.collect(),
    });
    let without: Vec<bool> = beyond.iter().map(|ns| *ns < NO_MERGE * merging.merge_ns).collect();
    let first_merged = without.iter().position(|without| !without);
    Ok(match first_merged {
        Some(0) => GeometryFinding::inconclusive(
            "small writes to ever other places cost merges as large ones do: there is no such log",
            Vec::new(),
        ),
        Some(first) if without[first..].iter().all(|without| !without) => GeometryFinding::found(
            QuantityValue::Bytes(SIZES[first - 1]),
            CONFIDENCE,
            "up to this size, writes to ever other places cost no merge; larger ones do",
        ),
        Some(_) => GeometryFinding::inconclusive(
            "some sizes cost merges, and larger ones do not",
            Vec::new(),
        ),
        None => GeometryFinding::inconclusive("none of the sizes tried costs a merge", Vec::new()),
    })
}
