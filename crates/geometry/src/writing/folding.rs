//! Detects folding: writes go to single-bit units first and are later copied to cells with several
//! bits. Also infers the number of bits.
//!
//! Sequentially written data is still valid when a single-bit unit is full, so it is copied to
//! multi-bit cells during the write that needs room ([`shows`]). The number of bits is visible once
//! the device is full: room for folded data must then be made by copying the valid data of another
//! unit. If every other stretch of old data was overwritten, a share `v` of it is valid. A unit of
//! `b` bits then yields room for `b (1 - v)` folded ones and takes as long as `b v` of them; the
//! frequency and the duration together determine both ([`bits`]). If nothing is left to copy, one
//! fold in `b` takes an erasure longer, because `b` folds fill a unit (`super::erased`). Limits:
//! assumes folding in the order of writing; no result without such a pattern. Source: SanDisk's
//! descriptions of nCache; Rabiner, "A tutorial on hidden Markov models" (1989), for the forward
//! recursion.

use std::ops::Range;

use super::erased;
use super::meter::{LARGEST_REQUEST, MeasurementStop, Meter};
use crate::belief::{log_sum_exp, median};
use crate::probed::SamplePurpose;

/// Units over which folding is observed, and units written before so that every single-bit unit
/// contains sequential data.
const SEEN: usize = 8;
const PASSED: usize = 18;
/// Smallest ratio of folding to erasing alone that shows folding, and largest that excludes it.
const FOLDING: f64 = 4.0;
const NO_FOLDING: f64 = 1.7;
/// The shortest erasure in nanoseconds; a shorter one cannot be distinguished from noise.
const MIN_ERASURE_NS: f64 = 5e5;
/// The shortest copy of a write unit, as a share of its write time.
const MIN_COPY: f64 = 0.03;
/// The most writes to look for folding in.
const MAX_WRITES: usize = 1 << 17;
/// The fewest writes that fill a single-bit unit.
const MIN_REQUESTS: u64 = 4;
/// Initial folds, which need no room to be made.
const PLAIN: usize = 12;
/// Number of folds evaluated first, and number added for each further evaluation.
const LOOKED_AT: usize = 36;
const AGAIN: usize = 12;
/// How much more likely one number of bits must be than any other and than no pattern, as a
/// logarithm.
const CLEAR: f64 = 8.0;
/// The smallest extra time for making room, in folds.
const MIN_MORE: f64 = 0.2;
/// Hypotheses for the valid share of a unit.
const NEEDED: [f64; 9] = [0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6];
/// Factors on the expected time for making room.
const FACTORS: [f64; 3] = [0.85, 1.0, 1.18];
/// Hypotheses for the spread, in folds.
const SPREADS: [f64; 3] = [0.06, 0.15, 0.35];
/// Quantization of the remaining room in a unit.
const STEPS: usize = 24;
/// The shortest time for making room in folds, and hypotheses for other extra times of every fold.
const MIN_ROOM: f64 = 0.7;
const OTHERWISE: [f64; 8] = [0.0, 0.15, 0.3, 0.45, 0.6, 1.6, 2.2, 3.0];
/// Ratio to large writes above which small ones went to a log and are copied later; folded ones
/// take as long as large ones.
const LOG: f64 = 1.7;
/// Probability that the pattern shifts, that a time has another cause, and the range of such times
/// in folds.
const SLIPS: f64 = 0.04;
const OUTLIER: f64 = 0.1;
const BREADTH: f64 = 8.0;

#[derive(Debug, Clone, Copy)]
pub struct SingleBitUnits {
    /// Write units per single-bit unit.
    pub held: usize,
    /// The size of a write unit, in bytes.
    pub write_unit: u64,
}

/// Whether stalls are much longer while data is still valid: first writes the places from `area`
/// on, whose old data is obsolete, then the window sequentially. `None` if the result is unclear.
pub fn shows(
    meter: &mut Meter<'_>,
    units: SingleBitUnits,
    places: &[u64],
    window: &Range<u64>,
) -> Result<Option<bool>, MeasurementStop> {
    let SingleBitUnits { held, write_unit } = units;
    let most = (SEEN + PASSED) * held;
    if most > MAX_WRITES {
        return Ok(None);
    }
    let mut times = Vec::new();
    for at in places.iter().cycle().take(SEEN * held) {
        times.push(meter.write(SamplePurpose::WriteLinear, *at, write_unit)? as f32);
    }
    let dead_ns = stall(&times, held);
    let first = window.start.next_multiple_of(write_unit);
    let room = (window.end - first) / write_unit;
    let mut times = Vec::new();
    for number in 0..most as u64 {
        let at = first + number % room * write_unit;
        times.push(meter.write(SamplePurpose::WriteLinear, at, write_unit)? as f32);
    }
    let in_order_ns = stall(&times, held);
    let each: Vec<f64> = times.iter().map(|time| f64::from(*time)).collect();
    let copying_ns = MIN_COPY * held as f64 * median(&each);
    let dead_ns = dead_ns.filter(|dead_ns| *dead_ns > MIN_ERASURE_NS);
    let Some((dead_ns, in_order_ns)) = dead_ns.zip(in_order_ns) else { return Ok(None) };
    let longer = in_order_ns / dead_ns;
    Ok(match in_order_ns > copying_ns {
        true if longer > FOLDING => Some(true),
        true if longer > NO_FOLDING => None,
        _ => Some(false),
    })
}

/// The extra time of the slowest write of a unit, over the latest units. Uses a low quantile for
/// each position, which ignores rare stalls.
pub fn stall(times: &[f32], held: usize) -> Option<f64> {
    let last = times.get(times.len().checked_sub(SEEN * held)?..)?;
    let places = (0..held).map(|place| {
        let of_place = last.iter().skip(place).step_by(held);
        let mut of_place: Vec<f64> = of_place.map(|time| f64::from(*time)).collect();
        of_place.sort_by(f64::total_cmp);
        of_place[SEEN / 4]
    });
    let all: Vec<f64> = last.iter().map(|time| f64::from(*time)).collect();
    Some((places.fold(0.0, f64::max) - median(&all)).max(1.0))
}

/// The log-likelihood of 2, 3 and 4 bits per cell that data is folded into, once room must be made;
/// `None` without a pattern. If `is_folded` is unknown, copying is ignored and only erasures count.
/// Writes all over the region.
pub fn bits(
    meter: &mut Meter<'_>,
    units: SingleBitUnits,
    window: &Range<u64>,
    is_folded: bool,
) -> Result<Option<[f64; 3]>, MeasurementStop> {
    let region = meter.region();
    let mut filled = meter.fill(region.start..window.start)?;
    filled.extend(meter.fill(window.end..region.end / LARGEST_REQUEST * LARGEST_REQUEST)?);
    let held = units.held as u64;
    let fits = |requests: &u64| {
        held % requests == 0 && held / requests * units.write_unit <= LARGEST_REQUEST
    };
    let Some(requests) = (MIN_REQUESTS..=held).find(fits) else { return Ok(None) };
    let bytes = held / requests * units.write_unit;
    // In the order of writing: data that is collected first is overwritten first.
    let mut at = [window.clone(), region.start..window.start, window.end..region.end]
        .into_iter()
        .flat_map(|range| {
            let first = range.start.next_multiple_of(bytes);
            (first..range.end.saturating_sub(bytes)).step_by(2 * bytes as usize)
        });
    let mut rows: Vec<Vec<f64>> = Vec::new();
    let mut told_before = None;
    loop {
        let mut times = Vec::new();
        for at in at.by_ref().take(usize::try_from(requests).expect("they are few")) {
            times.push(meter.write(SamplePurpose::WriteLinear, at, bytes)?);
        }
        if (times.len() as u64) < requests {
            return Ok(None);
        }
        rows.push(times);
        if rows.len() == PLAIN && is_a_log(&rows, &filled, bytes * requests) {
            return Ok(None);
        }
        if rows.len() >= PLAIN + LOOKED_AT && rows.len() % AGAIN == 0 {
            let folds = folds(&rows);
            let of_copying = is_folded.then(|| of_bits(&folds)).flatten();
            let logs = of_copying.or_else(|| erased::of_bits(&folds));
            let result = logs.map(|logs| (2..5).max_by(|a, b| logs[a - 2].total_cmp(&logs[b - 2])));
            if let Some(logs) = logs.filter(|_| result == told_before) {
                return Ok(Some(logs));
            }
            told_before = result;
        }
    }
}

/// Whether rows of writes take far longer than the same amount in large requests, which would be
/// folded as well. If room is made from the beginning, both look the same.
fn is_a_log(rows: &[Vec<f64>], filled: &[(u64, f64)], row_bytes: u64) -> bool {
    // Large units are folded in only some of the requests.
    let together = usize::try_from(row_bytes.div_ceil(LARGEST_REQUEST)).unwrap_or(1);
    let rates = filled.chunks_exact(together).map(|some| {
        let (bytes, time_ns) =
            some.iter().fold((0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        time_ns / bytes as f64
    });
    let rate = median(&rates.collect::<Vec<_>>());
    let of_rows = median(&rows.iter().map(|times| times.iter().sum()).collect::<Vec<f64>>());
    of_rows > LOG * rate * row_bytes as f64
}

/// The duration of each fold. Folds occur at the same request of each row, which excludes rare
/// stalls.
fn folds(rows: &[Vec<f64>]) -> Vec<f64> {
    let of_place = |place: usize| {
        let times: Vec<f64> = rows[..PLAIN].iter().map(|times| times[place]).collect();
        median(&times)
    };
    let places = 0..rows[0].len();
    let place = places.max_by(|&one, &other| of_place(one).total_cmp(&of_place(other)));
    let place = place.expect("a row has several requests");
    let others = |times: &Vec<f64>| median(times);
    let usual_ns = median(&rows.iter().map(others).collect::<Vec<_>>());
    rows.iter().map(|times| (times[place] - usual_ns).max(0.0)).collect()
}

/// The evidence of the latest folds, if it is clear.
fn of_bits(folds: &[f64]) -> Option<[f64; 3]> {
    let plain_ns = median(&folds[..PLAIN]);
    let last = &folds[folds.len() - LOOKED_AT..];
    let more: Vec<f64> = last.iter().map(|ns| ns / plain_ns - 1.0).collect();
    if more.iter().sum::<f64>() < MIN_MORE * LOOKED_AT as f64 {
        return None;
    }
    let none = OTHERWISE.map(|longer| log_likelihood(&more, &[(1.0, longer)]));
    let none = none.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let logs = [2.0, 3.0, 4.0].map(|bits| {
        let patterns = NEEDED.map(|needed| (1.0 / (bits * (1.0 - needed)), bits * needed));
        let clear: Vec<(f64, f64)> =
            patterns.into_iter().filter(|(_, longer)| *longer >= MIN_ROOM).collect();
        log_likelihood(&more, &clear)
    });
    let mut sorted = [none, logs[0], logs[1], logs[2]];
    sorted.sort_by(f64::total_cmp);
    (sorted[3] - sorted[2] > CLEAR && sorted[3] - none > CLEAR).then_some(logs)
}

/// The log-likelihood of times under patterns (how often room is made, and for how many folds),
/// averaged over all of them.
fn log_likelihood(more: &[f64], patterns: &[(f64, f64)]) -> f64 {
    let each = patterns.iter().flat_map(|pattern| {
        let of_factor = move |factor: &f64| {
            let longer = factor * pattern.1;
            SPREADS.map(|spread| forward(more, (pattern.0, longer), spread))
        };
        FACTORS.iter().flat_map(of_factor)
    });
    let each: Vec<f64> = each.collect();
    log_sum_exp(each.iter().copied()) - (each.len() as f64).ln()
}

/// Like [`log_likelihood`], averaged over the room that may be left at the start.
fn forward(more: &[f64], (often, longer): (f64, f64), spread: f64) -> f64 {
    let mut shares = [1.0 / STEPS as f64; STEPS];
    let step = often * STEPS as f64;
    let mut log = 0.0;
    for more in more {
        // Room made in none, one or two units during a fold.
        let likely = [0.0, 1.0, 2.0].map(|units| {
            let wide = spread * (1.0 + units * longer);
            let deviation = (more - units * longer) / wide;
            let peak = (-0.5 * deviation * deviation).exp() / (wide * std::f64::consts::TAU.sqrt());
            (1.0 - OUTLIER) * peak + OUTLIER / BREADTH
        });
        let mut next = [0.0; STEPS];
        for (at, share) in shares.iter().enumerate() {
            let below = step.floor() as usize;
            let above = step - step.floor();
            for (to, part) in [(at + below, 1.0 - above), (at + below + 1, above)] {
                next[to % STEPS] += share * part * likely[(to / STEPS).min(2)];
            }
        }
        let total: f64 = next.iter().sum();
        log += total.ln();
        for (share, next) in shares.iter_mut().zip(next) {
            *share = (1.0 - SLIPS) * next / total + SLIPS / STEPS as f64;
        }
    }
    log
}

#[cfg(test)]
mod tests {
    use flashfit_device::random::Random;

    use super::*;

    /// Folds of 100 ms; from the thirtieth on with the extra time of making room in units with this
    /// many bits and this valid share.
    fn folds(bits: f64, needed: f64, count: usize) -> Vec<f64> {
        let mut random = Random::new(5);
        let mut room = 30.0;
        (0..count)
            .map(|_| {
                let mut time = 100.0;
                room -= 1.0;
                while room < 0.0 && bits > 0.0 {
                    room += bits * (1.0 - needed);
                    time += 100.0 * bits * needed;
                }
                let jitter = random.below(200) as f64 / 1000.0;
                let rare = if random.below(12) == 0 { 90.0 } else { 0.0 };
                (time * (1.0 + jitter) + rare) * 1e6
            })
            .collect()
    }

    #[test]
    fn the_pattern_gives_the_bits_and_without_one_there_is_no_result() {
        for (bits, needed) in [(2, 0.5), (3, 0.5), (4, 0.5), (4, 0.25), (2, 0.4), (3, 0.4)] {
            let logs = of_bits(&folds(f64::from(bits), needed, 84)).expect("it is clear");
            let best = (2..5).max_by(|&one, &other| logs[one - 2].total_cmp(&logs[other - 2]));
            assert_eq!(best, Some(bits as usize), "{needed} {logs:?}");
        }
        assert_eq!(of_bits(&folds(0.0, 0.0, 84)), None);
    }

    #[test]
    fn a_stall_belongs_to_a_position_of_the_unit_and_is_not_rare() {
        let time = |at: usize| {
            let stalled: f32 = if at % 12 == 5 { 9.0 } else { 1.0 };
            if at % 37 == 3 { 91.0 } else { stalled }
        };
        let times: Vec<f32> = (0..12 * 20).map(time).collect();
        assert_eq!(stall(&times, 12), Some(8.0));
        assert_eq!(stall(&times[..50], 12), None);
    }
}
