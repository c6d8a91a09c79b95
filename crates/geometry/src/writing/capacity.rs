//! Whether the capacity is really there.
//!
//! Fake devices tell a capacity that they have not: what is written beyond the real one is lost, or
//! lands somewhere below. Blocks that say where they belong are written at places spread over the
//! region, at powers of two from its start among them, where addresses usually wrap; then all are
//! read back, the oldest first, so that a small cache holds none of them any more. A foreign block
//! tells where addresses wrap, a lost one is bisected. Limits: only the region that may be written
//! is looked at; flash that is there but bad looks like flash that is not.
//! Source: Bernhard, "F3: fight flash fraud" (documentation of f3probe), for how fakes behave.

use std::ops::Range;

use super::meter::{MeasurementStop, Meter};
use crate::findings::{GeometryFinding, QuantityValue};
use crate::probed::SamplePurpose;

/// A block: as large as the largest sector.
const BLOCK: u64 = 4096;
const MARK: &[u8; 8] = b"flashfit";
const STAMP: usize = 24;
/// Places beside the powers of two.
const SPREAD: u64 = 32;
/// Where lost capacity begins is told to this.
const GRAIN: u64 = 1 << 20;
/// What is written after the blocks, so that no small cache still holds them.
const FLUSHING: u64 = 4 << 20;

/// What was read where a block was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Own,
    /// The block of another place.
    Other(u64),
    Lost,
}

/// Looks at the region; says what is there.
pub fn check(
    meter: &mut Meter<'_>,
    capacity_bytes: u64,
    seed: u64,
) -> Result<GeometryFinding, MeasurementStop> {
    let region = meter.region();
    let places = places(meter, &region);
    for &place in &places {
        stamp(meter, place, seed)?;
    }
    let behind = places.len() as u64 * BLOCK;
    let flushing = region.start + behind..(region.start + behind + FLUSHING).min(region.end);
    overwrite_all_but(meter, &flushing, &places)?;
    meter.flush()?;
    let mut wraps = Vec::new();
    let mut lost = Vec::new();
    for &place in &places {
        match look(meter, place, seed)? {
            Seen::Own => {}
            Seen::Other(other) => wraps.push(place.abs_diff(other)),
            Seen::Lost => lost.push(place),
        }
    }
    let whole = region == (0..capacity_bytes);
    let part = if whole { "" } else { " of the named region; what lies outside was not checked" };
    if let Some(wrap) = wraps.into_iter().reduce(gcd) {
        let real = least_wrap(meter, wrap, seed)?;
        return Ok(missing(
            real,
            format!("blocks written {real} bytes apart overwrite each other"),
        ));
    }
    let Some(&first) = lost.first() else {
        let reason = format!("all {} blocks were read back{part}", places.len());
        return Ok(GeometryFinding::found(QuantityValue::Bytes(capacity_bytes), 0.999, reason));
    };
    let good =
        places.iter().rev().find(|&&place| place < first).map_or(region.start, |p| p + BLOCK);
    let real = bisect(meter, good..first, seed)?;
    Ok(missing(real, format!("what is written beyond {real} bytes is lost")))
}

fn missing(real: u64, reason: String) -> GeometryFinding {
    GeometryFinding::found(
        QuantityValue::Bytes(real),
        0.99,
        format!("capacity is missing: {reason}"),
    )
}

/// Ascending places of blocks within the region.
fn places(meter: &mut Meter<'_>, region: &Range<u64>) -> Vec<u64> {
    let room = region.end - region.start;
    let last = (room - BLOCK) / BLOCK * BLOCK;
    let mut places = vec![0, last];
    places.extend((20..64).map(|bits| 1_u64 << bits).take_while(|at| *at < last));
    // Just below what marketing calls the real sizes, and anywhere.
    places.extend((0..SPREAD).map(|at| {
        let from = room / SPREAD * at;
        from + meter.random.below((room / SPREAD).max(1))
    }));
    for place in &mut places {
        *place = region.start.next_multiple_of(BLOCK) + *place / BLOCK * BLOCK;
    }
    places.retain(|place| place + BLOCK <= region.end);
    places.sort_unstable();
    places.dedup();
    places
}

fn bytes_of(place: u64, seed: u64) -> [u8; STAMP] {
    let mut bytes = [0; STAMP];
    bytes[..8].copy_from_slice(MARK);
    bytes[8..16].copy_from_slice(&seed.to_le_bytes());
    bytes[16..].copy_from_slice(&place.to_le_bytes());
    bytes
}

fn stamp(meter: &mut Meter<'_>, place: u64, seed: u64) -> Result<(), MeasurementStop> {
    meter.write_stamped(SamplePurpose::WriteRandom, place, BLOCK, Some(&bytes_of(place, seed)))?;
    Ok(())
}

fn look(meter: &mut Meter<'_>, place: u64, seed: u64) -> Result<Seen, MeasurementStop> {
    meter.read(place, BLOCK)?;
    let read = &meter.read_bytes()[..STAMP];
    let own = bytes_of(place, seed);
    if read == own {
        return Ok(Seen::Own);
    }
    let foreign = read[..16] == own[..16];
    let other = read[16..].try_into().map_or(0, u64::from_le_bytes);
    Ok(if foreign { Seen::Other(other) } else { Seen::Lost })
}

/// Writes over a range, but not over the blocks in it.
fn overwrite_all_but(
    meter: &mut Meter<'_>,
    range: &Range<u64>,
    places: &[u64],
) -> Result<(), MeasurementStop> {
    let mut at = range.start.next_multiple_of(BLOCK);
    let most = 64 * BLOCK;
    while at + BLOCK <= range.end {
        let next = places.iter().copied().find(|place| *place >= at).unwrap_or(range.end);
        let end = next.min(at + most).min(range.end) / BLOCK * BLOCK;
        if end > at {
            // The stamp of no place, so that these are never taken for one.
            meter.write_stamped(SamplePurpose::WriteLinear, at, end - at, Some(&[0; STAMP]))?;
        }
        at = if end == next { next + BLOCK } else { end.max(at + BLOCK) };
    }
    Ok(())
}

/// The least distance at which addresses wrap: a divisor, by halves, of one at which they do.
fn least_wrap(meter: &mut Meter<'_>, wrap: u64, seed: u64) -> Result<u64, MeasurementStop> {
    let start = meter.region().start.next_multiple_of(BLOCK);
    let mut least = wrap;
    while least % 2 == 0 && least / 2 >= GRAIN {
        let half = least / 2;
        stamp(meter, start, seed)?;
        stamp(meter, start + half, seed)?;
        if look(meter, start, seed)? != Seen::Other(start + half) {
            break;
        }
        least = half;
    }
    Ok(least)
}

/// Where lost capacity begins, between a place that was kept and one that was lost.
fn bisect(meter: &mut Meter<'_>, between: Range<u64>, seed: u64) -> Result<u64, MeasurementStop> {
    let Range { start: mut kept, end: mut lost } = between;
    while lost - kept > GRAIN {
        let middle = kept.midpoint(lost) / BLOCK * BLOCK;
        stamp(meter, middle, seed)?;
        meter.flush()?;
        if look(meter, middle, seed)? == Seen::Own {
            kept = middle + BLOCK;
        } else {
            lost = middle;
        }
    }
    Ok(kept)
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}
