//! Finds the fast area that is written first: the amount of sequential writing before it slows
//! down.
//!
//! Many devices first write to single-bit cells (pSLC), and copy that data (fold it) when the area
//! is full; from then on sequential writing is slower. The change is located in the times of large
//! requests by the medians before and after it. Limits: the resolution is one request; an area that
//! is already full, or is emptied as fast as it is written, is not visible.

use super::meter::LARGEST_REQUEST;
use crate::belief::median;
use crate::findings::{GeometryFinding, QuantityValue};

const SLOWER: f64 = 1.35;
/// Requests on either side.
const LEAST: usize = 3;
/// The share of times that must be on the correct side of the border.
const ON_THEIR_SIDE: f64 = 0.9;
const CONFIDENCE: f64 = 0.96;

/// The finding from the sizes and times of the first requests.
pub fn finding(times: &[(u64, f64)]) -> GeometryFinding {
    let none = || GeometryFinding::inconclusive("sequential writing did not slow down", Vec::new());
    let rates: Vec<f64> = times.iter().map(|(bytes, ns)| ns / *bytes as f64).collect();
    let Some(last) = rates.len().checked_sub(LEAST) else { return none() };
    let split = (LEAST..last)
        .min_by(|&one, &other| misplaced(&rates, one).total_cmp(&misplaced(&rates, other)));
    let Some(split) = split else { return none() };
    let (before, after) = (median(&rates[..split]), median(&rates[split..]));
    let border = (before * after).sqrt();
    let right = rates[..split].iter().filter(|rate| **rate < border).count()
        + rates[split..].iter().filter(|rate| **rate >= border).count();
    let share = right as f64 / rates.len() as f64;
    if after < SLOWER * before || share < ON_THEIR_SIDE {
        return none();
    }
    let bytes: u64 = times[..split].iter().map(|(bytes, _)| bytes).sum();
    let reason = format!(
        "sequential writing became {:.1} times slower there (resolution {} MiB)",
        after / before,
        LARGEST_REQUEST >> 20
    );
    GeometryFinding::found(QuantityValue::Bytes(bytes), CONFIDENCE, reason)
}

/// Sum of the deviations of the logarithms from the medians of their sides.
fn misplaced(rates: &[f64], split: usize) -> f64 {
    let side = |rates: &[f64]| {
        let middle = median(rates).ln();
        rates.iter().map(|rate| (rate.ln() - middle).abs().min(1.0)).sum::<f64>()
    };
    side(&rates[..split]) + side(&rates[split..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_area_ends_where_writing_slows_down() {
        let time =
            |at: u64| (1 << 20, if at < 12 { 1e7 } else { 4e7 } + (at * 37 % 10) as f64 * 1e5);
        let times: Vec<(u64, f64)> = (0..80).map(time).collect();
        assert_eq!(finding(&times).value, Some(QuantityValue::Bytes(12 << 20)));
        assert_eq!(finding(&times[20..]).value, None);
        assert_eq!(finding(&times[..2]).value, None);
    }
}
