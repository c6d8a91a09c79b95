//! The writing probe on random cards of known geometry.
//!
//! `FLASHFIT_CARDS=0..300 cargo test --release -p flashfit-geometry --test writing_campaign -- \
//! --nocapture` runs the read-only probe on each card first, as the command does, then the writing
//! probe, and prints a line per card and the totals. Seeds can be listed (`3,6,22`). With
//! `FLASHFIT_USED`, cards are completely written beforehand; with `FLASHFIT_FAST_AREAS`, only those
//! with a fast area are probed, with `FLASHFIT_MERGING` only those whose layer merges, and with
//! `FLASHFIT_APPENDING` only the others. Without `FLASHFIT_CARDS`, a few new cards are tested
//! without the read-only probe. Times are simulated.

#[expect(dead_code, reason = "the other tests use the rest")]
#[path = "../benches/accuracy/cards.rs"]
mod cards;
#[path = "../benches/accuracy/oracle.rs"]
mod oracle;

use cards::DrawnCard;
use flashfit_card::model::LayerKind;
use flashfit_card::{Card, InProcessCard};
use flashfit_device::{BlockDev, VirtualClock};
use flashfit_geometry::findings::{GeometryFinding, QuantityValue, QuantityVerdict};
use flashfit_geometry::probed::{NoObserver, Probed};
use flashfit_geometry::reading::{self, ReadingOptions};
use flashfit_geometry::writing::{self, WritingOptions};

#[derive(Debug, Default)]
struct Tally {
    cards: u32,
    answered: u32,
    right: u32,
}

impl Tally {
    fn add(
        &mut self,
        found: &GeometryFinding,
        is_right: impl Fn(QuantityValue) -> bool,
    ) -> &'static str {
        self.cards += 1;
        let answer = found.value.filter(|_| found.verdict == QuantityVerdict::Found);
        let Some(value) = answer else { return "-" };
        self.answered += 1;
        if !is_right(value) {
            return "WRONG";
        }
        self.right += 1;
        "right"
    }
}

#[derive(Debug, Default)]
struct Tallies {
    erase_block: Tally,
    linear: Tally,
    random: Tally,
    write_unit: Tally,
    /// Of the cards that show it to writes without noise.
    shown_linear: Tally,
    shown_write_unit: Tally,
    fast_area: Tally,
    no_fast_area: Tally,
}

impl Tallies {
    /// Adds a card and returns its line of output.
    fn add(&mut self, seed: u64, drawn: &DrawnCard, probed: &Probed) -> String {
        let (model, findings) = (&drawn.model, &probed.findings);
        let (unit, write_unit) = (model.erase_block_bytes(), model.write_unit_bytes());
        let bytes = |truth: u64| move |value| value == QuantityValue::Bytes(truth);
        let near = |truth: u32| {
            move |value| {
                let QuantityValue::Count(count) = value else { return false };
                count.abs_diff(truth) <= 1
            }
        };
        let is_unit = self.erase_block.add(&findings.erase_block, bytes(unit));
        let is_write_unit = self.write_unit.add(&findings.write_unit, bytes(write_unit));
        if oracle::shows_write_unit(model) {
            self.shown_write_unit.add(&findings.write_unit, bytes(write_unit));
        }
        let area = fast_area_bytes(drawn);
        let close = |value| {
            let QuantityValue::Bytes(bytes) = value else { return false };
            area.is_some_and(|area| (bytes as f64 / area as f64 - 1.0).abs() <= 0.1)
        };
        let tally = if area.is_some() { &mut self.fast_area } else { &mut self.no_fast_area };
        let is_area = tally.add(&findings.pslc_cache, close);
        let open = model.layer.open_erase_blocks.unwrap_or(0);
        let random = model.layer.open_erase_blocks_random.unwrap_or(open);
        let (mut is_linear, mut is_random) = ("", "");
        if model.layer.kind != LayerKind::PageMapped {
            is_linear = self.linear.add(&findings.open_erase_blocks_linear, near(open));
            if oracle::shows_open_erase_blocks(model) {
                self.shown_linear.add(&findings.open_erase_blocks_linear, near(open));
            }
            // An update log keeps no unit open in random order, so there is no true value to
            // compare.
            if model.layer.kind != LayerKind::UpdateLog {
                is_random = self.random.add(&findings.open_erase_blocks_random, near(random));
            }
        }
        format!(
            "{seed:4} {:11} {:6} pslc {:5} {:5}M {:5}K wu {:3}K d{} | unit {:>6} {is_unit:5} | \
             lin {open:2} {:>2} {is_linear:5} | ran {random:2} {:>2} {is_random:5} | \
             wu {:>4} {is_write_unit:5} {:.4} {} | area {} {} {is_area} | {:5} s, {:6} MiB | \
             {:.4} {} | {}",
            format!("{:?}", model.layer.kind),
            format!("{:?}", drawn.noise),
            model.nand.pslc.is_some(),
            model.capacity.0 >> 20,
            unit >> 10,
            write_unit >> 10,
            model.nand.dies,
            shown(&findings.erase_block),
            shown(&findings.open_erase_blocks_linear),
            shown(&findings.open_erase_blocks_random),
            shown(&findings.write_unit),
            findings.write_unit.confidence.unwrap_or(0.0),
            findings.write_unit.reason,
            area.unwrap_or(0) >> 10,
            shown(&findings.pslc_cache),
            probed.elapsed_ns / 1_000_000_000,
            probed.written_bytes >> 20,
            findings.erase_block.confidence.unwrap_or(0.0),
            findings.erase_block.reason,
            findings.open_erase_blocks_linear.reason,
        )
    }
}

/// The size of the card's fast area, in bytes.
fn fast_area_bytes(drawn: &DrawnCard) -> Option<u64> {
    let nand = &drawn.model.nand;
    let units = u64::from(nand.pslc.as_ref()?.units);
    let written = drawn.model.erase_block_bytes() / drawn.model.write_unit_bytes();
    let held = written / u64::from(nand.cell.bits()) * drawn.model.write_unit_bytes();
    Some(units * held)
}

/// The requested seeds or a few, and whether each card is reported.
fn seeds() -> (Vec<u64>, bool) {
    let Ok(text) = std::env::var("FLASHFIT_CARDS") else { return ((2..8).collect(), false) };
    let seed = |text: &str| text.parse::<u64>().expect("a seed");
    let listed = text.split(',').flat_map(|part| match part.split_once("..") {
        Some((from, to)) => (seed(from)..seed(to)).collect(),
        None => vec![seed(part)],
    });
    (listed.collect(), true)
}

fn shown(found: &GeometryFinding) -> String {
    match found.value {
        Some(QuantityValue::Bytes(bytes)) => format!("{}K", bytes >> 10),
        Some(QuantityValue::Count(count)) => count.to_string(),
        Some(QuantityValue::Is(is)) => is.to_string(),
        None => "?".to_owned(),
    }
}

fn write_all(device: &mut InProcessCard<VirtualClock>) {
    let capacity = device.describe().capacity_bytes;
    let piece = vec![0; 1 << 20];
    let mut offset = 0;
    while offset < capacity {
        let length = (capacity - offset).min(1 << 20) as usize;
        device.write(offset, &piece[..length]).expect("a card that works");
        offset += 1 << 20;
    }
    device.flush().expect("a card that works");
}

fn probe(seed: u64, drawn: &DrawnCard, reads: bool) -> Probed {
    let clock = VirtualClock::default();
    // The capacity check needs stored data, which this card does not keep.
    let mut device = InProcessCard::new(Card::counting(&drawn.model), clock.clone());
    if std::env::var_os("FLASHFIT_USED").is_some() {
        write_all(&mut device);
    }
    let options = WritingOptions {
        check_capacity: false,
        compressible: true,
        ..WritingOptions::whole(drawn.model.capacity.0, seed)
    };
    let read = reads.then(|| {
        let options = ReadingOptions { seed, ..ReadingOptions::default() };
        reading::probe(&mut device, &clock, &options, &mut NoObserver).expect("a card that works")
    });
    writing::probe(&mut device, &clock, &options, read.as_ref(), &mut NoObserver)
        .expect("a card that works")
}

#[test]
fn known_geometries_are_found() {
    let (seeds, verbose) = seeds();
    let mut tallies = Tallies::default();
    let mut times = Vec::new();
    let only_fast_areas = std::env::var_os("FLASHFIT_FAST_AREAS").is_some();
    let only_merging = std::env::var_os("FLASHFIT_MERGING").is_some();
    let only_appending = std::env::var_os("FLASHFIT_APPENDING").is_some();
    for seed in seeds {
        let drawn = cards::draw(seed);
        let is_page_mapped = drawn.model.layer.kind == LayerKind::PageMapped;
        if only_fast_areas && fast_area_bytes(&drawn).is_none() {
            continue;
        }
        if only_merging && is_page_mapped || only_appending && !is_page_mapped {
            continue;
        }
        let probed = probe(seed, &drawn, verbose);
        times.push(probed.elapsed_ns / 1_000_000_000);
        let line = tallies.add(seed, &drawn, &probed);
        if verbose {
            println!("{line}");
        }
    }
    times.sort_unstable();
    println!("{tallies:#?}\ntime: median {} s, most {:?} s", times[times.len() / 2], times.last());
    if !verbose {
        let Tallies { erase_block, linear, random, .. } = &tallies;
        assert!(erase_block.answered * 3 >= erase_block.cards * 2, "{erase_block:?}");
        for tally in [erase_block, linear, random] {
            assert_eq!(tally.right, tally.answered, "{tallies:?}");
        }
    }
}

/// The expected finding of a previously misjudged card.
#[derive(Debug, PartialEq)]
enum Wanted {
    TheUnit,
    NoOther,
}

/// The cards: two with a single open erase block, where every pair of writes causes merges; one on
/// which reading is conclusive but writing is not; two whose merges are as periodic as erasures;
/// one whose unit is visible to reads only after writing; one whose cache splits writes into pieces
/// that are visible to reads; one where only the times by size distinguish units from chunks; one
/// where two sizes agree with the smallest write unit by chance; one where a third does so too, but
/// hardly stalls where it should; and one where a third agrees only if some stalls are hidden. On
/// two more, a cache hands test writes on in pieces that go to a log, or even writes in order cause
/// merges, so that only longer test writes show boundaries. On the next three, only erasures of a
/// log for small writes show, which does not take the sizes that would tell the write unit (the log
/// of the third one is small, and large requests do not tell it from a fast area); and on the last
/// one, pages are programmed together, so no write across a boundary takes more room.
#[test]
fn previously_misjudged_cards_are_correct() {
    let wanted = [
        (4175, Wanted::TheUnit),
        (4246, Wanted::TheUnit),
        (4179, Wanted::TheUnit),
        (4118, Wanted::NoOther),
        (4389, Wanted::NoOther),
        (4484, Wanted::TheUnit),
        (4719, Wanted::NoOther),
        (4478, Wanted::NoOther),
        (5651, Wanted::NoOther),
        (10088, Wanted::NoOther),
        (10518, Wanted::NoOther),
        (5289, Wanted::TheUnit),
        (4190, Wanted::TheUnit),
        (519, Wanted::TheUnit),
        (758, Wanted::TheUnit),
        (7056, Wanted::NoOther),
        (390, Wanted::NoOther),
    ];
    for (seed, wanted) in wanted {
        let drawn = cards::draw(seed);
        let found = probe(seed, &drawn, true).findings.erase_block;
        let unit = QuantityValue::Bytes(drawn.model.erase_block_bytes());
        assert!(found.value.is_none_or(|value| value == unit), "{seed}: {found:?}");
        if wanted == Wanted::TheUnit {
            assert_eq!(found.value, Some(unit), "{seed}: {found:?}");
        }
    }
}

/// On one card, collections of a log look like shifts that cost more; on the other, some shifts of
/// a part of a write unit cost nothing.
#[test]
fn write_units_are_found_or_unclear() {
    for seed in [34, 195] {
        let drawn = cards::draw(seed);
        let found = probe(seed, &drawn, true).findings.write_unit;
        let unit = QuantityValue::Bytes(drawn.model.write_unit_bytes());
        assert!(found.value.is_none_or(|value| value == unit), "{seed}: {found:?}");
    }
}

/// The write units of the first cards show only to reads, of what was written. Steps of the others
/// are those of the parts that they merge, in writes of which hardly two fit into the longest ones.
#[test]
fn write_units_are_read_from_what_was_written_and_are_no_parts_of_merges() {
    for seed in [6, 192, 229, 120, 348, 435] {
        let drawn = cards::draw(seed);
        let found = probe(seed, &drawn, true).findings.write_unit;
        let unit = QuantityValue::Bytes(drawn.model.write_unit_bytes());
        assert_eq!(found.value, Some(unit), "{seed}: {found:?}");
    }
}

/// The erase blocks of these cards are so small that scattered writes show no merges.
#[test]
fn open_erase_blocks_are_counted_where_merges_are_cheap() {
    for seed in [5055, 5212, 5234] {
        let drawn = cards::draw(seed);
        let found = probe(seed, &drawn, true).findings.open_erase_blocks_linear;
        let open = drawn.model.layer.open_erase_blocks.map(QuantityValue::Count);
        assert!(found.value.is_some() && found.value == open, "{seed}: {found:?}");
    }
}

/// The last two seeds are of cards whose log for small writes looks like an area.
#[test]
fn fast_areas_are_found_by_bytes_per_second_and_only_where_they_are() {
    let (mut found, mut claimed) = (0, 0);
    for seed in [10, 37, 54, 137, 166, 390, 8, 33, 45, 62, 519, 7056] {
        let drawn = cards::draw(seed);
        let answer = probe(seed, &drawn, true).findings.pslc_cache.value;
        let Some(QuantityValue::Bytes(bytes)) = answer else { continue };
        match fast_area_bytes(&drawn) {
            Some(area) => {
                let ratio = bytes as f64 / area as f64;
                assert!((ratio - 1.0).abs() <= 0.1, "{seed}: {bytes}, not {area}");
                found += 1;
            }
            None => claimed += 1,
        }
    }
    assert!(found >= 5 && claimed == 0, "{found} found, {claimed} claimed");
}
