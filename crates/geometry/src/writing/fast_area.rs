//! Finds the fast area that is written first (pSLC): how much can be written before the device
//! begins to copy (fold) it.
//!
//! Folding comes in bursts, one for each block of the area, so most requests stay as fast as before
//! and only bytes per second fall. Anything that slows a device down looks like that; what is
//! special about folding is that obsolete data needs none. So a few places are written over and
//! over until nothing else is in the area: only a device that is then faster than while it is
//! filled can have a large one. Its size is measured by trials of increasing size
//! (`fold_trial`). Each request takes whole write units: if they are unknown, requests of
//! several lengths tell how much room they take.
//!
//! Limits: an area that is larger than the fill, or that the device empties while it is written, is
//! not visible; nor is one of less than a few requests. A write unit of 3 x 2^k that is filled by
//! consecutive requests, wherever they go, is taken for one of 2^k if it is unknown.

use std::ops::Range;

use super::fold_trial::{self, FoldingOnset, Trial};
use super::meter::{LARGEST_REQUEST, MeasurementStop, Meter};
use crate::belief::median;
use crate::findings::{GeometryFinding, QuantityValue};
use crate::probed::{Sample, SamplePurpose};

/// The smallest ratio of mean times per byte of valid and obsolete data at which trials are made,
/// and of those of all requests and of typical ones, if there are bursts.
const SLOWER: f64 = 1.03;
const BURSTS: f64 = 1.05;
/// The largest time per byte of obsolete data relative to that between bursts.
const WITHOUT_BURSTS: f64 = 1.3;
/// Places that are written over and over, and the bytes between them.
pub const PLACES: u64 = 2;
pub const STRIDE: u64 = 768 << 10;
/// Bytes that make smaller and larger areas obsolete.
const WASHED: [u64; 2] = [40 << 20, 320 << 20];
/// Bytes of the trials, for areas of up to nearly three quarters of that; also as much as there is
/// room for if that is a quarter more.
const SMALL: u64 = 5 << 20;
const TRIALS: [u64; 5] = [1 << 20, 5 << 20, MEDIUM, 120 << 20, LARGEST];
const MEDIUM: u64 = 24 << 20;
const LARGEST: u64 = 600 << 20;
/// The bytes that two trials write, in quarters of those that stay valid in one of them: at most an
/// eighth more is written before them.
const COST_OF_TWO: u64 = 17;
/// The shortest request if the write unit is unknown, and the factor to a longer one.
const SHORTEST: u64 = 4 << 10;
const LONGER: u64 = 2;
/// And if neither length fills a write unit, and requests that are slow are further apart than
/// this.
const MUCH_LONGER: u64 = 4;
const SHORT_PERIOD: f64 = 20.0;
/// Write units that are considered then: 2^k and 3 x 2^k, in KiB.
const WRITE_UNITS_KIB: [u64; 12] = [4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256];
/// Largest ratio of the areas by requests of two lengths if a write unit explains both, and of the
/// areas by all such write units.
const SAME_AREA: f64 = 1.07;
const SAME_ANSWER: f64 = 1.15;
/// And of the blocks.
const SAME_BLOCK: f64 = 1.03;
/// The length of large requests, and how many are made at least; an area that is too large for a
/// log for small writes.
const LARGE: u64 = 256 << 10;
const FEWEST_LARGE: u64 = 48;
const CERTAINLY_NO_LOG: f64 = 32e6;
/// Of three trials with large requests, those that show the same area if the others are noise.
const MOST_ARE_SAME: usize = 2;
/// The smallest ratio of times of large requests if the area may be a log.
const SLOWER_THAN_LOG: f64 = 1.5;
/// The largest block, relative to an erase block.
const LESS: f64 = 0.75;
/// Blocks larger than this share of the area may be erase blocks of a log.
const SHARE_OF_LOG: f64 = 0.19;
const CONFIDENCE: f64 = 0.97;
const TOO_SMALL: &str = "the region or the write budget is too small";

/// What is known of the device, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct KnownUnits {
    pub erase_block: Option<u64>,
    pub write_unit: Option<u64>,
    /// Whether erasures show a log for small writes.
    pub has_log: bool,
}

/// Measures the area after a fill with these samples.
pub fn measure(
    meter: &mut Meter<'_>,
    fill: &[Sample],
    window: &Range<u64>,
    known: KnownUnits,
) -> Result<SoughtArea, MeasurementStop> {
    let filled: Vec<f32> =
        fill.iter().filter(|of| is_of_fill(of)).map(|of| of.elapsed_ns as f32).collect();
    let most = (window.end - window.start).saturating_sub(PLACES * STRIDE) * 3 / 4;
    if filled.len() < 16 || most < TRIALS[1] {
        return Ok(SoughtArea::unclear(GeometryFinding::not_measured(TOO_SMALL)));
    }
    let filled_mib = (filled.len() as u64 * LARGEST_REQUEST) >> 20;
    let in_order = format!("writing {filled_mib} MiB in order");
    let obsolete = "writing a few places again and again";
    let (mut largest, mut done) = (SMALL, 0);
    let mut earlier = Vec::new();
    for bytes in TRIALS {
        // What is left must suffice for two trials; if it does not for the largest, it is used for
        // those before it.
        let affordable = most.min(meter.left_bytes() * 4 / COST_OF_TWO);
        let is_last = bytes > MEDIUM && affordable < LARGEST * 2 / 3;
        let bytes = if is_last { affordable } else { bytes.min(affordable) };
        if bytes < TRIALS[0] || 4 * bytes < 5 * done {
            continue;
        }
        done = bytes;
        // Small areas do not need to be sought: their trials are short.
        if bytes > SMALL && largest == SMALL {
            let Some(found) = largest_area(meter, &filled, window)? else {
                let reason = format!("{in_order} was not slower than {obsolete}");
                return Ok(SoughtArea::absent(&reason, WrittenFirst::NoArea));
            };
            largest = found;
        }
        if bytes / 4 > largest {
            break;
        }
        if let Some(seen) = of_size(meter, window, bytes, known.write_unit, &mut earlier)? {
            // A block with one bit per cell holds less than an erase block of several; the log for
            // small writes of other devices has few erase blocks.
            let large = |share: f64, of: f64| seen.block_bytes.is_some_and(|by| by > share * of);
            let is_erase_block = known.erase_block.is_some_and(|bytes| large(LESS, bytes as f64));
            let is_as_log = known.erase_block.is_none() && large(SHARE_OF_LOG, seen.bytes);
            let may_be_log = known.has_log || is_as_log;
            if is_erase_block {
                let reason = "what slows down has blocks as large as erase blocks";
                return Ok(SoughtArea::unclear(GeometryFinding::inconclusive(reason, Vec::new())));
            }
            return Ok(match large_requests(meter, window, &seen, may_be_log)? {
                Some(true) => found(&seen),
                Some(false) => {
                    let only_small = "only small requests slow down, as a log for them does";
                    SoughtArea::absent(only_small, WrittenFirst::Log)
                }
                None => {
                    let either = "what slows down may be a fast area or a log for small writes";
                    let finding = GeometryFinding::inconclusive(either, Vec::new());
                    SoughtArea { finding, shown: known.has_log.then_some(WrittenFirst::Log) }
                }
            });
        }
    }
    if largest == SMALL {
        return Ok(SoughtArea::unclear(GeometryFinding::not_measured(TOO_SMALL)));
    }
    let reason = format!("{in_order} was slower than {obsolete}, but no size of an area shows");
    Ok(SoughtArea::unclear(GeometryFinding::inconclusive(reason, Vec::new())))
}

/// What a search for the area has found.
#[derive(Debug)]
pub struct SoughtArea {
    pub finding: GeometryFinding,
    /// `None` if that is unclear.
    pub shown: Option<WrittenFirst>,
}

/// What is written first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenFirst {
    FastArea,
    /// No fast area shows.
    NoArea,
    /// Small ones go to a log.
    Log,
}

impl SoughtArea {
    fn unclear(finding: GeometryFinding) -> Self {
        Self { finding, shown: None }
    }

    fn absent(reason: &str, shown: WrittenFirst) -> Self {
        let finding = GeometryFinding::inconclusive(reason, Vec::new());
        Self { finding, shown: Some(shown) }
    }
}

/// The result of trials of this size, in bytes. Results of smaller ones, which gave no area, count
/// if they agree with these, and are kept in `earlier`.
fn of_size(
    meter: &mut Meter<'_>,
    window: &Range<u64>,
    bytes: u64,
    write_unit: Option<u64>,
    earlier: &mut Vec<FoldingOnset>,
) -> Result<Option<FoundArea>, MeasurementStop> {
    let mut trial = Trial::new(window, bytes, write_unit.unwrap_or(SHORTEST));
    let shorter = trial.with_requests_of(trial.request_bytes / LONGER);
    let mut seen: Vec<FoldingOnset> = Vec::new();
    let area = |seen: &[FoldingOnset], earlier: &[FoldingOnset]| {
        let all: Vec<FoldingOnset> = earlier.iter().chain(seen).copied().collect();
        found_area(&all, write_unit).or_else(|| found_area(seen, write_unit))
    };
    loop {
        match trial.measure(meter)? {
            Some(another) => seen.push(another),
            // Too few requests may fit into a block of the area.
            None if seen.len() == 1 && shorter.request_bytes >= SHORTEST => {
                let Some(another) = shorter.measure(meter)? else { break };
                seen.insert(0, another);
            }
            None => break,
        }
        if let Some(found) = area(&seen, earlier) {
            return Ok(Some(found));
        }
        let longer = |factor: u64| trial.with_requests_of(trial.request_bytes * factor);
        trial = match seen.as_slice() {
            // Both lengths take one write unit, so a longer one needs as many requests.
            [.., one, other] if one.requests < SAME_AREA * other.requests => {
                let is_resolved = other.period().is_some_and(|of| of > SHORT_PERIOD);
                let factor = if is_resolved { MUCH_LONGER } else { LONGER };
                longer(factor).with_room_for(other)
            }
            // Several write units explain the results, so the length that was left out is measured.
            [.., one, other] if other.request_bytes >= MUCH_LONGER * one.request_bytes => {
                let between = trial.with_requests_of(one.request_bytes * LONGER);
                if let Some(found) = between.with_room_for(one).measure(meter)? {
                    seen.insert(seen.len() - 1, found);
                    if let Some(found) = area(&seen, earlier) {
                        return Ok(Some(found));
                    }
                }
                longer(LONGER)
            }
            _ => longer(LONGER),
        };
    }
    earlier.append(&mut seen);
    Ok(None)
}

/// Whether valid data is slow in large requests, too; `None` if that is unclear. Only small ones go
/// to a log for small writes, which looks like a fast area.
fn large_requests(
    meter: &mut Meter<'_>,
    window: &Range<u64>,
    seen: &FoundArea,
    may_be_log: bool,
) -> Result<Option<bool>, MeasurementStop> {
    // Those that are written over and over fit into the area.
    let area = seen.bytes as u64;
    let length = (1 << (area / (2 * PLACES)).max(SHORTEST).ilog2()).min(LARGE);
    let trial = Trial::of_length(window, length, (4 * area).max(FEWEST_LARGE * length));
    if seen.bytes > CERTAINLY_NO_LOG {
        return Ok(Some(true));
    }
    // Shorter requests may go to a log, too.
    if may_be_log && length < LARGE {
        return Ok(None);
    }
    let (mut ratios, mut same) = ([0.0; 3], 0);
    for ratio in &mut ratios {
        let onset;
        (*ratio, onset) = trial.ratio(meter)?;
        let bytes = onset.map(|of| of.requests * length as f64);
        if bytes.is_some_and(|bytes| are_alike([bytes, seen.bytes].into_iter(), SAME_ANSWER)) {
            same += 1;
        }
    }
    if same >= MOST_ARE_SAME && !may_be_log {
        return Ok(Some(true));
    }
    Ok(are_slow(ratios, may_be_log))
}

/// Whether three ratios show that large requests are slow. If it may be a log, all of them must
/// show it clearly: a small fast area can slow them down less.
fn are_slow(ratios: [f64; 3], may_be_log: bool) -> Option<bool> {
    let least = ratios.into_iter().fold(f64::INFINITY, f64::min);
    let is_slower = median(&ratios) > fold_trial::SLOWER || least > fold_trial::SLOWER_PERIODICALLY;
    (!may_be_log || !is_slower || least > SLOWER_THAN_LOG).then_some(is_slower)
}

/// The area, if these results tell.
fn found_area(seen: &[FoldingOnset], write_unit: Option<u64>) -> Option<FoundArea> {
    let bytes = area_bytes(seen, write_unit)?;
    let FoldingOnset { request_bytes, ratio, blocks, .. } = *seen.last()?;
    let block_bytes = blocks.map(|blocks| bytes / blocks as f64);
    Some(FoundArea { bytes, block_bytes, request_bytes, ratio })
}

/// The size on which the write units that explain the results agree.
fn area_bytes(seen: &[FoldingOnset], write_unit: Option<u64>) -> Option<f64> {
    let units = match write_unit {
        Some(unit) => vec![unit],
        None if seen.len() < 2 => return None,
        None => WRITE_UNITS_KIB.map(|kib| kib << 10).to_vec(),
    };
    let explained = |start: fn(u64) -> u64| -> Vec<f64> {
        let places = units.iter().map(|unit| (*unit, start(*unit)));
        places.filter_map(|place| explained_bytes(seen, place)).collect()
    };
    let mut areas = explained(|_| 0);
    // Where all of them begin in the middle of a request is rare.
    if areas.is_empty() {
        areas = explained(|unit| unit / 2);
    }
    let least = areas.iter().copied().reduce(f64::min)?;
    let most = areas.iter().copied().reduce(f64::max)?;
    (most < SAME_ANSWER * least).then(|| (least * most).sqrt())
}

/// The area in bytes, if such write units explain the results.
fn explained_bytes(seen: &[FoldingOnset], place: (u64, u64)) -> Option<f64> {
    let rooms: Vec<(&FoldingOnset, f64)> =
        seen.iter().map(|of| (of, room(of.request_bytes, place))).collect();
    let areas = rooms.iter().map(|(of, room)| of.requests * room);
    let blocks = rooms.iter().filter_map(|(of, room)| of.block_bytes(*room));
    // A period is exact, a number of blocks may be off by one.
    if !are_alike(areas, SAME_AREA) || !are_alike(blocks, SAME_BLOCK) {
        return None;
    }
    // A number of blocks is exact, a beginning of slow requests is not.
    let exact = rooms.iter().rev().find(|(of, _)| of.blocks.is_some());
    exact.or(rooms.last()).map(|(of, room)| of.requests * room)
}

fn are_alike(values: impl Iterator<Item = f64>, ratio: f64) -> bool {
    let (least, most) = values.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), value| {
        (least.min(value), most.max(value))
    });
    most < ratio * least
}

/// The room of consecutive requests in bytes, on average: addresses are divided into write units,
/// which are written as a whole. The first one begins at `offset`.
fn room(request_bytes: u64, (write_unit, offset): (u64, u64)) -> f64 {
    // Starts repeat after so many, because requests are multiples of 4 KiB.
    let count = write_unit.div_ceil(SHORTEST);
    let starts = (0..count).map(|number| (offset + number * request_bytes) % write_unit);
    let units = starts.map(|start| (start + request_bytes).div_ceil(write_unit));
    (units.sum::<u64>() * write_unit) as f64 / count as f64
}

/// A fast area.
struct FoundArea {
    bytes: f64,
    block_bytes: Option<f64>,
    request_bytes: u64,
    ratio: f64,
}

fn found(seen: &FoundArea) -> SoughtArea {
    let reason = format!(
        "writing in order becomes {:.1} times slower there, but not where data is overwritten \
         again and again (resolution {} KiB)",
        seen.ratio,
        seen.request_bytes >> 10
    );
    // More digits than the resolution mean nothing.
    let bytes = seen.bytes;
    let grain = (seen.request_bytes as f64).max(4096.0);
    let bytes = ((bytes / grain).round() * grain) as u64;
    let finding = GeometryFinding::found(QuantityValue::Bytes(bytes), CONFIDENCE, reason);
    SoughtArea { finding, shown: Some(WrittenFirst::FastArea) }
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
    let without_bursts = WITHOUT_BURSTS * typical / LARGEST_REQUEST as f64;
    for bytes in WASHED {
        let washed = wash(meter, window, bytes)?;
        let is_all_obsolete = !in_bursts || washed < without_bursts || bytes > WASHED[0];
        if per_byte > SLOWER * washed && is_all_obsolete {
            // Between two bursts, a larger area looks the same.
            return Ok(Some(if in_bursts { WASHED[1] } else { bytes }));
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

pub fn mean(times: &[f32]) -> f64 {
    times.iter().map(|time| f64::from(*time)).sum::<f64>() / times.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests of these lengths in KiB that an area of 3 MiB holds.
    fn seen(write_unit_kib: u64, lengths_kib: &[u64]) -> Vec<FoldingOnset> {
        let of = |kib: &u64| {
            let request_bytes = kib << 10;
            let requests = (3 << 20) as f64 / room(request_bytes, (write_unit_kib << 10, 0));
            FoldingOnset { requests, request_bytes, ratio: 2.0, blocks: None }
        };
        lengths_kib.iter().map(of).collect()
    }

    #[test]
    fn requests_take_whole_write_units() {
        assert_eq!(room(16 << 10, (32 << 10, 0)), 32768.0);
        assert_eq!(room(64 << 10, (32 << 10, 0)), 65536.0);
        // Half of them lie in two units.
        assert_eq!(room(16 << 10, (24 << 10, 0)), 32768.0);
        assert_eq!(room(4 << 10, (512, 0)), 4096.0);
    }

    #[test]
    fn write_units_may_begin_in_the_middle_of_requests() {
        // 24 MiB in six blocks. Requests of 256 KiB lie in three units of 128 KiB.
        let of = |requests: f64, kib: u64| FoldingOnset {
            requests,
            request_bytes: kib << 10,
            ratio: 1.2,
            blocks: Some(6),
        };
        let area = area_bytes(&[of(192.1, 32), of(192.3, 64), of(64.0, 256)], None).unwrap();
        assert!((area / (24 << 20) as f64 - 1.0).abs() < 0.01, "{area}");
    }

    #[test]
    fn two_lengths_that_two_write_units_explain_give_no_area() {
        // Units of 128 KiB in 6 MiB, or of 192 KiB in 9 MiB.
        let of = |requests: f64, kib: u64| FoldingOnset {
            requests,
            request_bytes: kib << 10,
            ratio: 1.2,
            blocks: Some(2),
        };
        assert_eq!(area_bytes(&[of(48.0, 64), of(24.0, 256)], None), None);
        let area = area_bytes(&[of(48.0, 64), of(48.0, 128), of(24.0, 256)], None).unwrap();
        assert!((area / (6 << 20) as f64 - 1.0).abs() < 0.01, "{area}");
    }

    #[test]
    fn a_block_more_does_not_look_like_another_write_unit() {
        // Blocks of 1 MiB, ten by requests of 64 KiB; one too many by those of 128 KiB.
        let of = |requests: f64, blocks: usize, kib: u64| FoldingOnset {
            requests,
            request_bytes: kib << 10,
            ratio: 3.0,
            blocks: Some(blocks),
        };
        assert_eq!(area_bytes(&[of(160.0, 10, 64), of(88.0, 11, 128)], None), None);
        let area = area_bytes(&[of(160.0, 10, 64), of(80.0, 10, 128)], None).unwrap();
        assert!((area / (10 << 20) as f64 - 1.0).abs() < 0.1, "{area}");
    }

    #[test]
    fn two_blocks_are_no_log_if_large_requests_are_clearly_slow() {
        assert_eq!(are_slow([2.9, 2.8, 3.1], true), Some(true));
        assert_eq!(are_slow([1.0, 1.01, 1.02], true), Some(false));
        assert_eq!(are_slow([1.1, 1.12, 1.08], false), Some(true));
        assert_eq!(are_slow([1.01, 1.12, 1.08], false), Some(false));
        // Of three bits per cell, or an outlier.
        assert_eq!(are_slow([1.4, 1.38, 1.41], true), None);
        assert_eq!(are_slow([2.9, 1.2, 3.1], true), None);
    }

    #[test]
    fn two_lengths_give_an_area_without_the_write_unit() {
        let close = |area: Option<f64>| {
            area.is_some_and(|area| (area / (3 << 20) as f64 - 1.0).abs() < 0.1)
        };
        for unit in [4, 8, 16, 24, 32, 48] {
            assert!(close(area_bytes(&seen(unit, &[32, 64]), None)), "{unit}");
        }
        // Both requests take one unit of unknown size.
        assert_eq!(area_bytes(&seen(64, &[16, 32]), None), None);
        assert_eq!(area_bytes(&seen(16, &[16]), None), None);
        assert!(close(area_bytes(&seen(64, &[16]), Some(64 << 10))));
    }
}
