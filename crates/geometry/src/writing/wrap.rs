//! Finds by which distances the addresses of a fake device wrap, whatever its real capacity is.
//!
//! Single blocks meet only if their distance happens to be a multiple of the real capacity. So a
//! long run of sectors, each stamped with its position, is written at the end of the region. If
//! addresses wrap, it also appears below, and reads at a quarter of its length find it there. The
//! run is long enough that the newest half evicts the other one from a small cache. Limits: only
//! places within the region are read; a device that wraps below an eighth of a run is judged by
//! single blocks alone.

use super::meter::{LARGEST_REQUEST, MeasurementStop, Meter};
use crate::probed::SamplePurpose;

/// Different from the mark of single blocks, which is left in other writes.
const MARK: &[u8; 8] = b"flashrun";
const STAMP: usize = 24;
/// Every possible sector starts with a stamp.
const SECTOR: usize = 512;
const READ: u64 = 4096;
/// Bytes that are written in the time of a read: this makes writing and reading take equally long.
const BYTES_PER_READ: u64 = 10_000;
const RUN: [u64; 2] = [4 << 20, 256 << 20];
/// The largest share of the region and of the write budget.
const SHARE: u64 = 8;
/// Reads per run.
const READS: u64 = 4;

/// The length of the run in a region of this size, with so much left of the write budget.
pub fn run_bytes(region_bytes: u64, left_bytes: u64) -> u64 {
    let balanced = READS.saturating_mul(region_bytes).saturating_mul(BYTES_PER_READ).isqrt();
    let most = (region_bytes / SHARE).min(left_bytes / SHARE);
    balanced.clamp(RUN[0], RUN[1]).min(most) / READ * READ
}

/// Distances of places at which the same data appears.
pub fn distances(meter: &mut Meter<'_>, run_number: u64) -> Result<Vec<u64>, MeasurementStop> {
    let region = meter.region();
    let room = region.end - region.start;
    let run = run_bytes(room, meter.left_bytes());
    let start = (region.end - run) / READ * READ;
    if run < READS * READ || start < region.start {
        return Ok(Vec::new());
    }
    let mut data = vec![0; usize::try_from(LARGEST_REQUEST.min(run)).expect("a request")];
    let mut at = start;
    while at + READ <= region.end {
        let length = (region.end - at).min(data.len() as u64) / READ * READ;
        let request = &mut data[..usize::try_from(length).expect("a request")];
        for (number, sector) in request.chunks_mut(SECTOR).enumerate() {
            sector[..STAMP].copy_from_slice(&stamp(at + (number * SECTOR) as u64, run_number));
        }
        meter.write_data(SamplePurpose::WriteLinear, at, request)?;
        at += length;
    }
    meter.flush()?;
    let mut distances = Vec::new();
    let mut place = region.start.next_multiple_of(READ);
    while place + READ <= start {
        meter.read(place, READ)?;
        distances
            .extend(stamped(meter.read_bytes(), run_number).and_then(|of| of.checked_sub(place)));
        place += (run / READS).next_multiple_of(READ);
    }
    distances.retain(|distance| *distance > 0);
    Ok(distances)
}

fn stamp(place: u64, run_number: u64) -> [u8; STAMP] {
    let mut bytes = [0; STAMP];
    bytes[..8].copy_from_slice(MARK);
    bytes[8..16].copy_from_slice(&run_number.to_le_bytes());
    bytes[16..].copy_from_slice(&place.to_le_bytes());
    bytes
}

/// The place for which this was written.
fn stamped(read: &[u8], run_number: u64) -> Option<u64> {
    let place = u64::from_le_bytes(read.get(16..STAMP)?.try_into().ok()?);
    (read[..STAMP] == stamp(place, run_number)).then_some(place)
}
