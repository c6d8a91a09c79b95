//! Figure 1: simulated cards whose geometry is known.
//!
//! Reading probes find cards as [`super::reading`] leaves them; writing ones find them as they
//! leave the factory, as `flashfit probe sim:CARD --write` does, and read first.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use flashfit_card::model::LayerKind;
use flashfit_card::{Card, CardModel, InProcessCard};
use flashfit_device::{BlockDev, VirtualClock};
use flashfit_geometry::probed::NoObserver;
use flashfit_geometry::reading::{self, ReadingOptions};
use flashfit_geometry::writing::{self, WritingOptions};
use flashfit_geometry::{GeometryFinding, Probed, QuantityValue};

use crate::cards::{self, DrawnCard, Noise};
use crate::reading::probe_drawn;
use crate::running;
use crate::share::Share;

/// The largest relative error of the size of a fast area that counts as correct.
const CLOSE: f64 = 0.1;

/// How a card is found by the probe that writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Written all over once.
    Used,
    /// As it leaves the factory.
    Fresh,
}

/// What probes of one card said.
struct Trial {
    card: DrawnCard,
    /// The erase and write unit that reading found, in bytes.
    read: (Option<u64>, Option<u64>),
    written: Probed,
}

/// The section, as Markdown.
pub fn section(seeds: Range<u64>, state: State) -> String {
    let trials = running::of_each(seeds, |seed| trial(seed, state));
    let mut text =
        format!("\n## 1. Simulated cards of known geometry\n\n{} cards.\n", trials.len());
    summary(&mut text, &trials);
    by_layer(&mut text, &trials);
    by_noise(&mut text, &trials);
    costs(&mut text, &trials);
    text
}

fn trial(seed: u64, state: State) -> Trial {
    let card = cards::draw(seed);
    let outcome = probe_drawn(&card, seed);
    let written = write(&card.model, seed, state);
    Trial { read: (outcome.erase_block, outcome.write_unit), card, written }
}

fn write(model: &CardModel, seed: u64, state: State) -> Probed {
    let clock = VirtualClock::default();
    let mut device = InProcessCard::new(Card::counting(model), clock.clone());
    let capacity = device.describe().capacity_bytes;
    let piece = vec![0; 1 << 20];
    let mut offset = 0;
    while state == State::Used && offset < capacity {
        let length = usize::try_from((capacity - offset).min(1 << 20)).unwrap();
        device.write(offset, &piece[..length]).unwrap();
        offset += 1 << 20;
    }
    device.flush().unwrap();
    let options = ReadingOptions { seed, ..ReadingOptions::default() };
    let read = reading::probe(&mut device, &clock, &options, &mut NoObserver).unwrap();
    let options = WritingOptions {
        // The card keeps no bytes, so there is nothing to compare.
        check_capacity: false,
        compressible: true,
        ..WritingOptions::whole(capacity, seed)
    };
    writing::probe(&mut device, &clock, &options, Some(&read), &mut NoObserver).unwrap()
}

fn bytes(finding: &GeometryFinding) -> Option<u64> {
    match finding.value {
        Some(QuantityValue::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

fn count(finding: &GeometryFinding) -> Option<u32> {
    match finding.value {
        Some(QuantityValue::Count(count)) => Some(count),
        _ => None,
    }
}

impl Trial {
    fn erase_block(&self) -> u64 {
        self.card.model.erase_block_bytes()
    }

    fn write_unit(&self) -> u64 {
        self.card.model.write_unit_bytes()
    }

    /// How many units the card keeps open, in order and out of order, where it keeps any.
    fn open_erase_blocks(&self) -> Option<(u32, u32)> {
        let layer = &self.card.model.layer;
        let linear = layer.open_erase_blocks.filter(|_| layer.kind != LayerKind::PageMapped)?;
        Some((linear, layer.open_erase_blocks_random.unwrap_or(linear)))
    }

    /// The size of its fast area, in bytes, where it has one.
    fn fast_area(&self) -> Option<u64> {
        let nand = &self.card.model.nand;
        let written = self.erase_block() / self.write_unit();
        let held = written / u64::from(nand.cell.bits()) * self.write_unit();
        nand.pslc.as_ref().map(|area| u64::from(area.units) * held)
    }

    fn found_erase_block(&self) -> Option<u64> {
        bytes(&self.written.findings.erase_block)
    }
}

/// How many answered, and how many of the answers are right.
#[derive(Clone, Copy)]
struct Answers {
    given: Share,
    right: Share,
}

impl Answers {
    /// Of cards, each with its answer and whether that is right.
    fn of<T>(cards: impl Iterator<Item = (Option<T>, bool)> + Clone) -> Self {
        Self {
            given: Share::of(cards.clone().map(|(answer, _)| answer.is_some())),
            right: Share::of(cards.filter(|(answer, _)| answer.is_some()).map(|(_, right)| right)),
        }
    }
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes any text");
}

fn answers(text: &mut String, what: &str, wanted: &str, answers: Answers) {
    line(text, &format!("| {what} | {} | {} | {wanted} |", answers.given, answers.right));
}

fn summary(text: &mut String, trials: &[Trial]) {
    line(text, "\n| quantity | answered | correct, of those answered | goal |\n|---|---|---|---|");
    let all = trials.iter();
    let written = all
        .clone()
        .map(|t| (t.found_erase_block(), t.found_erase_block() == Some(t.erase_block())));
    answers(text, "erase block, by writing", "95 %, 99 %", Answers::of(written));
    let shown = all.clone().filter(|t| t.card.shows_units_to_readers);
    let shown = shown.map(|t| (t.read.0, t.read.0 == Some(t.erase_block())));
    let name = "erase block, by reading, cards that reveal it to reads";
    answers(text, name, "90 %, 99 %", Answers::of(shown));
    let hidden = all.clone().filter(|t| !t.card.shows_units_to_readers);
    let hidden = hidden.map(|t| (t.read.0, t.read.0 == Some(t.erase_block())));
    let name = "erase block, by reading, other cards";
    answers(text, name, "none", Answers::of(hidden));
    let open = |linear: bool| {
        let trials = all.clone().filter(move |t| {
            let random_has_a_meaning = t.card.model.layer.kind != LayerKind::UpdateLog;
            t.open_erase_blocks().is_some() && (linear || random_has_a_meaning)
        });
        trials.map(move |t| {
            let findings = &t.written.findings;
            let found = if linear {
                &findings.open_erase_blocks_linear
            } else {
                &findings.open_erase_blocks_random
            };
            let (in_order, mixed) = t.open_erase_blocks().expect("filtered");
            let truth = if linear { in_order } else { mixed };
            (count(found), count(found).is_some_and(|found| found.abs_diff(truth) <= 1))
        })
    };
    answers(
        text,
        "open erase blocks, linear, to within one",
        "95 % correct",
        Answers::of(open(true)),
    );
    answers(
        text,
        "open erase blocks, random, to within one",
        "95 % correct",
        Answers::of(open(false)),
    );
    let units = all.clone().map(|t| {
        let found = bytes(&t.written.findings.write_unit);
        (found, found == Some(t.write_unit()))
    });
    answers(text, "write unit, by writing", "", Answers::of(units));
    let units = all.clone().map(|t| (t.read.1, t.read.1 == Some(t.write_unit())));
    answers(text, "write unit, by reading", "", Answers::of(units));
    let area = |wanted: bool| {
        let with = all.clone().filter(move |t| t.fast_area().is_some() == wanted);
        with.map(|t| {
            let found = bytes(&t.written.findings.pslc_cache);
            let ratio = |area: u64| found.map(|found| found as f64 / area as f64);
            let is_close = |ratio: f64| (ratio - 1.0).abs() <= CLOSE;
            (found, t.fast_area().and_then(ratio).is_some_and(is_close))
        })
    };
    let name = "fast area (pSLC), to within a tenth, cards that have one";
    answers(text, name, "90 %", Answers::of(area(true)));
    answers(text, "fast area (pSLC), other cards", "none", Answers::of(area(false)));
    calibration(text, trials);
}

/// Of the answers by writing with that confidence, how many are right.
fn calibration(text: &mut String, trials: &[Trial]) {
    line(text, "\nErase block by writing, by confidence of the answer:\n");
    line(text, "| confidence | correct |\n|---|---|");
    for (low, high) in [(0.95, 0.99), (0.99, 0.999), (0.999, 1.1)] {
        let within = trials.iter().filter(|t| {
            let confidence = t.written.findings.erase_block.confidence;
            t.found_erase_block().is_some() && confidence.is_some_and(|c| (low..high).contains(&c))
        });
        let right = Share::of(within.map(|t| t.found_erase_block() == Some(t.erase_block())));
        line(text, &format!("| {low} to {} | {right} |", f64::min(high, 1.0)));
    }
}

fn table<K: Ord>(text: &mut String, trials: &[Trial], key: impl Fn(&Trial) -> (K, String)) {
    line(
        text,
        "| | by writing: answered | correct | by reading, if revealed: answered | correct |",
    );
    line(text, "|---|---|---|---|---|");
    let mut groups: BTreeMap<K, (String, Vec<&Trial>)> = BTreeMap::new();
    for trial in trials {
        let (key, name) = key(trial);
        groups.entry(key).or_insert_with(|| (name, Vec::new())).1.push(trial);
    }
    for (name, group) in groups.values() {
        let is_right = |found: Option<u64>, t: &Trial| found == Some(t.erase_block());
        let written = Answers::of(
            group.iter().map(|t| (t.found_erase_block(), is_right(t.found_erase_block(), t))),
        );
        let shown = group.iter().filter(|t| t.card.shows_units_to_readers);
        let read = Answers::of(shown.map(|t| (t.read.0, is_right(t.read.0, t))));
        line(
            text,
            &format!(
                "| {name} | {} | {} | {} | {} |",
                written.given, written.right, read.given, read.right
            ),
        );
    }
}

fn by_layer(text: &mut String, trials: &[Trial]) {
    line(text, "\nErase block, by translation layer:\n");
    table(text, trials, |trial| {
        let kind = trial.card.model.layer.kind;
        (format!("{kind:?}"), format!("{kind:?}"))
    });
}

fn by_noise(text: &mut String, trials: &[Trial]) {
    line(text, "\nErase block, by noise:\n");
    table(text, trials, |trial| {
        let noise: Noise = trial.card.noise;
        (noise, format!("{noise:?}"))
    });
}

/// The cards' own time and the bytes written, in the middle and at the worst.
fn costs(text: &mut String, trials: &[Trial]) {
    let sorted = |of: fn(&Trial) -> u64| {
        let mut values: Vec<u64> = trials.iter().map(of).collect();
        values.sort_unstable();
        values
    };
    let seconds = sorted(|t| t.written.elapsed_ns / 1_000_000_000);
    let mib = sorted(|t| t.written.written_bytes >> 20);
    let of = |values: &[u64]| {
        let at = |percent: usize| values.get(values.len() * percent / 100).copied().unwrap_or(0);
        (at(50), at(90), values.last().copied().unwrap_or(0))
    };
    let ((s50, s90, s100), (m50, m90, m100)) = (of(&seconds), of(&mib));
    line(
        text,
        &format!(
            "\nA writing probe takes {s50} s (median), {s90} s (90th percentile) and at most {s100} s \
             of simulated time. It writes {m50}, {m90} and {m100} MiB."
        ),
    );
}
