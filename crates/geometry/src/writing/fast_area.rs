//! Finds the fast area that is written first (pSLC): how much can be written before the device
//! begins to copy (fold) it.
//!
//! Folding comes in bursts, one for each block of the area, so most requests stay as fast as before
//! and only bytes per second fall. Anything that slows a device down looks like that; what is
//! special about folding is that obsolete data needs none. So a few places are written over and
//! over until nothing else is in the area: only a device that is then faster than while it is
//! filled has one. Its size is measured by trials: obsolete data, then data that stays valid, until
//! requests become slow (`onset`). What was folded since then is what was written without what
//! the area holds; the time beyond that of fast requests is proportional to it. Each request takes
//! whole write units.
//!
//! Limits: an area that is larger than the fill, or that the device empties while it is written, is
//! not visible; nor is one of less than `LEAST_BEFORE` requests.

use std::ops::Range;

use super::meter::{LARGEST_REQUEST, MeasurementStop, Meter};
use super::onset::onset;
use crate::belief::median;
use crate::findings::{GeometryFinding, QuantityValue};
use crate::probed::{Sample, SamplePurpose};

/// The smallest ratio of mean times per byte of valid and obsolete data, and of those of all
/// requests and of typical ones, if there are bursts.
const SLOWER: f64 = 1.15;
const BURSTS: f64 = 1.1;
/// The shortest slow request, relative to a typical one.
const SLOW: f32 = 1.2;
/// Places that are written over and over, and the bytes between them: a multiple of all sizes.
const PLACES: u64 = 2;
const STRIDE: u64 = 768 << 10;
/// Bytes that make smaller and larger areas obsolete.
const WASHED: [u64; 2] = [40 << 20, 320 << 20];
/// Bytes of the trials, for areas up to half of that.
const SMALL: u64 = 5 << 20;
const TRIALS: [u64; 5] = [1 << 20, 5 << 20, 24 << 20, 120 << 20, 600 << 20];
/// The most requests of a trial.
const REQUESTS: u64 = 512;
/// Evidence of slow requests in a trial, and in all together, as logarithms.
const HINTED: f64 = 3.0;
const CLEAR: f64 = 12.0;
/// The fewest requests before the slow ones for a resolution of a tenth.
const LEAST_BEFORE: usize = 8;
/// The largest share of a trial before the slow requests.
const MOST_BEFORE: f64 = 0.6;
/// Trials of a size, and the fewest with a result.
const MOST_TRIALS: usize = 5;
const SUCCESSFUL: usize = 2;
/// Largest ratio of results at which no more trials are needed, and at which they agree.
const ALIKE: f64 = 1.05;
const MOST_DIFFERENT: f64 = 1.15;
/// The smallest request if the write unit is unknown, and the factor to a larger one: one of them
/// is a multiple of most write units. Results of both differ by less if the smaller one is, too.
const UNKNOWN_WRITE_UNIT: u64 = 12 << 10;
const LARGER: u64 = 4;
const SAME_ROOM: f64 = 1.15;
/// Slow requests of a trial that are evaluated: later ones add the errors of all before.
const EVALUATED: usize = 6;
const CONFIDENCE: f64 = 0.97;

/// Measures the area after a fill with these samples, with the write unit if it is known.
pub fn measure(
    meter: &mut Meter<'_>,
    fill: &[Sample],
    window: &Range<u64>,
    write_unit: Option<u64>,
) -> Result<GeometryFinding, MeasurementStop> {
    let filled: Vec<f32> =
        fill.iter().filter(|of| is_of_fill(of)).map(|of| of.elapsed_ns as f32).collect();
    let most = (window.end - window.start).saturating_sub(PLACES * STRIDE) * 3 / 4;
    if filled.len() < 16 || most < TRIALS[1] {
        return Ok(GeometryFinding::not_measured("the region or the write budget is too small"));
    }
    let nothing = GeometryFinding::inconclusive(
        format!(
            "writing {} MiB in order was not slower than writing a few places again and again",
            (filled.len() as u64 * LARGEST_REQUEST) >> 20
        ),
        Vec::new(),
    );
    // Small areas do not need to be sought: their trials are short.
    let mut largest = SMALL;
    for bytes in TRIALS.into_iter().filter(|bytes| *bytes <= most) {
        if bytes > largest {
            let Some(found) = largest_area(meter, &filled, window)? else { break };
            largest = found;
        }
        if bytes / 4 > largest {
            break;
        }
        if let Some(seen) = of_size(meter, window, bytes, write_unit)? {
            return Ok(found(&seen));
        }
    }
    Ok(nothing)
}

/// The result of trials of this size. If the write unit is unknown, requests may take more room
/// than their length: then larger ones seem to fill a larger area.
fn of_size(
    meter: &mut Meter<'_>,
    window: &Range<u64>,
    bytes: u64,
    write_unit: Option<u64>,
) -> Result<Option<Slowdown>, MeasurementStop> {
    let mut trial = Trial::new(window, bytes, write_unit.unwrap_or(UNKNOWN_WRITE_UNIT));
    let Some(mut seen) = trial.measure(meter)? else { return Ok(None) };
    while write_unit.is_none() {
        trial.request_bytes *= LARGER;
        trial.count /= LARGER;
        let Some(larger) = trial.measure(meter)? else { return Ok(None) };
        if larger.bytes() < SAME_ROOM * seen.bytes() {
            break;
        }
        seen = larger;
    }
    Ok(Some(seen))
}

fn found(seen: &Slowdown) -> GeometryFinding {
    let reason = format!(
        "writing in order becomes {:.1} times slower there, but not where data is overwritten \
         again and again (resolution {} KiB)",
        seen.ratio,
        seen.request_bytes >> 10
    );
    // More digits than the resolution mean nothing.
    let bytes = seen.bytes();
    let grain = (seen.request_bytes as f64).max(4096.0);
    let bytes = ((bytes / grain).round() * grain) as u64;
    GeometryFinding::found(QuantityValue::Bytes(bytes), CONFIDENCE, reason)
}

fn is_of_fill(sample: &Sample) -> bool {
    sample.purpose == SamplePurpose::WriteLinear
        && u64::from(sample.length_bytes) == LARGEST_REQUEST
}

/// The size that the area can have at most, if obsolete data is written faster than the fill.
fn largest_area(
    meter: &mut Meter<'_>,
    filled: &[f32],
    window: &Range<u64>,
) -> Result<Option<u64>, MeasurementStop> {
    // The area was full by then.
    let late = &filled[filled.len() / 2..];
    let per_byte = mean(late) / LARGEST_REQUEST as f64;
    let typical = median(&late.iter().map(|time| f64::from(*time)).collect::<Vec<_>>());
    let in_bursts = mean(late) > BURSTS * typical;
    for bytes in WASHED {
        if per_byte > SLOWER * wash(meter, window, bytes)? {
            return Ok(Some(bytes));
        }
        // What a small amount does not make obsolete has large blocks, folded in long bursts.
        if !in_bursts || bytes > filled.len() as u64 * LARGEST_REQUEST {
            break;
        }
    }
    Ok(None)
}

/// Writes a few places until `bytes` are written; returns the mean time per byte of the last ones.
fn wash(meter: &mut Meter<'_>, window: &Range<u64>, bytes: u64) -> Result<f64, MeasurementStop> {
    let mut times: Vec<f32> = Vec::new();
    for number in 0..bytes / STRIDE {
        let at = window.start + number % PLACES * STRIDE;
        times.push(meter.write(SamplePurpose::WriteRandom, at, STRIDE)? as f32);
    }
    let last = times.len() / 4;
    Ok(mean(&times[times.len() - last..]) / STRIDE as f64)
}

fn mean(times: &[f32]) -> f64 {
    times.iter().map(|time| f64::from(*time)).sum::<f64>() / times.len() as f64
}

/// Where writing slowed down in a trial.
#[derive(Debug, Clone, Copy)]
struct Slowdown {
    /// Valid requests that the area holds.
    requests: f64,
    request_bytes: u64,
    /// Mean time after it, relative to before.
    ratio: f64,
    /// Evidence, as a logarithm.
    log: f64,
}

impl Slowdown {
    fn bytes(&self) -> f64 {
        self.requests * self.request_bytes as f64
    }
}

/// The slowdown in times of requests with obsolete and then valid data.
fn slowdown(obsolete: &[f32], valid: &[f32], request_bytes: u64) -> Option<Slowdown> {
    let typical = |times: &[f32]| {
        median(&times.iter().map(|time| f64::from(*time)).collect::<Vec<_>>()) as f32
    };
    // Other places may take longer for other reasons.
    let relative = |times: &[f32], typical: f32| -> Vec<f32> {
        times.iter().map(|time| time / typical).collect()
    };
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
    (is_within && is_resolved).then_some(Slowdown { requests, request_bytes, ratio, log })
}

/// Obsolete data, then as much that stays valid.
struct Trial<'a> {
    window: &'a Range<u64>,
    request_bytes: u64,
    count: u64,
}

impl<'a> Trial<'a> {
    fn new(window: &'a Range<u64>, bytes: u64, write_unit: u64) -> Self {
        let request_bytes =
            (bytes / REQUESTS).div_ceil(write_unit).next_power_of_two() * write_unit;
        Self { window, request_bytes, count: bytes / request_bytes }
    }

    fn run(&self, meter: &mut Meter<'_>) -> Result<Option<Slowdown>, MeasurementStop> {
        let Self { window, request_bytes, count } = *self;
        // Places that fit the largest requests.
        let stride = STRIDE.max(request_bytes);
        let mut obsolete: Vec<f32> = Vec::new();
        for number in 0..count {
            let at = window.start + number % PLACES * stride;
            let time = meter.write(SamplePurpose::WriteRandom, at, request_bytes)? as f32;
            if number >= count / 2 {
                obsolete.push(time);
            }
        }
        let start = window.start + PLACES * stride;
        let Some(room) = (window.end - start).checked_sub(count * request_bytes) else {
            return Ok(None);
        };
        let start = start + meter.random.below(room / request_bytes + 1) * request_bytes;
        let mut valid: Vec<f32> = Vec::new();
        for number in 0..count {
            let at = start + number * request_bytes;
            valid.push(meter.write(SamplePurpose::WriteLinear, at, request_bytes)? as f32);
        }
        Ok(slowdown(&obsolete, &valid, request_bytes))
    }

    /// Runs trials; the result in the middle counts if nearly all agree.
    fn measure(&self, meter: &mut Meter<'_>) -> Result<Option<Slowdown>, MeasurementStop> {
        let Some(first) = self.run(meter)? else { return Ok(None) };
        let mut seen = vec![first];
        let agree = |seen: &[Slowdown], ratio: f64| {
            let log: f64 = seen.iter().map(|of| of.log).sum();
            let is_alike = seen[seen.len() - 1].requests < ratio * seen[0].requests;
            seen.len() >= SUCCESSFUL && log > CLEAR && is_alike
        };
        for _ in 1..MOST_TRIALS {
            seen.extend(self.run(meter)?);
            seen.sort_by(|one, other| one.requests.total_cmp(&other.requests));
            if agree(&seen, ALIKE) {
                break;
            }
        }
        // One trial may have been disturbed.
        let rest = if seen.len() > SUCCESSFUL + 1 {
            [&seen[..], &seen[1..], &seen[..seen.len() - 1]]
        } else {
            [&seen[..]; 3]
        };
        let agreeing = rest.into_iter().find(|seen| agree(seen, MOST_DIFFERENT));
        Ok(agreeing.map(|seen| seen[seen.len() / 2]))
    }
}
