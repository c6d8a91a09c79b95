//! The figures of a card that was written all over once: sequential and random requests, and
//! flashbench's open-unit table.
//!
//! Limits: one request at a time, also on a card with a command queue; no idle time between
//! requests.

use flashfit_card::{Card, CardModel, InProcessCard};
use flashfit_geometry::flashbench::{OpenUnitProcedure, OpenUnitTable};
use flashfit_medium::random::Random;
use flashfit_medium::{BlockDev, BlockDevError, Bytes, VirtualClock};
use serde::Serialize;

use crate::failure::Failure;

const SEQUENTIAL: Bytes = Bytes::mib(1);
const RANDOM: Bytes = Bytes(4 << 10);
/// Enough for a card to show what it does beyond its caches and open units.
const RANDOM_REQUESTS: u64 = 4096;

/// What a card does with simple patterns. All of it is simulated.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Writes of 1 MiB one behind the other, flushed at the end.
    pub sequential_write_bytes_per_second: u64,
    /// Reads of 1 MiB one behind the other.
    pub sequential_read_bytes_per_second: u64,
    /// Writes of 4 KiB all over the card, each flushed where it has a volatile cache.
    pub random_writes_per_second: u64,
    /// Reads of 4 KiB all over the card.
    pub random_reads_per_second: u64,
    /// What these random writes cost in the NAND, in thousandths.
    pub random_write_amplification_thousandths: Option<u64>,
    /// The open-unit table.
    pub open_units: OpenUnitTable,
}

type Device = InProcessCard<VirtualClock>;

/// Measures a model, from a card as it leaves the factory.
pub fn figures(
    model: &CardModel,
    most_units: u32,
    least_write: Bytes,
    seed: u64,
) -> Result<Figures, Failure> {
    let mut device = used(model)?;
    let procedure =
        OpenUnitProcedure { erase_unit: model.nand.erase_unit, least_write, most_units, seed };
    let clock = device.clock().clone();
    let open_units = procedure.run(&mut device, &clock)?;
    let mut device = used(model)?;
    let (write_ns, read_ns) = (sequential(&mut device, true)?, sequential(&mut device, false)?);
    let capacity = model.capacity.0;
    device.card_mut().reset_counters();
    let random_write_ns = random(&mut device, seed, true)?;
    let counters = device.card().counters();
    let random_read_ns = random(&mut device, seed, false)?;
    Ok(Figures {
        sequential_write_bytes_per_second: per_second(capacity, write_ns),
        sequential_read_bytes_per_second: per_second(capacity, read_ns),
        random_writes_per_second: per_second(RANDOM_REQUESTS, random_write_ns),
        random_reads_per_second: per_second(RANDOM_REQUESTS, random_read_ns),
        random_write_amplification_thousandths: counters.write_amplification_thousandths,
        open_units,
    })
}

fn per_second(count: u64, time_ns: u64) -> u64 {
    let rate = u128::from(count) * 1_000_000_000 / u128::from(time_ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// A card that was written all over once. Its bytes are not kept: only times and counts matter.
fn used(model: &CardModel) -> Result<Device, BlockDevError> {
    let mut device = InProcessCard::new(Card::counting(model), VirtualClock::default());
    sequential(&mut device, true)?;
    Ok(device)
}

fn sequential(device: &mut Device, write: bool) -> Result<u64, BlockDevError> {
    let capacity = device.describe().capacity_bytes;
    let begin_ns = device.card().done_ns();
    let mut buffer = vec![0x5a; SEQUENTIAL.0 as usize];
    for offset in (0..capacity).step_by(buffer.len()) {
        let length = (capacity - offset).min(SEQUENTIAL.0) as usize;
        if write {
            device.write(offset, &buffer[..length])?;
        } else {
            device.read(offset, &mut buffer[..length])?;
        }
    }
    if write {
        device.flush()?;
    }
    Ok(device.card().done_ns() - begin_ns)
}

fn random(device: &mut Device, seed: u64, write: bool) -> Result<u64, BlockDevError> {
    let description = device.describe();
    let begin_ns = device.card().done_ns();
    let mut random = Random::new(seed);
    let mut buffer = vec![0x5a; RANDOM.0 as usize];
    for _ in 0..RANDOM_REQUESTS {
        let offset = random.below(description.capacity_bytes / RANDOM.0) * RANDOM.0;
        if write {
            device.write(offset, &buffer)?;
            if description.volatile_cache {
                device.flush()?;
            }
        } else {
            device.read(offset, &mut buffer)?;
        }
    }
    Ok(device.card().done_ns() - begin_ns)
}
