//! Checks that the capacity is real.
//!
//! Fake devices report more capacity than they have: writes beyond the real one are lost or wrap to
//! lower addresses. Blocks stamped with their position are written at places spread over the
//! region, including powers of two from its start, where addresses usually wrap. Then all are read
//! back, oldest first, so that a small cache no longer holds them. A foreign block reveals where
//! addresses wrap, and so does a run that appears in two places (`wrap`); a lost block is located
//! by bisection. Limits: only the region is checked; defective flash looks the same as missing
//! flash. Source: Bernhard, "F3: fight flash fraud"
//! (documentation of f3probe), for the behavior of fakes.

use std::ops::Range;

use super::meter::{MeasurementStop, Meter};
use super::wrap;
use crate::findings::{GeometryFinding, QuantityValue};
use crate::probed::SamplePurpose;

/// A block, the size of the largest sector.
const BLOCK: u64 = 4096;
const MARK: &[u8; 8] = b"flashfit";
const STAMP: usize = 24;
/// Places in addition to the powers of two.
const SPREAD: u64 = 32;
/// Resolution of the start of missing capacity.
const GRAIN: u64 = 1 << 20;
/// Bytes written after the blocks to evict them from small caches.
const FLUSHING: u64 = 4 << 20;

/// The block read back from a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Own,
    Other(u64),
    Lost,
}

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
    wraps.extend(wrap::distances(meter, seed)?);
    let whole = region == (0..capacity_bytes);
    let part = if whole { "" } else { " of the given region; the rest was not checked" };
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
    Ok(missing(real, format!("writes beyond {real} bytes are lost")))
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
    // Just below common marketing capacities, and at random.
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

/// Overwrites a range except for the blocks in it.
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
            // The stamp of no place, so that these blocks are never mistaken for stamped ones.
            meter.write_stamped(SamplePurpose::WriteLinear, at, end - at, Some(&[0; STAMP]))?;
        }
        at = if end == next { next + BLOCK } else { end.max(at + BLOCK) };
    }
    Ok(())
}

/// The smallest distance at which addresses wrap, found by halving a known one.
fn least_wrap(meter: &mut Meter<'_>, wrap: u64, seed: u64) -> Result<u64, MeasurementStop> {
    let start = meter.region().start.next_multiple_of(BLOCK);
    let mut least = wrap;
    while least % 2 == 0 && least / 2 >= GRAIN {
        let half = least / 2;
        if half % BLOCK != 0 {
            break;
        }
        stamp(meter, start, seed)?;
        stamp(meter, start + half, seed)?;
        if look(meter, start, seed)? != Seen::Other(start + half) {
            break;
        }
        least = half;
    }
    Ok(least)
}

/// The start of the missing capacity, between a kept and a lost place.
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
