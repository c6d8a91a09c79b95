//! One trial of the size of a fast area: obsolete data, then data that stays valid, until requests
//! become slow.
//!
//! The period of folding gives the size ([`fold_period`]). Where it is too short for that, what was
//! folded since requests became slow ([`onset`]) counts: it is what was written without what the
//! area holds, and the time beyond that of fast requests is proportional to it. Limits: trials are
//! repeated until most of them agree, because other work of the device looks like folding.

use std::ops::Range;

use super::fast_area::{PLACES, STRIDE, mean};
use super::fold_period;
use super::meter::{MeasurementStop, Meter};
use super::onset::onset;
use crate::belief::median;
use crate::probed::SamplePurpose;

/// The shortest slow request, relative to a typical one.
const SLOW: f32 = 1.2;
/// The smallest ratio of mean times.
pub const SLOWER: f64 = 1.15;
/// And with a period, which is evidence itself.
pub const SLOWER_PERIODICALLY: f64 = 1.03;
/// The most requests of a trial.
const REQUESTS: u64 = 1280;
/// The most further obsolete requests, as a divisor.
const PASSED: u64 = 8;
/// Evidence of slow requests, and of a period, as logarithms.
const HINTED: f64 = 3.0;
const CLEAR_PERIOD: f64 = 20.0;
/// The fewest blocks: one is written while another is folded.
const LEAST_BLOCKS: usize = 2;
/// The fewest requests before the slow ones for a resolution of a tenth.
const LEAST_BEFORE: usize = 8;
/// The largest share of a trial before the slow requests, without and with a period.
const MOST_BEFORE: f64 = 0.6;
const MOST_BEFORE_PERIODS: f64 = 0.72;
/// Folds of a trial, if their period is known.
const LATER_FOLDS: f64 = 9.0;
/// Trials of a size, the fewest that agree, and the most without a result.
const MOST_TRIALS: usize = 5;
const SUCCESSFUL: usize = 3;
/// The fewest that suffice if all of them have the same period and number of blocks, and the
/// largest ratio of these periods.
const SUCCESSFUL_PERIODS: usize = 2;
const SAME_PERIOD: f64 = 1.01;
const MOST_FAILED: usize = 1;
/// Largest ratio of results that agree.
const ALIKE: f64 = 1.05;
/// Slow requests of a trial that are evaluated: later ones add the errors of all before.
const EVALUATED: usize = 6;

/// Where writing slowed down in a trial.
#[derive(Debug, Clone, Copy)]
pub struct FoldingOnset {
    /// Valid requests that the area holds.
    pub requests: f64,
    pub request_bytes: u64,
    /// Mean time after it, relative to before.
    pub ratio: f64,
    /// The number of blocks, if requests are slow periodically.
    pub blocks: Option<usize>,
}

impl FoldingOnset {
    /// Requests that a block holds.
    pub fn period(&self) -> Option<f64> {
        self.blocks.map(|blocks| self.requests / blocks as f64)
    }

    /// The bytes of a block if each request takes so much room.
    pub fn block_bytes(&self, room: f64) -> Option<f64> {
        self.blocks.map(|blocks| self.requests * room / blocks as f64)
    }
}

fn typical(times: &[f32]) -> f32 {
    median(&times.iter().map(|time| f64::from(*time)).collect::<Vec<_>>()) as f32
}

/// Other places may take longer for other reasons.
fn relative(times: &[f32], typical: f32) -> Vec<f32> {
    times.iter().map(|time| time / typical).collect()
}

/// The slowdown in times of requests with obsolete and then valid data.
fn slowdown(obsolete: &[f32], valid: &[f32], request_bytes: u64) -> Option<FoldingOnset> {
    let first = typical(valid.get(..LEAST_BEFORE)?);
    let mut times = relative(obsolete, typical(obsolete));
    times.extend(relative(valid, first));
    let (at, log) = onset(&times, SLOW)?;
    let (before, after) = (&times[..at], &times[at..]);
    let is_later = at > obsolete.len() + LEAST_BEFORE / 2;
    let ratio = if is_later { mean(after) / mean(before) } else { 0.0 };
    if log < HINTED || ratio < SLOWER {
        return None;
    }
    // What a request takes longer in the long run, from one slow request to the last one.
    let base = mean(before);
    let slow = mean(after);
    let is_slow = |time: &&f32| f64::from(**time) >= slow;
    let last = after.len() - after.iter().rev().take_while(|time| !is_slow(time)).count();
    let first = after.iter().take_while(|time| !is_slow(time)).count() + 1;
    if last < first + 2 {
        return None;
    }
    let each = mean(&after[first..last]) - base;
    let (mut folded, mut estimates) = (0.0, Vec::new());
    for (number, time) in times[obsolete.len()..].iter().enumerate() {
        let time = f64::from(*time);
        if number + obsolete.len() >= at && time >= slow && estimates.len() < EVALUATED {
            // The latest obsolete requests are still valid, too.
            estimates.push((number + PLACES as usize) as f64 - folded);
        }
        folded += (time - base) / each;
    }
    let requests = median(&estimates);
    let is_within = requests <= MOST_BEFORE * valid.len() as f64;
    let is_resolved = requests >= LEAST_BEFORE as f64;
    (is_within && is_resolved).then_some(FoldingOnset {
        requests,
        request_bytes,
        ratio,
        blocks: None,
    })
}

/// Whether enough trials have one period and number of blocks.
fn have_same_period(seen: &[FoldingOnset]) -> bool {
    let is_same = |pair: &[FoldingOnset]| {
        let ratio = pair[1].requests / pair[0].requests;
        let is_alike = (1.0 / SAME_PERIOD..SAME_PERIOD).contains(&ratio);
        is_alike && pair[0].blocks.is_some() && pair[0].blocks == pair[1].blocks
    };
    seen.len() >= SUCCESSFUL_PERIODS && seen.windows(2).all(is_same)
}

/// The slowdown if requests are slow periodically.
fn of_period(obsolete: &[f32], valid: &[f32], request_bytes: u64) -> Option<FoldingOnset> {
    let times = [relative(obsolete, typical(obsolete)), relative(valid, typical(valid))].concat();
    // The latest obsolete requests are still valid, too.
    let found = fold_period::fit(&times, obsolete.len() - PLACES as usize)?;
    let requests = found.period * found.blocks as f64;
    let is_within = requests <= MOST_BEFORE_PERIODS * valid.len() as f64;
    let ratio = 1.0 + found.rise;
    let is_clear = is_within && ratio > SLOWER_PERIODICALLY && found.log > CLEAR_PERIOD;
    let blocks = Some(found.blocks).filter(|blocks| *blocks >= LEAST_BLOCKS);
    (is_clear && blocks.is_some()).then_some(FoldingOnset {
        requests,
        request_bytes,
        ratio,
        blocks,
    })
}

/// Obsolete data, then as much that stays valid.
pub struct Trial<'a> {
    window: &'a Range<u64>,
    pub request_bytes: u64,
    count: u64,
}

impl<'a> Trial<'a> {
    pub fn new(window: &'a Range<u64>, bytes: u64, write_unit: u64) -> Self {
        let request_bytes =
            (bytes / REQUESTS).div_ceil(write_unit).next_power_of_two() * write_unit;
        Self { window, request_bytes, count: bytes / request_bytes }
    }

    /// Of requests of this length, to at least so many bytes.
    pub fn of_length(window: &'a Range<u64>, request_bytes: u64, bytes: u64) -> Self {
        Self { window, request_bytes, count: bytes.div_ceil(request_bytes) }
    }

    /// As many bytes in requests of another length.
    pub fn with_requests_of(&self, request_bytes: u64) -> Self {
        let count = self.count * self.request_bytes / request_bytes.max(1);
        Self { window: self.window, request_bytes, count }
    }

    /// At least as many requests as a trial needs, if they fill the area like these.
    pub fn with_room_for(self, seen: &FoldingOnset) -> Self {
        let folds = LATER_FOLDS * seen.period().unwrap_or_default();
        let least = (seen.requests / MOST_BEFORE).max(seen.requests + folds).ceil() as u64;
        Self { count: self.count.max(least), ..self }
    }

    fn run(&self, meter: &mut Meter<'_>) -> Result<Option<FoldingOnset>, MeasurementStop> {
        let Some([obsolete, valid]) = self.times(meter)? else { return Ok(None) };
        let of_period = of_period(&obsolete, &valid, self.request_bytes);
        Ok(of_period.or_else(|| slowdown(&obsolete, &valid, self.request_bytes)))
    }

    /// How much longer valid data takes in the end, and where it begins to if that is periodic.
    pub fn ratio(
        &self,
        meter: &mut Meter<'_>,
    ) -> Result<(f64, Option<FoldingOnset>), MeasurementStop> {
        let Some([obsolete, valid]) = self.times(meter)? else { return Ok((0.0, None)) };
        let ratio = mean(&valid[valid.len() / 2..]) / mean(&obsolete);
        Ok((ratio, of_period(&obsolete, &valid, self.request_bytes)))
    }

    /// Times of obsolete and of valid data; `None` without room for it.
    fn times(&self, meter: &mut Meter<'_>) -> Result<Option<[Vec<f32>; 2]>, MeasurementStop> {
        let Self { window, request_bytes, count } = *self;
        // Places that fit the largest requests.
        let stride = STRIDE.next_multiple_of(request_bytes);
        // Whole write units.
        let base = window.start.next_multiple_of(request_bytes);
        let mut obsolete: Vec<f32> = Vec::new();
        // Each trial begins at another part of a block, so their errors of a block differ.
        let passed = meter.random.below(count / PASSED + 1);
        for number in 0..count + passed {
            let at = base + number % PLACES * stride;
            let time = meter.write(SamplePurpose::WriteRandom, at, request_bytes)? as f32;
            if number >= count / 2 + passed {
                obsolete.push(time);
            }
        }
        let start = base + PLACES * stride;
        let Some(room) = (window.end - start).checked_sub(count * request_bytes) else {
            return Ok(None);
        };
        let start = start + meter.random.below(room / request_bytes + 1) * request_bytes;
        let mut valid: Vec<f32> = Vec::new();
        for number in 0..count {
            let at = start + number * request_bytes;
            valid.push(meter.write(SamplePurpose::WriteLinear, at, request_bytes)? as f32);
        }
        Ok(Some([obsolete, valid]))
    }

    /// Runs trials; the result in the middle counts if nearly all have one, and nearly all agree.
    pub fn measure(&self, meter: &mut Meter<'_>) -> Result<Option<FoldingOnset>, MeasurementStop> {
        let mut seen: Vec<FoldingOnset> = Vec::new();
        for number in 1..=MOST_TRIALS {
            seen.extend(self.run(meter)?);
            seen.sort_by(|one, other| one.requests.total_cmp(&other.requests));
            if number > seen.len() + MOST_FAILED || seen.is_empty() {
                return Ok(None);
            }
            let middle = seen[seen.len() / 2];
            let is_like = |of: &&FoldingOnset| {
                let ratio = of.requests / middle.requests;
                (1.0 / ALIKE..ALIKE).contains(&ratio)
            };
            let alike = seen.iter().filter(is_like).count();
            let is_enough = alike >= SUCCESSFUL && 2 * alike > number;
            if is_enough || number == seen.len() && have_same_period(&seen) {
                return Ok(Some(middle));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(requests: f64, blocks: Option<usize>) -> FoldingOnset {
        FoldingOnset { requests, request_bytes: 1 << 20, ratio: 2.0, blocks }
    }

    #[test]
    fn two_trials_suffice_only_with_the_same_period() {
        assert!(have_same_period(&[seen(120.1, Some(15)), seen(120.1, Some(15))]));
        assert!(!have_same_period(&[seen(120.1, Some(15))]));
        assert!(!have_same_period(&[seen(120.1, Some(15)), seen(128.1, Some(16))]));
        assert!(!have_same_period(&[seen(120.1, None), seen(120.1, None)]));
    }

    #[test]
    fn a_period_shows_where_folding_takes_little_longer() {
        // A block of 8 requests is folded while one of them takes twice as long. The block that
        // begins at 195 is the first one with valid data, and 13 blocks later the first folded one.
        let time = |at: usize| match at {
            at if at % 8 != 3 => 1.0 + (at % 3) as f32 / 100.0,
            0..296 => 1.1,
            _ => 2.0,
        };
        let times: Vec<f32> = (0..800).map(time).collect();
        let found = of_period(&times[..200], &times[200..], 1 << 18).unwrap();
        assert_eq!(found.blocks, Some(13), "{found:?}");
        assert!((found.requests / 104.0 - 1.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn longer_requests_of_one_write_unit_do_not_become_too_few() {
        let window = 0..1 << 30;
        let trial = || Trial::new(&window, 5 << 20, 4096).with_requests_of(16 << 10);
        assert_eq!(trial().count, 320);
        let of = |blocks| FoldingOnset { blocks, ..seen(352.0, None) };
        assert_eq!(trial().with_room_for(&of(None)).count, 587);
        assert_eq!(trial().with_room_for(&of(Some(2))).count, 352 + 9 * 176);
    }
}
