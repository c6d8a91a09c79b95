//! Checks whether small writes go to a separate log.
//!
//! Some merging layers send writes up to a size to a page-mapped log. Scattered writes up to that
//! size then cause no merge, and larger ones do. All sizes are tried in rounds, in random order and
//! each at different places. Limits: sizes of 2^k up to 64 KiB; garbage collection of the log,
//! which is rare, is not measured. Source: cards in flashbench surveys that write 4 KiB, but not
//! 16 KiB, at the same rate to any number of erase blocks.

use super::boundaries::SensedMerging;
use super::meter::{MeasurementStop, Meter};
use crate::belief::median;
use crate::findings::{GeometryFinding, QuantityValue};
use crate::probed::{PlotPoint, PlotSeries, SamplePurpose};

const SIZES: [u64; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// Writes of each size.
const WRITES: u64 = 15;
/// A write without a merge takes less than this share of a merge beyond its sequential time.
const NO_MERGE: f64 = 0.35;
/// The most writes of a size that goes to the log that may merge nevertheless, and the fewest of
/// larger ones that must. Those to erase blocks that happen to be open cause no merge either.
const FEW: usize = 2;
const MOST: usize = 10;
/// Probability that the times are not exceptions.
const CONFIDENCE: f64 = 0.97;

pub fn measure(
    meter: &mut Meter<'_>,
    merging: &SensedMerging,
) -> Result<GeometryFinding, MeasurementStop> {
    let window = &merging.window;
    let mut times = vec![Vec::new(); SIZES.len()];
    let room = (window.end - window.start - SIZES[SIZES.len() - 1]) / WRITES;
    let mut order: Vec<usize> = (0..SIZES.len()).collect();
    for round in 0..WRITES {
        // A small write fits into a buffer that the one before it has just emptied.
        meter.random.shuffle(&mut order);
        for &at in &order {
            let size = SIZES[at];
            // Not where the previous write ended, which it would continue.
            let place = meter.random.below(room / size) * size;
            let spread = (round * 7 + at as u64 * 3) % WRITES * room;
            let offset = (window.start + spread + place) / size * size;
            let offset = offset.max(window.start.next_multiple_of(size));
            times[at].push(meter.write(SamplePurpose::WriteRandom, offset, size)?);
        }
    }
    let points = SIZES.iter().zip(&times).map(|(size, times)| {
        let mut sorted = times.clone();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (sorted[sorted.len() / 10], sorted[sorted.len() * 9 / 10]);
        PlotPoint { x: *size as f64, y: median(times), low, high }
    });
    meter.probed.evidence.series.push(PlotSeries {
        name: "scattered small writes".to_owned(),
        x_unit: "bytes".to_owned(),
        y_unit: "ns".to_owned(),
        points: points.collect(),
    });
    let merged = SIZES.iter().zip(&times).map(|(size, times)| {
        let in_order_ns = merging.ns_per_byte * *size as f64;
        let merges = |time: &&f64| **time - in_order_ns >= NO_MERGE * merging.merge_ns;
        times.iter().filter(merges).count()
    });
    Ok(finding(&merged.collect::<Vec<_>>()))
}

/// The conclusion from the number of writes of each size that caused a merge.
fn finding(merged: &[usize]) -> GeometryFinding {
    let first = merged.iter().position(|merged| *merged > FEW);
    let do_merge = |sizes: &[usize]| sizes.iter().all(|merged| *merged >= MOST);
    match first {
        Some(first) if !do_merge(&merged[first..]) => GeometryFinding::inconclusive(
            "some writes of a size cause merges and some do not, as with writes to erase blocks \
             that happen to be open",
            Vec::new(),
        ),
        Some(0) => GeometryFinding::inconclusive(
            "scattered small writes cause merges like large ones: there is no log for small writes",
            Vec::new(),
        ),
        Some(first) => GeometryFinding::found(
            QuantityValue::Bytes(SIZES[first - 1]),
            CONFIDENCE,
            "scattered writes up to this size cause no merges; larger ones do",
        ),
        None => GeometryFinding::inconclusive("none of the tested sizes causes merges", Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_takes_nearly_all_writes_up_to_its_size_and_hardly_any_larger_ones() {
        let found = |merged: [usize; 5]| finding(&merged).value;
        assert_eq!(found([0, 1, 14, 15, 12]), Some(QuantityValue::Bytes(8 << 10)));
        assert_eq!(found([15, 14, 15, 15, 15]), None);
        assert_eq!(found([0; 5]), None);
        // In a window of few erase blocks, many writes of any size go to open ones.
        assert_eq!(found([6, 2, 9, 11, 10]), None);
        assert_eq!(found([2, 1, 7, 11, 10]), None);
        assert_eq!(found([0, 0, 15, 0, 15]), None);
    }
}
