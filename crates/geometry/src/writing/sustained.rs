//! The fast area that is written first: how much is written in order before it gets slower.
//!
//! Many devices write to cells with one bit first (pSLC), and copy that (fold) when the area is
//! full: from then on writing in order takes longer. The change is looked for in the times of large
//! requests, each against the median before and after it. Limits: told to one request; an area that
//! was full already does not show, nor one that is emptied as fast as it is written.

use super::meter::LARGEST_REQUEST;
use crate::belief::median;
use crate::findings::{GeometryFinding, QuantityValue};

/// How much slower it gets at least.
const SLOWER: f64 = 1.35;
/// Requests on either side.
const LEAST: usize = 3;
/// The share of times that must lie on their side of the border.
const ON_THEIR_SIDE: f64 = 0.9;
const CONFIDENCE: f64 = 0.96;

/// What the times of the first requests say; with the bytes of each.
pub fn finding(times: &[(u64, f64)]) -> GeometryFinding {
    let none = || GeometryFinding::inconclusive("writing in order did not get slower", Vec::new());
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
        "writing in order got {:.1} times slower there, told to {} MiB",
        after / before,
        LARGEST_REQUEST >> 20
    );
    GeometryFinding::found(QuantityValue::Bytes(bytes), CONFIDENCE, reason)
}

/// How far the logarithms lie from the medians of their sides.
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
    fn the_change_is_where_it_gets_slower() {
        let time =
            |at: u64| (1 << 20, if at < 12 { 1e7 } else { 4e7 } + (at * 37 % 10) as f64 * 1e5);
        let times: Vec<(u64, f64)> = (0..80).map(time).collect();
        assert_eq!(finding(&times).value, Some(QuantityValue::Bytes(12 << 20)));
        assert_eq!(finding(&times[20..]).value, None);
        assert_eq!(finding(&times[..2]).value, None);
    }
}
