//! Checks that the capacity is real.
//!
//! Fake devices report more capacity than they have: writes beyond the real one are lost or wrap to
//! lower addresses. Blocks stamped with their position are written at places spread over the
//! region, including powers of two from its start, where addresses usually wrap. Then all are read
//! back, oldest first, so that a small cache no longer holds them. A foreign block reveals where
//! addresses wrap, and so does a run that appears in two places (`wrap`). If everything is lost
//! behind a border, the border is located by bisection, to the sector. A lost block with others
//! behind it that were kept is a defect, not missing capacity. The number of the probe is part of
//! each stamp, because a worn-out device that drops writes still returns the stamps of an earlier
//! probe. A request that the device refuses counts as lost, if it serves others after that.
//! Limits: only the region is checked; a border within the last MiB is taken for a defect.
//! Source: Bernhard, "F3: fight flash fraud" (documentation of f3probe), for the behavior of fakes.

use std::ops::Range;

use flashfit_device::{BlockDevError, Bytes};
use flashfit_user_error::{ExitClass, UserError};

use super::meter::{MeasurementStop, Meter};
use super::wrap;
use crate::findings::{GeometryFinding, QuantityValue};
use crate::probed::{FailedRequest, ProbeError, SamplePurpose};

/// A block, the size of the largest sector.
const BLOCK: u64 = 4096;
const MARK: &[u8; 8] = b"flashfit";
const STAMP: usize = 24;
/// The smallest sector: a fake device can end within a block.
const SECTOR: usize = 512;
/// Places in addition to the powers of two.
const SPREAD: u64 = 32;
/// The least that a fake device lacks, and the least distance at which its addresses wrap.
const GRAIN: u64 = 1 << 20;
/// Bytes written after the blocks to evict them from small caches.
const FLUSHING: u64 = 4 << 20;
/// Places behind a border that are written again to confirm that all of it is lost.
const CONFIRMING: u64 = 8;
/// The most blocks that are written at single places: the first ones, those that locate a border
/// by halving, and those that confirm it, of which one can end within a block.
const MOST_BLOCKS: u64 = SPREAD + 2 * 64 + CONFIRMING + 1;

/// What the device keeps of what is written to the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptData {
    /// All of it, as far as it was tested.
    All,
    /// Only what is written below the real capacity: the device is a fake.
    BelowReal,
    /// Not what is written to some places, though higher ones are kept, or nothing at all.
    NotEverywhere,
}

/// The result of the check.
#[derive(Debug)]
pub struct CheckedCapacity {
    pub finding: GeometryFinding,
    pub kept: KeptData,
}

/// The block read back from a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Own,
    Other(u64),
    Lost,
}

/// The bytes that a check writes to a region of this size, at least and at most.
pub fn written_bytes(region_bytes: u64, max_write_bytes: u64) -> [u64; 2] {
    let before = FLUSHING + MOST_BLOCKS * BLOCK;
    let [least, most] = [max_write_bytes.saturating_sub(before), max_write_bytes]
        .map(|left_bytes| wrap::run_bytes(region_bytes, left_bytes));
    let flushing = FLUSHING.min(region_bytes);
    [flushing.saturating_sub(MOST_BLOCKS * BLOCK) + least, flushing + MOST_BLOCKS * BLOCK + most]
        .map(|bytes| bytes.min(max_write_bytes))
}

/// Checks the region. `run_number` distinguishes the stamps from those of earlier probes.
pub fn check(
    meter: &mut Meter<'_>,
    capacity_bytes: u64,
    run_number: u64,
) -> Result<CheckedCapacity, MeasurementStop> {
    let region = meter.region();
    let places = places(meter, &region);
    let failed_before = meter.probed.errors.len();
    for &place in &places {
        stamp(meter, place, run_number)?;
    }
    let behind = places.len() as u64 * BLOCK;
    let flushing = region.start + behind..(region.start + behind + FLUSHING).min(region.end);
    overwrite_all_but(meter, &flushing, &places)?;
    meter.flush()?;
    let mut wraps = Vec::new();
    let mut lost = Vec::new();
    for &place in &places {
        match look(meter, place, run_number)? {
            Seen::Own => {}
            Seen::Other(other) => wraps.push(place.abs_diff(other)),
            Seen::Lost => lost.push(place),
        }
    }
    match wrap::distances(meter, run_number) {
        Ok(distances) => wraps.extend(distances),
        // A fake device can refuse to write there, too.
        Err(stop) if lost.is_empty() || !is_refusal(&stop) => return Err(stop),
        Err(_) => {}
    }
    if let Some(wrap) = wraps.into_iter().reduce(gcd) {
        let real = least_wrap(meter, wrap, run_number)?;
        return Ok(missing(
            real,
            format!("blocks written {real} bytes apart overwrite each other"),
        ));
    }
    let Some(&first) = lost.first() else {
        let finding = complete(&region, meter.sector_bytes(), capacity_bytes, places.len());
        return Ok(CheckedCapacity { finding, kept: KeptData::All });
    };
    let has_failed = meter.probed.errors.len() > failed_before;
    let conclude = |meter: &mut Meter<'_>| match has_failed {
        true => still_works(meter, &places, &lost, run_number),
        false => Ok(()),
    };
    conclude(meter)?;
    let is_kept_behind = places.iter().any(|place| *place > first && !lost.contains(place));
    let good = places.iter().rev().find(|&&place| place < first).map(|place| place + BLOCK);
    let Some(good) = good.filter(|_| !is_kept_behind) else {
        return Ok(not_everywhere(meter, &lost, places.len()));
    };
    let border = bisect(meter, good..first, run_number)?;
    let behind = border..region.end;
    if behind.end - behind.start < GRAIN || !is_lost(meter, behind, run_number)? {
        return Ok(not_everywhere(meter, &lost, places.len()));
    }
    conclude(meter)?;
    let block = border - BLOCK;
    let real = block + kept_bytes(meter, block, run_number)?;
    Ok(missing(real, format!("writes beyond {real} bytes are lost")))
}

/// All blocks were read back.
fn complete(
    region: &Range<u64>,
    sector_bytes: u64,
    capacity_bytes: u64,
    blocks: usize,
) -> GeometryFinding {
    // An image can end within a sector.
    let is_whole = region.start == 0 && capacity_bytes.saturating_sub(region.end) < sector_bytes;
    if is_whole {
        let reason = format!("all {blocks} blocks were read back");
        return GeometryFinding::found(QuantityValue::Bytes(capacity_bytes), 0.999, reason);
    }
    let tested = Bytes(region.end - region.start);
    let reason = format!(
        "the tested {tested} are there, because all {blocks} blocks were read back; the rest was \
         not tested"
    );
    GeometryFinding::inconclusive(reason, Vec::new())
}

fn missing(real: u64, reason: String) -> CheckedCapacity {
    let finding = GeometryFinding::found(
        QuantityValue::Bytes(real),
        0.99,
        format!("capacity is missing: {reason}"),
    );
    CheckedCapacity { finding, kept: KeptData::BelowReal }
}

/// Blocks were lost, and no smaller capacity explains it. They are listed as failed.
fn not_everywhere(meter: &mut Meter<'_>, lost: &[u64], blocks: usize) -> CheckedCapacity {
    meter.probed.errors.extend(lost.iter().map(|&place| FailedRequest::lost_data(place, BLOCK)));
    let reason = if lost.len() == blocks {
        let before = match meter.region().start {
            0 => "",
            _ => ", or its capacity ends before the region",
        };
        let none = format!("none of {blocks} blocks was read back{before}");
        format!("the device does not keep what is written: {none}")
    } else {
        let places = match lost {
            [one] => format!("at offset {one}"),
            _ => format!("at {} places, the first at offset {}", lost.len(), lost[0]),
        };
        let kept = blocks - lost.len();
        format!(
            "the device does not keep what is written {places}: {kept} of {blocks} blocks were \
             read back"
        )
    };
    let finding = GeometryFinding::inconclusive(reason, Vec::new());
    CheckedCapacity { finding, kept: KeptData::NotEverywhere }
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

fn bytes_of(place: u64, run_number: u64) -> [u8; STAMP] {
    let mut bytes = [0; STAMP];
    bytes[..8].copy_from_slice(MARK);
    bytes[8..16].copy_from_slice(&run_number.to_le_bytes());
    bytes[16..].copy_from_slice(&place.to_le_bytes());
    bytes
}

/// Whether the device refuses this request but may serve others.
fn is_refusal(stop: &MeasurementStop) -> bool {
    let MeasurementStop::Failed(ProbeError::Device(error)) = stop else { return false };
    matches!(error, BlockDevError::Io { .. }) && error.class() == ExitClass::Io
}

/// Whether the device did not refuse the request.
fn served(result: Result<f64, MeasurementStop>) -> Result<bool, MeasurementStop> {
    match result {
        Ok(_) => Ok(true),
        Err(stop) if is_refusal(&stop) => Ok(false),
        Err(stop) => Err(stop),
    }
}

/// Fails if the device refuses all requests now: it is defective or was removed, which says nothing
/// about its capacity.
fn still_works(
    meter: &mut Meter<'_>,
    places: &[u64],
    lost: &[u64],
    run_number: u64,
) -> Result<(), MeasurementStop> {
    let kept = places.iter().find(|place| !lost.contains(place));
    if kept.is_none() {
        write_stamp(meter, places[0], run_number)?;
    }
    meter.read(*kept.unwrap_or(&places[0]), BLOCK)?;
    Ok(())
}

fn write_stamp(meter: &mut Meter<'_>, place: u64, run_number: u64) -> Result<f64, MeasurementStop> {
    let stamp = bytes_of(place, run_number);
    meter.write_stamped(SamplePurpose::WriteRandom, place, BLOCK, Some(&stamp))
}

/// `false` if the device refuses it.
fn stamp(meter: &mut Meter<'_>, place: u64, run_number: u64) -> Result<bool, MeasurementStop> {
    served(write_stamp(meter, place, run_number))
}

fn look(meter: &mut Meter<'_>, place: u64, run_number: u64) -> Result<Seen, MeasurementStop> {
    if !served(meter.read(place, BLOCK))? {
        return Ok(Seen::Lost);
    }
    let read = &meter.read_bytes()[..STAMP];
    let own = bytes_of(place, run_number);
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
fn least_wrap(meter: &mut Meter<'_>, wrap: u64, run_number: u64) -> Result<u64, MeasurementStop> {
    let start = meter.region().start.next_multiple_of(BLOCK);
    let mut least = wrap;
    while least % 2 == 0 && least / 2 >= GRAIN {
        let half = least / 2;
        if half % BLOCK != 0 {
            break;
        }
        stamp(meter, start, run_number)?;
        stamp(meter, start + half, run_number)?;
        if look(meter, start, run_number)? != Seen::Other(start + half) {
            break;
        }
        least = half;
    }
    Ok(least)
}

/// The end of the last block of which at least the start is kept, between a kept and a lost place.
fn bisect(
    meter: &mut Meter<'_>,
    between: Range<u64>,
    run_number: u64,
) -> Result<u64, MeasurementStop> {
    let Range { start: mut kept, end: mut lost } = between;
    while kept < lost {
        let middle = kept.midpoint(lost) / BLOCK * BLOCK;
        let is_taken = stamp(meter, middle, run_number)?;
        meter.flush()?;
        if is_taken && look(meter, middle, run_number)? == Seen::Own {
            kept = middle + BLOCK;
        } else {
            lost = middle;
        }
    }
    Ok(kept)
}

/// How many bytes of a block are kept, from its start.
fn kept_bytes(meter: &mut Meter<'_>, block: u64, run_number: u64) -> Result<u64, MeasurementStop> {
    let mut data = [0; BLOCK as usize];
    for (number, sector) in data.chunks_mut(SECTOR).enumerate() {
        let place = block + (number * SECTOR) as u64;
        sector[..STAMP].copy_from_slice(&bytes_of(place, run_number));
    }
    if !served(meter.write_data(SamplePurpose::WriteRandom, block, &data))? {
        return Ok(0);
    }
    meter.flush()?;
    meter.read(block, BLOCK)?;
    let sectors = data.chunks(SECTOR).zip(meter.read_bytes().chunks(SECTOR));
    let kept = sectors.take_while(|(written, read)| written[..STAMP] == read[..STAMP]).count();
    Ok((kept * SECTOR) as u64)
}

/// Whether places spread over this range lose what is written to them, all of them.
fn is_lost(
    meter: &mut Meter<'_>,
    range: Range<u64>,
    run_number: u64,
) -> Result<bool, MeasurementStop> {
    let step = (range.end - range.start) / CONFIRMING;
    let places = (0..CONFIRMING).map(|at| (range.start + at * step).next_multiple_of(BLOCK));
    let places: Vec<u64> = places.filter(|place| place + BLOCK <= range.end).collect();
    for &place in &places {
        stamp(meter, place, run_number)?;
    }
    meter.flush()?;
    for &place in &places {
        if look(meter, place, run_number)? != Seen::Lost {
            return Ok(false);
        }
    }
    Ok(true)
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}
