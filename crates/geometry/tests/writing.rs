//! The writing probe on devices that are fake, without geometry, shifted, small, or removed.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use flashfit_card::{Card, CardModel, InProcessCard, catalog};
use flashfit_catalog::Origin;
use flashfit_device::random::Random;
use flashfit_device::{BlockDev, BlockDevError, BlockDevInfo, Clock, VirtualClock};
use flashfit_geometry::findings::{QuantityValue, QuantityVerdict};
use flashfit_geometry::probed::{NoObserver, ProbeError, ProbeObserver, Probed};
use flashfit_geometry::writing::{self, WritingOptions};

const MIB: u64 = 1 << 20;

/// The defect of a fake device.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Addresses wrap at this size.
    Wraps(u64),
    /// Writes beyond this size are lost.
    Loses(u64),
    /// Requests fail after this many.
    GoesAway(u64),
}

/// A device in memory with random request times.
struct Memory {
    clock: VirtualClock,
    capacity_bytes: u64,
    fake: Fault,
    random: Random,
    requests: u64,
    /// The range of bytes written.
    written: Option<Range<u64>>,
    written_bytes: u64,
    /// The first sector of each nonzero block of 4 KiB.
    blocks: BTreeMap<u64, [u8; 32]>,
}

impl Memory {
    fn new(clock: &VirtualClock, capacity_bytes: u64, fake: Fault) -> Self {
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
            Fault::Wraps(at) => Some(offset % at),
            Fault::Loses(at) => (offset < at).then_some(offset),
            Fault::GoesAway(_) => Some(offset),
        }
    }

    fn pass(&mut self, length: usize) -> Result<(), BlockDevError> {
        self.requests += 1;
        if matches!(self.fake, Fault::GoesAway(most) if self.requests > most) {
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

fn probe_memory(capacity_bytes: u64, fake: Fault) -> Result<Probed, ProbeError> {
    let clock = VirtualClock::default();
    let mut memory = Memory::new(&clock, capacity_bytes, fake);
    let options = WritingOptions::whole(capacity_bytes, 5);
    writing::probe(&mut memory, &clock, &options, None, &mut NoObserver)
}

#[test]
fn a_fake_device_gets_its_real_capacity_and_no_other_measurements() {
    for (fake, real) in [(Fault::Wraps(64 * MIB), 64), (Fault::Loses(100 * MIB), 100)] {
        let probed = probe_memory(1024 * MIB, fake).unwrap();
        let Some(QuantityValue::Bytes(found)) = probed.findings.capacity.value else {
            panic!("{:?}", probed.findings.capacity)
        };
        assert!(found.abs_diff(real * MIB) <= MIB, "{found} of {fake:?}");
        assert_ne!(probed.findings.erase_block.verdict, QuantityVerdict::Found);
        assert!(probed.written_bytes < 64 * MIB);
    }
}

#[test]
fn addresses_that_wrap_anywhere_reveal_the_real_capacity() {
    let reals = [5 * MIB, 33 * MIB + 4096, 100 * MIB, 511 * MIB, 777 * MIB + 12288];
    for real in reals.into_iter().chain([1000 * MIB, 1023 * MIB]) {
        let probed = probe_memory(1024 * MIB, Fault::Wraps(real)).unwrap();
        let found = probed.findings.capacity;
        assert_eq!(found.value, Some(QuantityValue::Bytes(real)), "{real}: {found:?}");
    }
}

#[test]
fn a_device_without_geometry_gets_no_findings() {
    let probed = probe_memory(256 * MIB, Fault::Loses(u64::MAX)).unwrap();
    let findings = &probed.findings;
    assert_eq!(findings.capacity.value, Some(QuantityValue::Bytes(256 * MIB)));
    for finding in [
        &findings.erase_block,
        &findings.open_erase_blocks_linear,
        &findings.open_erase_blocks_random,
    ] {
        assert_eq!(finding.value, None, "{finding:?}");
        assert!(!finding.reason.is_empty());
    }
}

#[test]
fn a_removed_device_is_an_error() {
    let error = probe_memory(256 * MIB, Fault::GoesAway(300)).unwrap_err();
    let ProbeError::EndedEarly { error, found } = error else { panic!("{error}") };
    assert!(matches!(*error, ProbeError::Vanished { requests: 300, .. }), "{error}");
    assert_eq!(found.errors.len(), 1);
}

#[test]
fn writes_stay_within_the_region_and_the_budget() {
    let clock = VirtualClock::default();
    let mut memory = Memory::new(&clock, 1024 * MIB, Fault::Loses(u64::MAX));
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
        assert!(
            probed.notes.iter().any(|note| note.contains("write budget")),
            "{:?}",
            probed.notes
        );
    }
    let written = memory.written.unwrap();
    assert!(region.start <= written.start && written.end <= region.end);
}

#[test]
fn invalid_regions_are_rejected_before_anything_is_written() {
    let clock = VirtualClock::default();
    let mut memory = Memory::new(&clock, 256 * MIB, Fault::Loses(u64::MAX));
    for region in [0..257 * MIB, 5..128 * MIB, 9 * MIB..9 * MIB, 0..MIB] {
        let options = WritingOptions { region, ..WritingOptions::whole(256 * MIB, 3) };
        let error = writing::probe(&mut memory, &clock, &options, None, &mut NoObserver);
        assert!(matches!(error, Err(ProbeError::Region { .. } | ProbeError::TooSmall { .. })));
    }
    assert_eq!(memory.requests, 0);
}

/// Interrupts the probe after this many steps.
struct InterruptAfter(u32);

impl ProbeObserver for InterruptAfter {
    fn step(&mut self, done: f64, what: &str) -> ControlFlow<()> {
        assert!((0.0..=1.0).contains(&done) && !what.is_empty());
        self.0 -= 1;
        if self.0 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn an_observer_can_interrupt_the_probe() {
    let clock = VirtualClock::default();
    let mut memory = Memory::new(&clock, 256 * MIB, Fault::Loses(u64::MAX));
    let options = WritingOptions::whole(256 * MIB, 5);
    // After the check of the capacity.
    let probed = writing::probe(&mut memory, &clock, &options, None, &mut InterruptAfter(120));
    let probed = probed.unwrap();
    assert!(probed.interrupted && probed.written_bytes > 0, "{}", probed.written_bytes);
    assert_eq!(probed.written_bytes, memory.written_bytes);
    assert_eq!(probed.findings.capacity.verdict, QuantityVerdict::Found);
    assert!(probed.findings.pslc_cache.reason.contains("interrupted"), "{:?}", probed.findings);
}

/// Extends the time limit once.
struct Extending(u32);

impl ProbeObserver for Extending {
    fn step(&mut self, _: f64, _: &str) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn extend(&mut self, elapsed_ns: u64) -> Option<u64> {
        self.0 += 1;
        (self.0 == 1).then_some(elapsed_ns)
    }
}

#[test]
fn a_time_limit_ends_the_probe_unless_it_is_extended() {
    let limit_ns = 3_000_000_000;
    let options =
        WritingOptions { max_time_ns: Some(limit_ns), ..WritingOptions::whole(256 * MIB, 5) };
    let run = |observer: &mut dyn ProbeObserver| {
        let clock = VirtualClock::default();
        let mut memory = Memory::new(&clock, 256 * MIB, Fault::Loses(u64::MAX));
        writing::probe(&mut memory, &clock, &options, None, observer).unwrap()
    };
    for (probed, most_ns) in
        [(run(&mut NoObserver), limit_ns), (run(&mut Extending(0)), 2 * limit_ns)]
    {
        assert!(probed.elapsed_ns >= most_ns - limit_ns / 2, "{}", probed.elapsed_ns);
        assert!(probed.elapsed_ns < most_ns + limit_ns / 10, "{}", probed.elapsed_ns);
        assert!(probed.notes.iter().any(|note| note.contains("time limit")));
        assert!(!probed.interrupted);
    }
}

/// A device that starts before the card, like a card with a truncated first unit.
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
    // The capacity check needs stored data, which this card does not keep.
    WritingOptions { check_capacity: false, ..WritingOptions::whole(capacity_bytes, 11) }
}

#[test]
fn shifted_units_are_found_with_their_offset() {
    let (inner, clock) = card("kind = \"block-mapped\"\nopen_units = 3\n");
    let mut shifted = Shifted { card: inner, by: 3 * MIB };
    let options = options(&shifted);
    let probed = writing::probe(&mut shifted, &clock, &options, None, &mut NoObserver).unwrap();
    let findings = &probed.findings;
    assert_eq!(
        findings.erase_block.value,
        Some(QuantityValue::Bytes(4 * MIB)),
        "{:?}",
        findings.erase_block
    );
    assert_eq!(findings.erase_block_offset.value, Some(QuantityValue::Bytes(MIB)));
    assert_eq!(findings.open_erase_blocks_linear.value, Some(QuantityValue::Count(3)));
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
        findings.erase_block.value,
        Some(QuantityValue::Bytes(4 * MIB)),
        "{:?}",
        findings.erase_block
    );
    assert_eq!(findings.open_erase_blocks_linear.value, Some(QuantityValue::Count(4)));
    assert_eq!(findings.open_erase_blocks_random.value, Some(QuantityValue::Count(2)));
    assert_eq!(findings.small_write_log.value, Some(QuantityValue::Bytes(16 << 10)));
    assert_eq!(findings.special_zone.value, Some(QuantityValue::Bytes(8 * MIB)));
    assert_eq!(findings.unwritten_is_faster.value, Some(QuantityValue::Is(true)));
}

#[test]
fn page_mapped_cards_are_found_by_erasures_and_update_logs_by_parts() {
    let (mut device, clock) = card("kind = \"page-mapped\"\n");
    let page = options(&device);
    let probed = writing::probe(&mut device, &clock, &page, None, &mut NoObserver).unwrap();
    let found = &probed.findings.erase_block;
    assert_eq!(found.value, Some(QuantityValue::Bytes(4 * MIB)), "{found:?}");
    assert_eq!(probed.findings.write_unit.value, Some(QuantityValue::Bytes(16 << 10)));
    assert_eq!(probed.findings.erase_block_offset.value, None);
    let (mut device, clock) = card(
        "kind = \"update-log\"\nopen_units = 4\nlog_units = 2\nlog_request = \"8KiB\"\n\
         chunk = \"512KiB\"\n",
    );
    let update = options(&device);
    let probed = writing::probe(&mut device, &clock, &update, None, &mut NoObserver).unwrap();
    let found = &probed.findings.erase_block;
    assert_eq!(found.value, Some(QuantityValue::Bytes(4 * MIB)), "{found:?}");
}

/// A fast area of a few blocks looks like a log for small writes, which would mean that each cell
/// stores one bit, and a smaller erase block.
#[test]
fn a_small_fast_area_hides_no_bits_per_cell() {
    let area = "spare_units = 60\n[nand.pslc]\nunits = 4\nread_ns = 40_000\n\
                program_ns = 200_000\nerase_ns = 5_000_000\nendurance_cycles = 30_000";
    for (cell, dies, unit_mib) in [("mlc", 1, 4), ("mlc", 4, 6), ("tlc", 4, 6), ("qlc", 1, 16)] {
        let flash = format!("[nand]\ncell = \"{cell}\"\nplanes = 2\ndies = {dies}");
        let capacity = 80 * unit_mib * MIB;
        let text = CARD
            .replace("\"512MiB\"", &capacity.to_string())
            .replace("\"4MiB\"", &(unit_mib * MIB).to_string())
            .replace("[nand]", &flash)
            .replace("program_ns = 1_300_000", "program_ns = 800_000")
            .replace("spare_units = 12", area)
            .replace("command_ns = 600_000", "command_ns = 283_000");
        let text = format!("{text}kind = \"page-mapped\"\n");
        let model = CardModel::parse(&text, &Origin::File("test".into())).expect("a card file");
        let unit = QuantityValue::Bytes(unit_mib * MIB);
        for seed in [1, 2] {
            let found = probe_region(&model, 0..capacity, seed).findings.erase_block;
            assert!(
                found.value.is_none_or(|value| value == unit),
                "{cell}, {unit_mib} MiB, {seed}: {found:?}"
            );
        }
    }
}

#[test]
fn a_seed_determines_the_probe() {
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
fn times_come_from_the_given_clock() {
    let (mut device, clock) = card("kind = \"block-mapped\"\nopen_units = 2\n");
    clock.sleep_ns(12_345);
    let from_ns = clock.now_ns();
    let options = options(&device);
    let probed = writing::probe(&mut device, &clock, &options, None, &mut NoObserver).unwrap();
    assert_eq!(probed.elapsed_ns, clock.now_ns() - from_ns);
}

fn probe_region(model: &CardModel, region: Range<u64>, seed: u64) -> Probed {
    let clock = VirtualClock::default();
    let mut device = InProcessCard::new(Card::counting(model), clock.clone());
    let options = WritingOptions {
        max_write_bytes: writing::default_max_write_bytes(region.end - region.start),
        region,
        seed,
        check_capacity: false,
        compressible: true,
        ..WritingOptions::whole(model.capacity.0, seed)
    };
    writing::probe(&mut device, &clock, &options, None, &mut NoObserver).expect("a card that works")
}

/// Where hardly more erase blocks fit than are open, merges are rare, look like erasures, and agree
/// with smaller sizes.
#[test]
fn a_window_of_few_erase_blocks_gives_no_wrong_answer() {
    for (name, start, length) in [
        ("sd-c4-block", 0, 16),
        ("sd-c4-block", 0, 20),
        ("sd-c4-block", 3, 20),
        ("usb-cheap", 0, 20),
        ("usb-cheap", 3, 20),
        ("usb-cheap", 5, 40),
        ("usb-cheap", 10, 48),
        ("sd-sandisk-c4", 0, 16),
        ("sd-sandisk-c4", 0, 20),
    ] {
        let model = catalog::load(name, None).unwrap();
        let unit = QuantityValue::Bytes(model.erase_block_bytes());
        for seed in [1, 4] {
            let region = start * MIB..(start + length) * MIB;
            let found = probe_region(&model, region, seed).findings.erase_block;
            assert!(
                found.value.is_none_or(|value| value == unit),
                "{name} {start}+{length} MiB, {seed}: {found:?}"
            );
        }
    }
}

/// In a small window, many writes go to erase blocks that are open already.
#[test]
fn a_window_of_few_erase_blocks_shows_no_log_that_is_not_there() {
    let model = catalog::load("sd-c4-block", None).unwrap();
    for (start, length) in [(5, 40), (1, 33), (10, 48)] {
        for seed in 1..4 {
            let region = start * MIB..(start + length) * MIB;
            let found = probe_region(&model, region, seed).findings.small_write_log;
            assert_eq!(found.value, None, "{start}+{length} MiB, {seed}: {found:?}");
        }
    }
}

/// Of two consecutive writes, the second fits into the buffer that the first emptied.
#[test]
fn a_write_buffer_of_one_write_unit_is_no_log() {
    let text = CARD
        .replace("[nand]", "[nand]\nplanes = 4")
        .replace("spare_units = 12", "spare_units = 60");
    let text = format!(
        "{text}kind = \"block-mapped\"\nopen_units = 4\nopen_units_random = 1\n[cache]\n\
         bytes = \"64KiB\"\norder = \"unordered\"\nflush_ns = 100_000\nundeclared = true\n"
    );
    let model = CardModel::parse(&text, &Origin::File("test".into())).expect("a card file");
    for seed in 1..5 {
        let found = probe_region(&model, 0..model.capacity.0, seed).findings.small_write_log;
        assert_eq!(found.value, None, "{seed}: {found:?}");
    }
}
