//! The read-only probe on cards of known geometry, on devices without any, and on faulty devices.
//!
//! Uses a few dozen development seeds; `make accuracy` measures the accuracy.

#[path = "../benches/accuracy/cards.rs"]
#[expect(dead_code, reason = "the figures use the rest")]
mod cards;
#[path = "../benches/accuracy/reading.rs"]
#[expect(dead_code, reason = "the figures use the rest")]
mod probes;

use std::collections::HashSet;
use std::ops::ControlFlow;

use flashfit_card::{Card, CardModel, InProcessCard};
use flashfit_catalog::Origin;
use flashfit_device::{BlockDev, BlockDevError, BlockDevInfo, Clock, VirtualClock};
use flashfit_geometry::probed::NoObserver;
use flashfit_geometry::reading::{ReadingOptions, most_reads, probe, usual_reads};
use flashfit_geometry::{ProbeError, ProbeObserver, Probed, QuantityValue, QuantityVerdict};
use probes::{LATENCIES, Latency, Plain};

/// Development seeds.
const CARDS: std::ops::Range<u64> = 900..cards::DEVELOPMENT;

/// Cards with sectors of 4 KiB and small units.
#[test]
fn only_whole_sectors_are_read() {
    for seed in [6296, 6461] {
        let drawn = cards::draw(seed);
        assert_eq!(drawn.model.sector_bytes, 4096);
        let probed = probes::probe_drawn(&drawn, seed).probed;
        assert!(probed.errors.is_empty(), "{seed}: {:?}", probed.errors[0]);
    }
}

#[test]
fn answers_for_random_cards_are_correct() {
    let (mut all_reads, mut all_usual_reads) = (0, 0);
    let (mut shown, mut answered, mut wrong) = (0, 0, Vec::new());
    for seed in CARDS {
        let drawn = cards::draw(seed);
        // Large cards take long to write.
        if drawn.model.capacity.0 > 600 << 20 {
            continue;
        }
        let outcome = probes::probe_drawn(&drawn, seed);
        let truth = drawn.model.erase_block_bytes();
        if drawn.shows_units_to_readers {
            shown += 1;
            answered += u32::from(outcome.erase_block.is_some());
        }
        if outcome.erase_block.is_some_and(|unit| unit != truth) {
            wrong.push((outcome.seed, outcome.erase_block, truth));
        }
        let (reads, capacity) = (outcome.probed.reads, drawn.model.capacity.0);
        assert!(reads <= most_reads(capacity));
        all_reads += reads;
        all_usual_reads += usual_reads(capacity);
    }
    // Few probes extend their budget.
    assert!(all_reads <= 2 * all_usual_reads, "{all_reads} reads, usual are {all_usual_reads}");
    assert!(shown >= 5, "{shown}");
    assert!(answered * 10 >= shown * 7, "{answered} of {shown}");
    assert_eq!(wrong, []);
    const { assert!(cards::DEVELOPMENT < cards::EVALUATION) };
}

#[test]
fn devices_without_geometry_get_no_answer() {
    for latency in LATENCIES {
        for seed in 0..3 {
            let probed = probes::probe_plain(latency, (256 << 20) << (2 * seed), seed);
            let findings = &probed.findings;
            for finding in [&findings.erase_block, &findings.write_unit, &findings.page] {
                assert_eq!(
                    finding.verdict,
                    QuantityVerdict::Inconclusive,
                    "{latency:?} {finding:?}"
                );
                assert!(!finding.reason.is_empty());
            }
        }
    }
}

/// A card with units of 3 MiB after a zone.
const CARD: &str = r#"
name = "known"
title = "a card for tests"
source = "none"
capacity = "1500MiB"
sector_bytes = 512
[nand]
page = "8KiB"
planes = 2
erase_unit = "3MiB"
read_ns = 60_000
program_ns = 900_000
erase_ns = 3_000_000
endurance_cycles = 3000
spare_units = 20
[bus]
command_ns = 500_000
bytes_per_second = 20_000_000
[layer]
kind = "block-mapped"
open_units = 4
lookup_ns = 150_000
[noise]
seed = 1
jitter_thousandths = 150
stall_every = 100
stall_ns = 20_000_000
"#;

/// How the card fails.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    /// One place in this many is unreadable.
    unreadable_every: u64,
    /// The device disappears after this many reads.
    vanishes_after: Option<u64>,
    /// Offset of the device on the card, in bytes.
    begins_at: u64,
}

struct FaultyDevice {
    card: InProcessCard<VirtualClock>,
    faults: Faults,
    asked: Vec<u64>,
}

impl FaultyDevice {
    fn new(faults: Faults, clock: &VirtualClock) -> Self {
        let model = CardModel::parse(CARD, &Origin::File("known.toml".into())).expect("a card");
        let mut card = InProcessCard::new(Card::counting(&model), clock.clone());
        let data = vec![0; 3 << 20];
        for unit in 0..500 {
            card.write(unit * (3 << 20), &data).expect("room for it");
        }
        Self { card, faults, asked: Vec::new() }
    }
}

impl BlockDev for FaultyDevice {
    fn describe(&self) -> BlockDevInfo {
        let description = self.card.describe();
        let capacity_bytes = description.capacity_bytes - self.faults.begins_at;
        BlockDevInfo { capacity_bytes, ..description }
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError> {
        self.asked.push(offset);
        if self.faults.vanishes_after.is_some_and(|reads| self.asked.len() as u64 > reads) {
            return Err(BlockDevError::Disconnected("pulled out".into()));
        }
        let every = self.faults.unreadable_every;
        if every > 0 && (offset >> 16).wrapping_mul(0x9E37_79B9) % every == 0 {
            let (length, source) = (buffer.len() as u64, std::io::Error::other("bad flash"));
            return Err(BlockDevError::Io { offset, length, source });
        }
        self.card.read(offset + self.faults.begins_at, buffer)
    }

    fn write(&mut self, _offset: u64, _data: &[u8]) -> Result<(), BlockDevError> {
        panic!("the read-only probe wrote");
    }

    fn flush(&mut self) -> Result<(), BlockDevError> {
        panic!("the read-only probe flushed");
    }

    fn discard(&mut self, _offset: u64, _length: u64) -> Result<(), BlockDevError> {
        panic!("the read-only probe discarded");
    }
}

fn probed(faults: Faults, options: &ReadingOptions) -> (Result<Probed, ProbeError>, Vec<u64>) {
    let clock = VirtualClock::default();
    let mut device = FaultyDevice::new(faults, &clock);
    let result = probe(&mut device, &clock, options, &mut NoObserver);
    (result, device.asked)
}

fn found(probed: &Probed) -> (Option<QuantityValue>, Option<QuantityValue>) {
    (probed.findings.erase_block.value, probed.findings.write_unit.value)
}

const TRUTH: (Option<QuantityValue>, Option<QuantityValue>) =
    (Some(QuantityValue::Bytes(3 << 20)), Some(QuantityValue::Bytes(16 << 10)));

#[test]
fn no_place_is_read_twice_and_a_seed_determines_the_reads() {
    let options = ReadingOptions { seed: 3, ..ReadingOptions::default() };
    let (result, asked) = probed(Faults::default(), &options);
    let result = result.unwrap();
    assert_eq!(found(&result), TRUTH, "{:#?}", result.findings);
    let cells: HashSet<u64> =
        asked.iter().map(|offset| (offset + 512 + (32 << 10)) >> 16).collect();
    assert_eq!(cells.len(), asked.len());
    assert_eq!(result.evidence.samples.len() as u64, result.reads);
    assert!(result.evidence.series.iter().all(|series| !series.points.is_empty()));
    let (again, asked_again) = probed(Faults::default(), &options);
    assert_eq!((again.unwrap(), asked_again), (result, asked));
}

#[test]
fn isolated_read_errors_are_reported_and_excluded() {
    let faults = Faults { unreadable_every: 10, ..Faults::default() };
    let (result, _) = probed(faults, &ReadingOptions::default());
    let probed = result.unwrap();
    assert_eq!(found(&probed), TRUTH, "{:#?}", probed.findings);
    let (failed, good) = (probed.errors.len() as u64, probed.evidence.samples.len() as u64);
    assert!(failed > 20 && failed + good == probed.reads);
    assert!(probed.errors[0].message.contains("bad flash"));
    assert!(probed.notes.iter().any(|note| note.contains("reads failed")));
}

#[test]
fn an_unreadable_or_removed_device_gives_an_error() {
    let broken = Faults { unreadable_every: 1, ..Faults::default() };
    let error = probed(broken, &ReadingOptions::default()).0.unwrap_err();
    assert!(matches!(error, ProbeError::Unreadable { failed: 16, requests: 16, .. }), "{error}");
    let pulled = Faults { vanishes_after: Some(100), ..Faults::default() };
    let error = probed(pulled, &ReadingOptions::default()).0.unwrap_err();
    assert!(matches!(error, ProbeError::Vanished { requests: 100, .. }), "{error}");
}

#[test]
fn units_are_counted_from_the_start_of_the_physical_device() {
    // Like a partition that starts at a third of a unit.
    let faults = Faults { begins_at: 1 << 20, ..Faults::default() };
    let known = ReadingOptions { origin_bytes: 1 << 20, ..ReadingOptions::default() };
    assert_eq!(found(&probed(faults, &known).0.unwrap()), TRUTH);
    let unknown = probed(faults, &ReadingOptions::default()).0.unwrap();
    assert_ne!(
        unknown.findings.erase_block.verdict,
        QuantityVerdict::Found,
        "{:#?}",
        unknown.findings
    );
}

#[test]
fn a_region_with_fewer_places_than_reads_terminates() {
    let region = Some(600 << 20..601 << 20);
    let (result, asked) =
        probed(Faults::default(), &ReadingOptions { region, ..ReadingOptions::default() });
    assert_eq!(found(&result.unwrap()).0, None);
    assert!(!asked.is_empty() && asked.len() < 100, "{}", asked.len());
}

#[test]
fn only_the_region_is_read_and_invalid_regions_are_rejected() {
    let region = |region| ReadingOptions { region: Some(region), ..ReadingOptions::default() };
    let (result, asked) = probed(Faults::default(), &region(600 << 20..1200 << 20));
    let (erase_block, write_unit) = found(&result.unwrap());
    assert_eq!(erase_block, TRUTH.0);
    // The budget of a small region may end before the write unit is certain.
    assert!(write_unit.is_none() || write_unit == TRUTH.1, "{write_unit:?}");
    assert!(asked.iter().all(|offset| (600 << 20..1200 << 20).contains(offset)));
    for range in [0..100u64, 512..4 << 40] {
        let error = probed(Faults::default(), &region(range)).0.unwrap_err();
        assert!(matches!(error, ProbeError::Region { .. }), "{error}");
    }
    let error = probed(Faults::default(), &region(0..64 << 10)).0.unwrap_err();
    assert!(matches!(error, ProbeError::TooSmall { .. }), "{error}");
}

#[test]
fn a_device_smaller_than_the_largest_candidates_is_probed_for_the_others() {
    let region = Some(600 << 20..640 << 20);
    let options = ReadingOptions { region, ..ReadingOptions::default() };
    let probed = probed(Faults::default(), &options).0.unwrap();
    // Thirteen boundaries may be too few for an answer, but must not give a wrong one.
    let unit = probed.findings.erase_block.value;
    assert!(unit.is_none() || unit == TRUTH.0, "{unit:?}");
    let sizes = probed.findings.erase_block.candidates;
    assert!(sizes.iter().all(|size| size.value <= QuantityValue::Bytes(20 << 20)), "{sizes:?}");
}

#[test]
fn the_read_and_time_budgets_are_kept() {
    let few = ReadingOptions { max_reads: Some(50), ..ReadingOptions::default() };
    assert_eq!(probed(Faults::default(), &few).1.len(), 50);
    let short = ReadingOptions { max_time_ns: 50_000_000, ..ReadingOptions::default() };
    let result = probed(Faults::default(), &short).0.unwrap();
    // A stall may exceed the budget.
    assert!(result.elapsed_ns < 50_000_000 + 22_000_000, "{}", result.elapsed_ns);
}

#[test]
fn small_erase_blocks_are_not_taken_for_write_units() {
    let changes = [
        ("3MiB", "64KiB"),
        ("8KiB", "512B"),
        ("planes = 2", "planes = 1"),
        ("1500MiB", "256MiB"),
        ("spare_units = 20", "spare_units = 200"),
    ];
    let toml = changes.iter().fold(CARD.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    let model = CardModel::parse(&toml, &Origin::File("small.toml".into())).expect("a card");
    for seed in 0..5 {
        let clock = VirtualClock::default();
        let mut card = InProcessCard::new(Card::counting(&model), clock.clone());
        for offset in (0..256).map(|at| at << 20) {
            card.write(offset, &vec![0; 1 << 20]).expect("room for it");
        }
        let options = ReadingOptions { seed, ..ReadingOptions::default() };
        let found = probe(&mut card, &clock, &options, &mut NoObserver).unwrap().findings;
        assert_eq!(found.write_unit.value, None, "{:?}", found.write_unit);
        let reason = &found.write_unit.reason;
        assert!(reason.contains("a write unit or an erase block"), "{reason}");
    }
}

struct InterruptAfter(u32);

impl ProbeObserver for InterruptAfter {
    fn step(&mut self, done: f64, what: &str) -> ControlFlow<()> {
        assert!((0.0..=1.0).contains(&done) && !what.is_empty());
        self.0 += 1;
        if self.0 == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn an_interrupted_probe_keeps_what_it_found() {
    let clock = VirtualClock::default();
    let mut device = Plain::new(Latency::Even, 1 << 30, clock.clone(), 1);
    let options = ReadingOptions::default();
    let probed = probe(&mut device, &clock, &options, &mut InterruptAfter(0)).unwrap();
    assert!(probed.interrupted);
    assert!(probed.reads > 0 && probed.elapsed_ns > 0);
    assert_eq!(probed.evidence.samples.len() as u64, probed.reads);
    assert_eq!(probed.findings.erase_block.verdict, QuantityVerdict::Inconclusive);
}

/// Reads across multiples of 4 MiB take half as much longer as those across multiples of 8 MiB.
struct TwoSteps(Plain, VirtualClock);

impl BlockDev for TwoSteps {
    fn describe(&self) -> BlockDevInfo {
        self.0.describe()
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError> {
        let center = offset + buffer.len() as u64 / 2;
        for unit in [4 << 20, 8 << 20] {
            self.1.sleep_ns(if center % unit == 0 { 60_000 } else { 0 });
        }
        self.0.read(offset, buffer)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError> {
        self.0.write(offset, data)
    }

    fn flush(&mut self) -> Result<(), BlockDevError> {
        self.0.flush()
    }

    fn discard(&mut self, offset: u64, length: u64) -> Result<(), BlockDevError> {
        self.0.discard(offset, length)
    }
}

#[test]
fn two_steps_are_both_named_and_the_larger_one_is_the_answer() {
    let latencies = [Latency::Halves, Latency::Constant, Latency::Periodic];
    for (seed, latency) in (0..).zip(latencies.into_iter().cycle().take(6)) {
        let clock = VirtualClock::default();
        let plain = Plain::new(latency, 8 << 30, clock.clone(), seed);
        let mut device = TwoSteps(plain, clock.clone());
        let options = ReadingOptions { seed, ..ReadingOptions::default() };
        let probed = probe(&mut device, &clock, &options, &mut NoObserver).unwrap();
        let finding = &probed.findings.erase_block;
        assert_eq!(finding.value, Some(QuantityValue::Bytes(8 << 20)), "{latency:?}: {finding:?}");
        assert!(finding.reason.contains("other multiples of 4 MiB"), "{}", finding.reason);
    }
}

/// A card whose erase blocks of 4 MiB show, with this jitter in thousandths of a request.
fn jittery(jitter_thousandths: u64, seed: u64) -> Probed {
    let noise = "jitter_thousandths = 150\nstall_every = 100\nstall_ns = 20_000_000\n";
    let changes = [
        ("1500MiB", "128MiB"),
        ("erase_unit = \"3MiB\"", "erase_unit = \"4MiB\""),
        ("spare_units = 20", "spare_units = 6"),
        ("command_ns = 500_000", "command_ns = 100_000"),
        ("20_000_000\n[layer]", "200_000_000\n[layer]"),
        ("lookup_ns = 150_000", "lookup_ns = 130_000"),
        (noise, &format!("jitter_thousandths = {jitter_thousandths}\n")),
    ];
    let text = changes.iter().fold(CARD.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    let model = CardModel::parse(&text, &Origin::File("jittery.toml".into())).expect("a card");
    let clock = VirtualClock::default();
    let mut card = InProcessCard::new(Card::counting(&model), clock.clone());
    let data = vec![0; 4 << 20];
    for unit in 0..32 {
        card.write(unit * (4 << 20), &data).expect("room for it");
    }
    let options = ReadingOptions { seed, ..ReadingOptions::default() };
    probe(&mut card, &clock, &options, &mut NoObserver).expect("a card that works")
}

/// Jitter looks like a step that only some boundaries have.
#[test]
fn jitter_does_not_disprove_an_erase_block() {
    for (jitter, seeds) in [(1000, 20), (2000, 12)] {
        for seed in 0..seeds {
            let probed = jittery(jitter, seed);
            let erase_block = found(&probed).0;
            assert!(erase_block.is_none_or(|of| of == QuantityValue::Bytes(4 << 20)), "{seed}");
            let disproved = |note: &String| note.contains("across multiples of 4 MiB");
            assert!(!probed.notes.iter().any(disproved), "{jitter} {seed}: {:?}", probed.notes);
        }
    }
}
