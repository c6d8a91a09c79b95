//! Probes of drawn cards, for the sections that compare findings with the true geometry.
//!
//! Reading probes find cards as [`super::reading`] leaves them; writing ones find them as they
//! leave the factory, as `flashfit probe sim:CARD --write` does, and read first.

use std::ops::Range;

use flashfit_card::model::LayerKind;
use flashfit_card::{Card, CardModel, InProcessCard};
use flashfit_device::{BlockDev, VirtualClock};
use flashfit_geometry::probed::NoObserver;
use flashfit_geometry::reading::{self, ReadingOptions};
use flashfit_geometry::writing::{self, WritingOptions};
use flashfit_geometry::{GeometryFinding, GeometryFindings, Probed, QuantityValue};

use crate::cards::{self, DrawnCard};
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
pub struct Trial {
    pub card: DrawnCard,
    pub state: State,
    /// Findings by reading, and by reading and writing.
    pub read: GeometryFindings,
    pub written: Probed,
}

/// Probes of the cards of these seeds, in their order.
pub fn of(seeds: Range<u64>, state: State) -> Vec<Trial> {
    running::of_each(seeds, |seed| {
        let card = cards::draw(seed);
        let read = probe_drawn(&card, seed).probed.findings;
        let written = write(&card.model, seed, state);
        Trial { card, state, read, written }
    })
}

/// The result of reading and writing; the samples are dropped, because there are many.
pub fn write(model: &CardModel, seed: u64, state: State) -> Probed {
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
    let mut written =
        writing::probe(&mut device, &clock, &options, Some(&read), &mut NoObserver).unwrap();
    written.evidence.samples = Vec::new();
    written
}

pub fn bytes(finding: &GeometryFinding) -> Option<u64> {
    match finding.value {
        Some(QuantityValue::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

pub fn count(finding: &GeometryFinding) -> Option<u32> {
    match finding.value {
        Some(QuantityValue::Count(count)) => Some(count),
        _ => None,
    }
}

/// The size of a card's fast area in bytes, if it has one.
pub fn fast_area_of(model: &CardModel) -> Option<u64> {
    let nand = &model.nand;
    let written = model.erase_block_bytes() / model.write_unit_bytes();
    let held = written / u64::from(nand.cell.bits()) * model.write_unit_bytes();
    nand.pslc.as_ref().map(|area| u64::from(area.units) * held)
}

/// Whether a size that was found for a fast area is its size to within a tenth.
pub fn is_close(found: u64, area: u64) -> bool {
    (found as f64 / area as f64 - 1.0).abs() <= CLOSE
}

impl Trial {
    pub fn kind(&self) -> LayerKind {
        self.card.model.layer.kind
    }

    pub fn erase_block(&self) -> u64 {
        self.card.model.erase_block_bytes()
    }

    pub fn write_unit(&self) -> u64 {
        self.card.model.write_unit_bytes()
    }

    /// Open erase blocks with writes in ascending order, if the card has a number.
    pub fn open_linear(&self) -> Option<u32> {
        let layer = &self.card.model.layer;
        layer.open_erase_blocks.filter(|_| layer.kind != LayerKind::PageMapped)
    }

    /// The same with writes in random order; an update log keeps none open.
    pub fn open_random(&self) -> Option<u32> {
        let layer = &self.card.model.layer;
        let linear = self.open_linear().filter(|_| layer.kind != LayerKind::UpdateLog)?;
        Some(layer.open_erase_blocks_random.unwrap_or(linear))
    }

    /// The size of its fast area, in bytes, where it has one.
    pub fn fast_area(&self) -> Option<u64> {
        fast_area_of(&self.card.model)
    }

    /// The largest write that goes to a log for small writes, in bytes, where it has one.
    pub fn small_write_log(&self) -> Option<u64> {
        self.card.model.layer.log_request.map(|request| request.0)
    }

    /// The special zone at the start, in bytes, where it has one.
    pub fn zone(&self) -> Option<u64> {
        let zone = self.card.model.zone.as_ref();
        zone.map(|zone| u64::from(zone.units) * self.erase_block())
    }

    pub fn found_erase_block(&self) -> Option<u64> {
        bytes(&self.written.findings.erase_block)
    }
}

/// How many answered, and how many of the answers are right.
#[derive(Clone, Copy)]
pub struct Answers {
    pub given: Share,
    pub right: Share,
}

impl Answers {
    /// Of cards, each with its answer and whether that is right.
    pub fn of<T>(cards: impl Iterator<Item = (Option<T>, bool)> + Clone) -> Self {
        Self {
            given: Share::of(cards.clone().map(|(answer, _)| answer.is_some())),
            right: Share::of(cards.filter(|(answer, _)| answer.is_some()).map(|(_, right)| right)),
        }
    }

    /// A row of a table with the columns of [`HEAD`].
    pub fn row(self, what: &str, goal: &str) -> String {
        format!("| {what} | {} | {} | {goal} |\n", self.given, self.right)
    }
}

/// The head of a table of [`Answers::row`].
pub const HEAD: &str =
    "| quantity | answered | correct, of those answered | goal |\n|---|---|---|---|\n";
