//! The probe by writing on devices that are fake, without geometry, shifted, small, or that go
//! away.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use flashfit_card::{Card, CardModel, InProcessCard};
use flashfit_catalog::Origin;
use flashfit_device::random::Random;
use flashfit_device::{BlockDev, BlockDevError, BlockDevInfo, Clock, VirtualClock};
use flashfit_geometry::findings::{QuantityValue, QuantityVerdict};
use flashfit_geometry::probed::{NoObserver, ProbeError, ProbeObserver, Probed};
use flashfit_geometry::writing::{self, WritingOptions};

const MIB: u64 = 1 << 20;

/// What becomes of a write.
#[derive(Debug, Clone, Copy)]
enum Fake {
    /// Addresses wrap at so many bytes.
    Wraps(u64),
    /// What lies beyond so many bytes is lost.
    Loses(u64),
    /// Nothing; but requests after so many fail.
    GoesAway(u64),
}

/// A device of memory, each request of which takes a time of chance.
struct Memory {
    clock: VirtualClock,
    capacity_bytes: u64,
    fake: Fake,
    random: Random,
    requests: u64,
    /// From the first to the last byte that was written.
    written: Option<Range<u64>>,
    written_bytes: u64,
    /// The first sector of each block of 4 KiB that is not zeros.
    blocks: BTreeMap<u64, [u8; 32]>,
}

impl Memory {
    fn new(clock: &VirtualClock, capacity_bytes: u64, fake: Fake) -> Self {
        Self {
            clock: clock.clone(),
            capacity_bytes,
            fake,
            random: Random::new(7),
            requests: 0,
            written: None,
            written_bytes: 0,
            blocks: BTreeMap::new(),
        }
    }

    fn place(&self, offset: u64) -> Option<u64> {
        match self.fake {
            Fake::Wraps(at) => Some(offset % at),
            Fake::Loses(at) => (offset < at).then_some(offset),
            Fake::GoesAway(_) => Some(offset),
        }
    }

    fn pass(&mut self, length: usize) -> Result<(), BlockDevError> {
        self.requests += 1;
        if matches!(self.fake, Fake::GoesAway(most) if self.requests > most) {
            return Err(BlockDevError::Disconnected("taken out".to_owned()));
        }
        let slow = if self.random.below(50) == 0 { 900_000 } else { 0 };
        self.clock.sleep_ns(40_000 + length as u64 * 10 + self.random.below(9000) + slow);
        Ok(())
    }
}

impl BlockDev for Memory {
    fn describe(&self) -> BlockDevInfo {
        BlockDevInfo {
            capacity_bytes: self.capacity_bytes,
            sector_bytes: 512,
            discard_granularity_bytes: 0,
            volatile_cache: false,
        }
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError> {
        self.pass(buffer.len())?;
        for (block, part) in (offset / 4096..).zip(buffer.chunks_mut(4096)) {
            let place = self.place(block * 4096);
            let held = place.and_then(|place| self.blocks.get(&(place / 4096)));
            part[..32].copy_from_slice(held.unwrap_or(&[0; 32]));
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError> {
        self.pass(data.len())?;
        let end = offset + data.len() as u64;
        let before = self.written.take().unwrap_or(offset..end);
        self.written = Some(before.start.min(offset)..before.end.max(end));
        self.written_bytes += data.len() as u64;
        for (block, part) in (offset / 4096..).zip(data.chunks(4096)) {
            if let Some(place) = self.place(block * 4096) {
                let mut held = [0; 32];
                held.copy_from_slice(&part[..32]);
                self.blocks.insert(place / 4096, held);
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BlockDevError> {
        Ok(())
    }

    fn discard(&mut self, _: u64, _: u64) -> Result<(), BlockDevError> {
        Err(BlockDevError::NoDiscard)
    }
}

fn probe_memory(capacity_bytes: u64, fake: Fake) -> Result<Probed, ProbeError> {
    let clock = VirtualClock::default();
    let mut memory = Memory::new(&clock, capacity_bytes, fake);
    let options = WritingOptions::whole(capacity_bytes, 5);
    writing::probe(&mut memory, &clock, &options, None, &mut NoObserver)
}

#[test]
fn a_fake_medium_is_told_by_its_real_capacity_and_nothing_else_is_measured() {
    for (fake, real) in [(Fake::Wraps(64 * MIB), 64), (Fake::Loses(100 * MIB), 100)] {
        let probed = probe_memory(1024 * MIB, fake).unwrap();
        let Some(QuantityValue::Bytes(found)) = probed.findings.capacity.value else {
            panic!("{:?}", probed.findings.capacity)
        };
        assert!(found.abs_diff(real * MIB) <= MIB, "{found} of {fake:?}");
        assert_ne!(probed.findings.erase_unit.verdict, QuantityVerdict::Found);
        assert!(probed.written_bytes < 64 * MIB);
    }
}

#[test]
fn a_medium_without_geometry_has_none() {
    let probed = probe_memory(256 * MIB, Fake::Loses(u64::MAX)).unwrap();
    let findings = &probed.findings;
    assert_eq!(findings.capacity.value, Some(QuantityValue::Bytes(256 * MIB)));
    for finding in [&findings.erase_unit, &findings.open_units_linear, &findings.open_units_random]
    {
        assert_eq!(finding.value, None, "{finding:?}");
        assert!(!finding.reason.is_empty());
    }
}

#[test]
fn a_medium_that_goes_away_is_an_error() {
    let error = probe_memory(256 * MIB, Fake::GoesAway(300)).unwrap_err();
    assert!(matches!(error, ProbeError::Vanished { requests: 300, .. }), "{error}");
}

#[test]
fn nothing_outside_the_region_is_written_and_no_more_than_is_allowed() {
    let clock = VirtualClock::default();
    let mut memory = Memory::new(&clock, 1024 * MIB, Fake::Loses(u64::MAX));
    let region = 100 * MIB + 512..400 * MIB + 1536;
    for max_write_bytes in [0, 10 * MIB, 300 * MIB] {
        let options = WritingOptions {
            region: region.clone(),
            max_write_bytes,
            ..WritingOptions::whole(1024 * MIB, 3)
        };
        let before = memory.written_bytes;
        let probed = writing::probe(&mut memory, &clock, &options, None, &mut NoObserver).unwrap();
        assert_eq!(memory.written_bytes - before, probed.written_bytes);
        assert!(probed.written_bytes <= max_write_bytes);
        assert!(probed.notes.iter().any(|note| note.contains("allowed")), "{:?}", probed.notes);
    }
    let written = memory.written.unwrap();
    assert!(region.start <= written.start && written.end <= region.end);
}

#[test]
fn a_region_that_is_none_is_refused_before_anything_is_written() {
    let clock = VirtualClock::default();
    let mut memory = Memory::new(&clock, 256 * MIB, Fake::Loses(u64::MAX));
    for region in [0..257 * MIB, 5..128 * MIB, 9 * MIB..9 * MIB, 0..MIB] {
        let options = WritingOptions { region, ..WritingOptions::whole(256 * MIB, 3) };
        let error = writing::probe(&mut memory, &clock, &options, None, &mut NoObserver);
        assert!(matches!(error, Err(ProbeError::Region { .. } | ProbeError::TooSmall { .. })));
    }
    assert_eq!(memory.requests, 0);
}

/// Ends the probe after so many steps.
struct Impatient(u32);

impl ProbeObserver for Impatient {
    fn step(&mut self, done: f64, what: &str) -> ControlFlow<()> {
        assert!((0.0..=1.0).contains(&done) && !what.is_empty());
        self.0 -= 1;
        if self.0 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn whoever_looks_on_can_end_it() {
    let clock = VirtualClock::default();
    let mut memory = Memory::new(&clock, 256 * MIB, Fake::Loses(u64::MAX));
    let options = WritingOptions::whole(256 * MIB, 5);
    let error = writing::probe(&mut memory, &clock, &options, None, &mut Impatient(40));
    assert!(matches!(error, Err(ProbeError::Interrupted)));
}

/// A device that begins before the card: as a card whose first unit is cut, or behind a partition.
struct Shifted<D> {
    card: D,
    by: u64,
}

impl<D: BlockDev> BlockDev for Shifted<D> {
    fn describe(&self) -> BlockDevInfo {
        let inner = self.card.describe();
        BlockDevInfo { capacity_bytes: inner.capacity_bytes - self.by, ..inner }
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError> {
        self.card.read(offset + self.by, buffer)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError> {
        self.card.write(offset + self.by, data)
    }

    fn flush(&mut self) -> Result<(), BlockDevError> {
        self.card.flush()
    }

    fn discard(&mut self, offset: u64, length: u64) -> Result<(), BlockDevError> {
        self.card.discard(offset + self.by, length)
    }
}

const CARD: &str = "name = \"test\"\ntitle = \"test\"\nsource = \"test\"\ncapacity = \"512MiB\"
sector_bytes = 512\n[nand]\npage = \"16KiB\"\nerase_unit = \"4MiB\"\nread_ns = 60_000
program_ns = 1_300_000\nerase_ns = 3_000_000\nendurance_cycles = 3000\nspare_units = 12
[bus]\ncommand_ns = 600_000\nbytes_per_second = 20_000_000\n[layer]\n";

fn card(rest: &str) -> (InProcessCard<VirtualClock>, VirtualClock) {
    let text = format!("{CARD}{rest}");
    let model = CardModel::parse(&text, &Origin::File("test".into())).expect("a card file");
    let clock = VirtualClock::default();
    (InProcessCard::new(Card::counting(&model), clock.clone()), clock)
}

fn options(device: &impl BlockDev) -> WritingOptions {
    let capacity_bytes = device.describe().capacity_bytes;
    // A card that keeps no bytes cannot show its capacity.
    WritingOptions { check_capacity: false, ..WritingOptions::whole(capacity_bytes, 11) }
}

#[test]
fn units_that_do_not_begin_with_the_medium_are_found_with_their_offset() {
    let (inner, clock) = card("kind = \"block-mapped\"\nopen_units = 3\n");
    let mut shifted = Shifted { card: inner, by: 3 * MIB };
    let options = options(&shifted);
    let probed = writing::probe(&mut shifted, &clock, &options, None, &mut NoObserver).unwrap();
    let findings = &probed.findings;
    assert_eq!(
        findings.erase_unit.value,
        Some(QuantityValue::Bytes(4 * MIB)),
        "{:?}",
        findings.erase_unit
    );
    assert_eq!(findings.erase_unit_offset.value, Some(QuantityValue::Bytes(MIB)));
    assert_eq!(findings.open_units_linear.value, Some(QuantityValue::Count(3)));
}

#[test]
fn a_log_for_small_writes_and_a_zone_are_found() {
    let (mut device, clock) = card(
        "kind = \"log-block\"\nopen_units = 4\nopen_units_random = 2\nlog_units = 2\n\
         log_request = \"16KiB\"\n[zone]\nunits = 2\nspare_units = 2\n",
    );
    let options = options(&device);
    let probed = writing::probe(&mut device, &clock, &options, None, &mut NoObserver).unwrap();
    let findings = &probed.findings;
    assert_eq!(
        findings.erase_unit.value,
        Some(QuantityValue::Bytes(4 * MIB)),
        "{:?}",
        findings.erase_unit
    );
    assert_eq!(findings.open_units_linear.value, Some(QuantityValue::Count(4)));
    assert_eq!(findings.open_units_random.value, Some(QuantityValue::Count(2)));
    assert_eq!(findings.small_write_log.value, Some(QuantityValue::Bytes(16 << 10)));
    assert_eq!(findings.special_zone.value, Some(QuantityValue::Bytes(8 * MIB)));
    assert_eq!(findings.unwritten_is_faster.value, Some(QuantityValue::Is(true)));
}

#[test]
fn a_page_mapped_card_is_told_by_its_erasures_and_the_units_of_an_update_log_by_their_parts() {
    let (mut device, clock) = card("kind = \"page-mapped\"\n");
    let page = options(&device);
    let probed = writing::probe(&mut device, &clock, &page, None, &mut NoObserver).unwrap();
    let found = &probed.findings.erase_unit;
    assert_eq!(found.value, Some(QuantityValue::Bytes(4 * MIB)), "{found:?}");
    assert_eq!(probed.findings.write_unit.value, Some(QuantityValue::Bytes(16 << 10)));
    assert_eq!(probed.findings.erase_unit_offset.value, None);
    let (mut device, clock) = card(
        "kind = \"update-log\"\nopen_units = 4\nlog_units = 2\nlog_request = \"8KiB\"\n\
         chunk = \"512KiB\"\n",
    );
    let update = options(&device);
    let probed = writing::probe(&mut device, &clock, &update, None, &mut NoObserver).unwrap();
    let found = &probed.findings.erase_unit;
    assert_eq!(found.value, Some(QuantityValue::Bytes(4 * MIB)), "{found:?}");
}

#[test]
fn one_seed_is_one_probe() {
    let run = || {
        let (mut device, clock) = card("kind = \"block-mapped\"\nopen_units = 2\n");
        let options = options(&device);
        writing::probe(&mut device, &clock, &options, None, &mut NoObserver).unwrap()
    };
    let (one, other) = (run(), run());
    assert_eq!(one.findings, other.findings);
    assert_eq!(one.elapsed_ns, other.elapsed_ns);
    assert!(one.evidence.samples == other.evidence.samples && !one.evidence.samples.is_empty());
}

#[test]
fn time_is_that_of_the_clock() {
    let (mut device, clock) = card("kind = \"block-mapped\"\nopen_units = 2\n");
    clock.sleep_ns(12_345);
    let from_ns = clock.now_ns();
    let options = options(&device);
    let probed = writing::probe(&mut device, &clock, &options, None, &mut NoObserver).unwrap();
    assert_eq!(probed.elapsed_ns, clock.now_ns() - from_ns);
}
