//! Read-only probes of drawn cards and of devices without geometry, for the figures 1, 2 and 5.
//!
//! A card is written from its start before it is probed, completely or up to a third, like cards in
//! use. The true geometry of every card is known. Limits: simulated times; see
//! [`cards`](super::cards) for how cards are drawn.

use flashfit_card::{Card, InProcessCard};
use flashfit_device::random::Random;
use flashfit_device::{BlockDev, BlockDevError, BlockDevInfo, Clock, VirtualClock};
use flashfit_geometry::probed::NoObserver;
use flashfit_geometry::reading::{ReadingOptions, probe};
use flashfit_geometry::{Probed, QuantityValue};

use super::cards::DrawnCard;

/// The result of a probe of a drawn card, with the true geometry.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The seed of the card and the probe.
    pub seed: u64,
    /// The erase block that was found, in bytes.
    pub erase_block: Option<u64>,
    /// The write unit that was found, in bytes.
    pub write_unit: Option<u64>,
    pub probed: Probed,
}

/// Runs the read-only probe on a drawn card.
///
/// # Panics
/// If the card cannot be written or probed.
pub fn probe_drawn(drawn: &DrawnCard, seed: u64) -> Outcome {
    let (mut card, clock) = in_use(drawn, seed);
    let options = ReadingOptions { seed, ..ReadingOptions::default() };
    let probed = probe(&mut card, &clock, &options, &mut NoObserver).expect("the card answers");
    let bytes = |value: Option<QuantityValue>| match value {
        Some(QuantityValue::Bytes(bytes)) => Some(bytes),
        _ => None,
    };
    Outcome {
        seed,
        erase_block: bytes(probed.findings.erase_block.value),
        write_unit: bytes(probed.findings.write_unit.value),
        probed,
    }
}

/// A drawn card, filled as for a probe, with its clock.
///
/// # Panics
/// If the card cannot be written.
pub fn in_use(drawn: &DrawnCard, seed: u64) -> (InProcessCard<VirtualClock>, VirtualClock) {
    let clock = VirtualClock::default();
    let mut card = InProcessCard::new(Card::counting(&drawn.model), clock.clone());
    fill(&mut card, Random::new(seed).below(3));
    (card, clock)
}

/// Writes a card sequentially up to this many thirds.
fn fill(card: &mut InProcessCard<VirtualClock>, thirds: u64) {
    let capacity = card.describe().capacity_bytes;
    let end = if thirds == 0 { capacity } else { capacity / 3 * thirds };
    // Whole write units: a page-mapped card starts a new one with each request.
    let write_unit = card.card().model().write_unit_bytes();
    let request = (1 << 20) / write_unit * write_unit;
    let data = vec![0; usize::try_from(request).expect("a megabyte")];
    let mut offset = 0;
    while offset < end {
        let length = usize::try_from(request.min(capacity - offset)).expect("a megabyte");
        card.write(offset, &data[..length]).expect("a new card can be written");
        offset += request;
    }
    card.flush().expect("a new card can be written");
}

/// The variation of times of a device without geometry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latency {
    Constant,
    /// Evenly, by up to half.
    Even,
    /// Mostly little, now and then a hundredfold.
    HeavyTailed,
    /// One of two times, as when a cache answers or not.
    Bimodal,
    /// Steadily more, by three times over a thousand reads.
    Drifting,
    /// More in every other 50 ms: work in the background.
    Periodic,
    /// More with the distance from the previous read: a disk's arm, or a cache of neighbors.
    Distance,
    /// More in one half of the device.
    Halves,
}

pub const LATENCIES: [Latency; 8] = [
    Latency::Constant,
    Latency::Even,
    Latency::HeavyTailed,
    Latency::Bimodal,
    Latency::Drifting,
    Latency::Periodic,
    Latency::Distance,
    Latency::Halves,
];

/// A device without geometry.
#[derive(Debug)]
pub struct Plain {
    capacity_bytes: u64,
    latency: Latency,
    clock: VirtualClock,
    random: Random,
    reads: u64,
    last: u64,
}

impl Plain {
    /// Of so many bytes.
    pub fn new(latency: Latency, capacity_bytes: u64, clock: VirtualClock, seed: u64) -> Self {
        Self { capacity_bytes, latency, clock, random: Random::new(seed), reads: 0, last: 0 }
    }

    fn time_ns(&mut self, offset: u64) -> u64 {
        let base_ns = 700_000;
        let chance = self.random.below(1000);
        let jitter_ns = chance * 50;
        let distance = offset.abs_diff(self.last);
        match self.latency {
            Latency::Constant => base_ns,
            Latency::Even => base_ns + base_ns / 2 * chance / 1000,
            Latency::HeavyTailed if chance < 30 => base_ns * (10 + 3 * chance),
            Latency::Bimodal if chance < 400 => base_ns / 2 + jitter_ns,
            Latency::HeavyTailed | Latency::Bimodal => base_ns + jitter_ns,
            Latency::Drifting => base_ns + self.reads * 1400 + jitter_ns,
            Latency::Periodic => {
                base_ns + self.clock.now_ns() / 50_000_000 % 2 * 300_000 + jitter_ns
            }
            Latency::Distance => base_ns + distance / 4096 + jitter_ns,
            Latency::Halves if offset > self.capacity_bytes / 2 => base_ns * 2 + jitter_ns,
            Latency::Halves => base_ns + jitter_ns,
        }
    }
}

impl BlockDev for Plain {
    fn describe(&self) -> BlockDevInfo {
        BlockDevInfo {
            capacity_bytes: self.capacity_bytes,
            sector_bytes: 512,
            discard_granularity_bytes: 0,
            volatile_cache: false,
        }
    }

    fn read(&mut self, offset: u64, _buffer: &mut [u8]) -> Result<(), BlockDevError> {
        let time_ns = self.time_ns(offset);
        self.reads += 1;
        self.last = offset;
        self.clock.sleep_ns(time_ns);
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError> {
        Err(BlockDevError::OutOfBounds { offset, length: data.len() as u64 })
    }

    fn flush(&mut self) -> Result<(), BlockDevError> {
        Ok(())
    }

    fn discard(&mut self, _offset: u64, _length: u64) -> Result<(), BlockDevError> {
        Err(BlockDevError::NoDiscard)
    }
}

/// Probes a device without geometry.
///
/// # Panics
/// If the probe fails.
pub fn probe_plain(latency: Latency, capacity_bytes: u64, seed: u64) -> Probed {
    let clock = VirtualClock::default();
    let mut device = Plain::new(latency, capacity_bytes, clock.clone(), seed);
    let options = ReadingOptions { seed, ..ReadingOptions::default() };
    probe(&mut device, &clock, &options, &mut NoObserver).expect("it answers")
}
