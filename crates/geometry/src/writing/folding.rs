//! Folding: units with one bit a cell, to which writes go first, and how many bits the others have.
//!
//! What was written in order is still needed when a unit with one bit a cell is full, so it is
//! copied to cells of several bits within the write that needs room ([`shows`]). How many bits
//! those have shows once the device is full: then room for what is folded must be made as well, by
//! copying what is still needed of another unit. Where every other stretch of old data was
//! overwritten that is a share `v` of it, so that of `b` bits a unit yields room for `b (1 - v)`
//! folded ones and takes as long as `b v` of them: how often it is done and how long it takes
//! together tell both ([`bits`]). Where nothing is left to copy, one fold in `b` takes as long as
//! an erasure more, because so many fill a unit (`super::erased`). Limits: data is folded in the
//! order of writing; where no such pattern shows nothing is told.
//! Source: SanDisk's descriptions of nCache; Rabiner, "A tutorial on hidden Markov models" (1989),
//! for the forward recursion.

use std::ops::Range;

use super::erased;
use super::meter::{LARGEST_REQUEST, MeasurementStop, Meter};
use crate::belief::{log_sum_exp, median};
use crate::probed::SamplePurpose;

/// Folding is seen over so many units; before that so many must pass for every unit with one bit a
/// cell to hold what was written in order.
const SEEN: usize = 8;
const PASSED: usize = 18;
/// How much longer than erasing alone folding takes at least, where it does surely; and how much
/// longer it may be where there surely is none.
const FOLDING: f64 = 4.0;
const NO_FOLDING: f64 = 1.7;
/// An erasure takes so long at least; what is shorter is none, and folding is tied with it.
const LEAST_ERASURE_NS: f64 = 5e5;
/// What copying a write unit takes at least, of what writing one takes.
const LEAST_COPY: f64 = 0.03;
/// The most writes in which folding is looked for.
const MOST_WRITES: usize = 1 << 17;
/// A unit with one bit a cell is filled with so many writes at least.
const LEAST_REQUESTS: u64 = 4;
/// Folds that show how long one takes without making room.
const PLAIN: usize = 12;
/// Folds among which the pattern is looked for, and after how many more it is looked for again.
const LOOKED_AT: usize = 36;
const AGAIN: usize = 12;
/// How much likelier one number of bits must be than any other and than no pattern.
const CLEAR: f64 = 8.0;
/// Making room must add so much, in folds, before a pattern is looked for.
const LEAST_MORE: f64 = 0.2;
/// The shares of a unit that may still be needed.
const NEEDED: [f64; 9] = [0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6];
/// What making room takes may differ so much from what is expected: factors.
const FACTORS: [f64; 3] = [0.85, 1.0, 1.18];
/// Supposed spreads, in folds.
const SPREADS: [f64; 3] = [0.06, 0.15, 0.35];
/// Steps of the room that is left, in one unit.
const STEPS: usize = 24;
/// Room is made in at least so many folds, or it is taken for something else; and what else may
/// make folds longer, each by as much.
const LEAST_ROOM: f64 = 0.7;
const OTHERWISE: [f64; 8] = [0.0, 0.15, 0.3, 0.45, 0.6, 1.6, 2.2, 3.0];
/// What goes to a log for small writes and is copied later takes so many times what large writes
/// take; what is folded takes as long as they do.
const LOG: f64 = 1.7;
/// How often the pattern slips, and how often a time has another cause; over how many folds those
/// lie.
const SLIPS: f64 = 0.04;
const ASTRAY: f64 = 0.1;
const BREADTH: f64 = 8.0;

/// Units with one bit a cell, as far as they are known.
#[derive(Debug, Clone, Copy)]
pub struct SingleBitUnits {
    /// How many write units one holds.
    pub held: usize,
    /// The size of a write unit, in bytes.
    pub write_unit: u64,
}

/// Whether what stalls takes much longer where data that is still needed was written: first writes
/// the places from `area` on, whose old data is dead, then the window in order. `None` where it
/// cannot be told.
pub fn shows(
    meter: &mut Meter<'_>,
    units: SingleBitUnits,
    places: &[u64],
    window: &Range<u64>,
) -> Result<Option<bool>, MeasurementStop> {
    let SingleBitUnits { held, write_unit } = units;
    let most = (SEEN + PASSED) * held;
    if most > MOST_WRITES {
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
    let copying_ns = LEAST_COPY * held as f64 * median(&each);
    let dead_ns = dead_ns.filter(|dead_ns| *dead_ns > LEAST_ERASURE_NS);
    let Some((dead_ns, in_order_ns)) = dead_ns.zip(in_order_ns) else { return Ok(None) };
    let longer = in_order_ns / dead_ns;
    Ok(match in_order_ns > copying_ns {
        true if longer > FOLDING => Some(true),
        true if longer > NO_FOLDING => None,
        _ => Some(false),
    })
}

/// How much longer than the others the slowest write of a unit takes, over the last units. Of each
/// place a time that most exceed counts, so that rare stalls elsewhere do not.
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

/// The log-likelihood of each number of bits from 2 to 4 of the cells that are folded to, once room
/// must be made for what is folded; `None` where no pattern shows. Where it is not known whether
/// anything `is_folded`, what is copied tells nothing, and erasures alone count. Writes all over
/// the region.
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
    let Some(requests) = (LEAST_REQUESTS..=held).find(fits) else { return Ok(None) };
    let bytes = held / requests * units.write_unit;
    // In the order in which it was written: what is collected first is overwritten first.
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
            let told = logs.map(|logs| (2..5).max_by(|a, b| logs[a - 2].total_cmp(&logs[b - 2])));
            if let Some(logs) = logs.filter(|_| told == told_before) {
                return Ok(Some(logs));
            }
            told_before = told;
        }
    }
}

/// Whether rows of writes take far longer than as many bytes in large requests, which would be
/// folded as well. Where room is made from the beginning it looks the same.
fn is_a_log(rows: &[Vec<f64>], filled: &[(u64, f64)], row_bytes: u64) -> bool {
    // Large units are folded in some of the requests only.
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

/// How long each fold took. They fall on the same request of each row, unless rare stalls are taken
/// for them.
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

/// What the last of the folds say, where that is clear.
fn of_bits(folds: &[f64]) -> Option<[f64; 3]> {
    let plain_ns = median(&folds[..PLAIN]);
    let last = &folds[folds.len() - LOOKED_AT..];
    let more: Vec<f64> = last.iter().map(|ns| ns / plain_ns - 1.0).collect();
    if more.iter().sum::<f64>() < LEAST_MORE * LOOKED_AT as f64 {
        return None;
    }
    let none = OTHERWISE.map(|longer| log_likelihood(&more, &[(1.0, longer)]));
    let none = none.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let logs = [2.0, 3.0, 4.0].map(|bits| {
        let patterns = NEEDED.map(|needed| (1.0 / (bits * (1.0 - needed)), bits * needed));
        let clear: Vec<(f64, f64)> =
            patterns.into_iter().filter(|(_, longer)| *longer >= LEAST_ROOM).collect();
        log_likelihood(&more, &clear)
    });
    let mut sorted = [none, logs[0], logs[1], logs[2]];
    sorted.sort_by(f64::total_cmp);
    (sorted[3] - sorted[2] > CLEAR && sorted[3] - none > CLEAR).then_some(logs)
}

/// How likely times are under patterns: how often room is made for a fold, and how many folds long
/// that is; over all of them alike.
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

/// As [`log_likelihood`], over all that may be left of the room at the beginning.
fn forward(more: &[f64], (often, longer): (f64, f64), spread: f64) -> f64 {
    let mut shares = [1.0 / STEPS as f64; STEPS];
    let step = often * STEPS as f64;
    let mut log = 0.0;
    for more in more {
        // With none, one and two units made room of in the time of a fold.
        let likely = [0.0, 1.0, 2.0].map(|units| {
            let wide = spread * (1.0 + units * longer);
            let deviation = (more - units * longer) / wide;
            let peak = (-0.5 * deviation * deviation).exp() / (wide * std::f64::consts::TAU.sqrt());
            (1.0 - ASTRAY) * peak + ASTRAY / BREADTH
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

    /// Folds of 100 ms, from the thirtieth on with what making room adds to units of so many bits
    /// of which a share is still needed.
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
    fn the_pattern_tells_the_bits_and_without_one_nothing_is_told() {
        for (bits, needed) in [(2, 0.5), (3, 0.5), (4, 0.5), (4, 0.25), (2, 0.4), (3, 0.4)] {
            let logs = of_bits(&folds(f64::from(bits), needed, 84)).expect("it is clear");
            let best = (2..5).max_by(|&one, &other| logs[one - 2].total_cmp(&logs[other - 2]));
            assert_eq!(best, Some(bits as usize), "{needed} {logs:?}");
        }
        assert_eq!(of_bits(&folds(0.0, 0.0, 84)), None);
    }

    #[test]
    fn a_stall_is_what_a_place_of_the_unit_takes_and_not_what_is_rare() {
        let time = |at: usize| {
            let stalled: f32 = if at % 12 == 5 { 9.0 } else { 1.0 };
            if at % 37 == 3 { 91.0 } else { stalled }
        };
        let times: Vec<f32> = (0..12 * 20).map(time).collect();
        assert_eq!(stall(&times, 12), Some(8.0));
        assert_eq!(stall(&times[..50], 12), None);
    }
}
