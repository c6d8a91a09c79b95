//! Infers the write unit from the growth of write times with the size.
//!
//! Writes of many sizes follow each other without gaps. A write takes a constant time, a time per
//! byte, and a time per program operation. The number of operations depends on the write unit, and
//! on whether writes are appended anywhere (a new write unit for each request) or stored in place
//! (every touched write unit is programmed). All sizes are fitted; the one with the smallest
//! residual is the answer. Limits: if writes are appended, several dies in parallel look like
//! larger write units; the page of a single plane is not visible. Sources: flashbench's README
//! (steps of `--align` at small sizes) for the effect; Bloomfield and Steiger (1983) for least
//! absolute deviations.

use std::ops::Range;

use super::meter::{MeasurementStop, Meter};
use crate::belief::log_sum_exp;
use crate::findings::{CandidateValue, GeometryFinding, QuantityValue, SURE};
use crate::probed::SamplePurpose;

const GRAIN: u64 = 4096;
const WRITES: usize = 240;
/// The longest writes, in grains: one in three of them, and the others.
const LONG: u64 = 96;
const SHORT: u64 = 20;
/// The longest writes must have so many steps: a merge of part of an erase block is no step.
const STEPS: u64 = 3;
/// Exponents of the sizes considered.
const EXPONENTS: Range<u32> = 12..21;
/// The share of times excluded from a fit's residual: rare stalls.
const OUTLIER: f64 = 0.1;
/// Tempering of the likelihood: consecutive times are correlated, and the noise model is
/// approximate.
const TEMPER: f64 = 0.5;

/// How much better than no steps a size must explain the times.
const CLEAR: f64 = 20.0;

#[derive(Debug, Clone, Copy)]
pub struct TimedWrite {
    offset: u64,
    length: u64,
    time_ns: f64,
}

impl TimedWrite {
    /// A write from the start of a write unit.
    pub(super) fn at_start(length: u64, time_ns: f64) -> Self {
        Self { offset: 0, length, time_ns }
    }
}

/// A model of program operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Each request starts a new write unit.
    Appended,
    /// Every touched write unit is programmed, with this parallelism.
    InPlace(u64),
}

#[derive(Debug, Clone)]
pub struct InferredWriteUnit {
    /// Sizes with probabilities, most likely first.
    pub sizes: Vec<(u64, f64)>,
    /// How much better the most likely size explains the times than no steps, as a logarithm.
    gain: f64,
}

/// Writes ranges from their starts in many sizes.
pub fn measure(
    meter: &mut Meter<'_>,
    ranges: impl IntoIterator<Item = Range<u64>>,
) -> Result<Vec<TimedWrite>, MeasurementStop> {
    let mut timed = Vec::new();
    for range in ranges {
        let mut offset = range.start.next_multiple_of(GRAIN);
        // The first write of a range opens its unit, and waits for another one to be closed.
        let mut first = true;
        while timed.len() < WRITES {
            let most = if meter.random.below(3) == 0 { LONG } else { SHORT };
            let length = GRAIN * (1 + meter.random.below(most));
            if offset + length > range.end {
                break;
            }
            let time_ns = meter.write(SamplePurpose::WriteLinear, offset, length)?;
            if !first {
                timed.push(TimedWrite { offset, length, time_ns });
            }
            first = false;
            offset += length;
        }
    }
    Ok(timed)
}

/// Fits every size up to `most`; `None` if there are too few times.
pub fn infer(timed: &[TimedWrite], most: u64) -> Option<InferredWriteUnit> {
    if timed.len() < WRITES / 4 {
        return None;
    }
    let sizes = EXPONENTS.flat_map(|exponent| [1 << exponent, 3 << (exponent - 1)]);
    let ways = [Way::Appended, Way::InPlace(1), Way::InPlace(2), Way::InPlace(4), Way::InPlace(8)];
    let mut scores: Vec<(u64, Way, f64)> = Vec::new();
    for size in sizes.filter(|size| size % GRAIN == 0 && *size <= most) {
        for way in ways {
            if let Some(log) = fit(timed, size, way) {
                scores.push((size, way, log));
            }
        }
    }
    let nothing = fit_without(timed);
    let total = log_sum_exp(scores.iter().map(|score| score.2).chain([nothing]));
    let best = scores.iter().max_by(|one, other| one.2.total_cmp(&other.2))?;
    let mut sizes: Vec<(u64, f64)> = Vec::new();
    for &(size, _, log) in &scores {
        let probability = (log - total).exp();
        match sizes.iter_mut().find(|(other, _)| *other == size) {
            Some((_, sum)) => *sum += probability,
            None => sizes.push((size, probability)),
        }
    }
    sizes.sort_by(|one, other| other.1.total_cmp(&one.1));
    Some(InferredWriteUnit { sizes, gain: best.2 - nothing })
}

/// The number of consecutive program operations of a write.
fn programs(timed: &TimedWrite, size: u64, way: Way) -> f64 {
    match way {
        Way::Appended => timed.length.div_ceil(size) as f64,
        Way::InPlace(dies) => {
            let last = (timed.offset + timed.length - 1) / size;
            (last - timed.offset / size + 1).div_ceil(dies) as f64
        }
    }
}

/// The log-likelihood of a size; `None` if operations would take negative time.
pub(super) fn fit(timed: &[TimedWrite], size: u64, way: Way) -> Option<f64> {
    let rows: Vec<[f64; 3]> = timed
        .iter()
        .map(|timed| [1.0, timed.length as f64 / GRAIN as f64, programs(timed, size, way)])
        .collect();
    let (log, coefficients) = least_deviations(timed, &rows)?;
    (coefficients[2] > 0.0).then_some(log)
}

/// The log-likelihood without steps.
pub(super) fn fit_without(timed: &[TimedWrite]) -> f64 {
    let rows: Vec<[f64; 2]> =
        timed.iter().map(|timed| [1.0, timed.length as f64 / GRAIN as f64]).collect();
    least_deviations(timed, &rows).map_or(f64::NEG_INFINITY, |(log, _)| log)
}

/// Fits the times by relative deviations; returns the log-likelihood and the coefficients.
fn least_deviations<const N: usize>(
    timed: &[TimedWrite],
    rows: &[[f64; N]],
) -> Option<(f64, [f64; N])> {
    let mut weights: Vec<f64> = timed.iter().map(|timed| timed.time_ns.powi(-2)).collect();
    let mut coefficients = [0.0; N];
    let mut deviations = vec![0.0; timed.len()];
    for _ in 0..25 {
        coefficients = solve(rows, timed, &weights)?;
        for ((row, timed), deviation) in rows.iter().zip(timed).zip(&mut deviations) {
            let expected: f64 = row.iter().zip(&coefficients).map(|(x, c)| x * c).sum();
            *deviation = (timed.time_ns - expected).abs() / timed.time_ns;
        }
        for ((weight, deviation), timed) in weights.iter_mut().zip(&deviations).zip(timed) {
            *weight = timed.time_ns.powi(-2) / deviation.max(1e-4);
        }
    }
    deviations.sort_by(f64::total_cmp);
    let kept = &deviations[..(timed.len() as f64 * (1.0 - OUTLIER)) as usize];
    let scale = (kept.iter().sum::<f64>() / kept.len() as f64).max(1e-3);
    Some((-TEMPER * kept.len() as f64 * scale.ln(), coefficients))
}

/// Weighted least squares by elimination; `None` if the system is singular.
fn solve<const N: usize>(
    rows: &[[f64; N]],
    timed: &[TimedWrite],
    weights: &[f64],
) -> Option<[f64; N]> {
    let mut left = [[0.0; N]; N];
    let mut right = [0.0; N];
    for ((row, timed), weight) in rows.iter().zip(timed).zip(weights) {
        for i in 0..N {
            for j in 0..N {
                left[i][j] += weight * row[i] * row[j];
            }
            right[i] += weight * row[i] * timed.time_ns;
        }
    }
    for pivot in 0..N {
        let best =
            (pivot..N).max_by(|&a, &b| left[a][pivot].abs().total_cmp(&left[b][pivot].abs()))?;
        left.swap(pivot, best);
        right.swap(pivot, best);
        let scale = left[pivot][pivot];
        if scale.abs() < 1e-18 {
            return None;
        }
        for row in 0..N {
            if row != pivot {
                let factor = left[row][pivot] / scale;
                let above = left[pivot];
                for (value, above) in left[row].iter_mut().zip(above) {
                    *value -= factor * above;
                }
                right[row] -= factor * right[pivot];
            }
        }
    }
    let mut solution = [0.0; N];
    for (at, value) in solution.iter_mut().enumerate() {
        *value = right[at] / left[at][at];
    }
    Some(solution)
}

pub fn finding(inferred: Option<&InferredWriteUnit>) -> GeometryFinding {
    let Some(inferred) = inferred else {
        return GeometryFinding::not_measured("the region or the write budget is too small");
    };
    let candidates: Vec<CandidateValue> = inferred
        .sizes
        .iter()
        .filter(|(_, probability)| *probability > 1e-3)
        .take(5)
        .map(|&(size, probability)| CandidateValue {
            value: QuantityValue::Bytes(size),
            probability,
        })
        .collect();
    let sure = |best: &CandidateValue| best.probability >= SURE && inferred.gain > CLEAR;
    let Some(best) = candidates.first().copied().filter(sure) else {
        let reason = "write times do not grow in steps of a single size";
        return GeometryFinding::inconclusive(reason, candidates);
    };
    if matches!(best.value, QuantityValue::Bytes(bytes) if bytes > LONG * GRAIN / STEPS) {
        let reason = "the longest writes have too few of the steps in which write times grow";
        return GeometryFinding::inconclusive(reason, candidates);
    }
    let reason = "write times grow in steps of this size";
    GeometryFinding { candidates, ..GeometryFinding::found(best.value, best.probability, reason) }
}
