//! Counts the operations of a simulated card for each cell of an open-block table and each part of
//! the patterns.
//!
//! The card is simulated once, with operation times chosen so that the counts can be read off: the
//! card counts NAND operations itself; copies and log writes take times of such different magnitude
//! that their sum reveals how many there were of each.

mod work;

use flashfit_card::{Card, InProcessCard};
use flashfit_device::{BlockDev, BlockDevError, Bytes, VirtualClock};
use flashfit_geometry::flashbench::procedure::part_of;
use flashfit_geometry::flashbench::{AccessOrder, OpenBlockProcedure, ProcedureError, TableCell};

pub use work::{BusFreeWork, CountedWork, DIES, FitBus};

use crate::fit_target::{FitTarget, MeasuredPatterns, MeasuredRun};
use crate::pattern::PatternPlayer;
use crate::structure::{CardStructure, OrderedLayerKind};
use crate::times::Times;
use work::Operations;

/// The size of the writes that fill a card beforehand.
const FILL_BYTES: usize = 1 << 20;
/// The size of the writes that go to the log for small writes beforehand.
const LOGGED_BYTES: usize = 4096;
/// The seed of random orders.
pub const SEED: u64 = 1;
/// A page takes at least 1 ns on the bus, and a request has fewer than 2^16 pages.
const COPY_NS: u64 = 1 << 16;
/// A cell has fewer than 2^29 copies of `COPY_NS`.
const LOG_NS: u64 = 1 << 45;

/// The key of a cell: open blocks, order, and write size.
pub type CellKey = (u32, AccessOrder, Bytes);

pub fn key(cell: &TableCell) -> CellKey {
    (cell.units, cell.access, cell.write)
}

/// The operations of one structure.
#[derive(Debug, Clone, PartialEq)]
pub struct StructureCounts {
    /// Of every cell of the runs of the target.
    pub cells: Vec<(CellKey, BusFreeWork)>,
    /// Of every part of its patterns, in their order.
    pub parts: Vec<BusFreeWork>,
}

/// The procedure that measured a target.
pub fn procedure(target: &FitTarget) -> OpenBlockProcedure {
    OpenBlockProcedure {
        erase_block: target.erase_block,
        least_write: target.least_write,
        most_units: target.most_units(),
        seed: SEED,
    }
}

/// A card as it was before a measurement: full, or as it leaves the factory.
pub(crate) fn before_measurement(
    model: &flashfit_card::CardModel,
    was_full: bool,
) -> Result<InProcessCard<VirtualClock>, ProcedureError> {
    match was_full {
        true => precondition(model),
        false => Ok(InProcessCard::new(Card::counting(model), VirtualClock::default())),
    }
}

/// A card with this model in virtual time, fully written once, as cards in use are.
pub fn precondition(
    model: &flashfit_card::CardModel,
) -> Result<InProcessCard<VirtualClock>, ProcedureError> {
    let mut device = InProcessCard::new(Card::counting(model), VirtualClock::default());
    let capacity = device.describe().capacity_bytes;
    let piece = vec![0x5a; FILL_BYTES];
    let mut offset = 0;
    while offset < capacity {
        let length = (capacity - offset).min(FILL_BYTES as u64) as usize;
        device.write(offset, &piece[..length])?;
        offset += length as u64;
    }
    device.flush()?;
    Ok(device)
}

/// The operation counts of every cell in the runs of a target, and of its patterns.
///
/// # Errors
/// When the sizes of the target do not fit the card.
pub fn count(
    target: &FitTarget,
    structure: &CardStructure,
) -> Result<StructureCounts, ProcedureError> {
    let model = counting_model(target, structure);
    let procedure = procedure(target);
    let mut device = before_measurement(&model, structure.was_full)?;
    let clock = device.clock().clone();
    let data = procedure.data();
    let page = structure.page_bytes;
    let flushes = device.describe().volatile_cache;
    let mut cells = Vec::new();
    for &MeasuredRun { units, access, least_write } in &target.runs {
        for write in procedure.sizes()?.into_iter().filter(|&write| write >= least_write) {
            let before = Operations::of(&device, page);
            let time_ns =
                procedure.time_ns(&mut device, &clock, (units, access), part_of(&data, write))?;
            let requests = (u64::from(units) * target.erase_block.0 / write.0) as f64;
            let mut operations = Operations::of(&device, page).since(&before, time_ns);
            if structure.closes_take_time(target) {
                operations = operations.with_closes_since(&before);
            }
            let jumps = if access == AccessOrder::Linear { 0.0 } else { requests };
            let switches = if units == 1 { 0.0 } else { requests };
            let flushed = if flushes { requests } else { 0.0 };
            let work = BusFreeWork::of_table(operations, requests, write.0, page)
                .with_streams(jumps, switches)
                .with_flushes(flushed);
            cells.push(((units, access, write), work));
        }
    }
    let parts = match structure.log_blocks {
        0 => count_patterns(target, structure, &mut device)?,
        _ => count_parts(target, structure)?,
    };
    Ok(StructureCounts { cells, parts })
}

/// The operation counts of the patterns alone, for a card with a log for small writes. The fill
/// before the patterns leaves of the runs only how far the log is filled, which is a part of the
/// structure: small differences of the structure would change it at random.
///
/// # Errors
/// When the sizes of the target do not fit the card.
pub fn count_parts(
    target: &FitTarget,
    structure: &CardStructure,
) -> Result<Vec<BusFreeWork>, ProcedureError> {
    let structure = structure.at_fill(target);
    let mut model = counting_model(target, &structure);
    if structure.kind == OrderedLayerKind::LogBlock {
        model.capacity = target.capacity(true);
    }
    let mut device = before_measurement(&model, structure.was_full)?;
    count_patterns(target, &structure, &mut device)
}

fn counting_model(target: &FitTarget, structure: &CardStructure) -> flashfit_card::CardModel {
    let mut model = structure.model(target, u64::MAX, &Times::NONE);
    model.nand.copy_ns = COPY_NS;
    model.layer.log_ns = model.layer.log_units.map(|_| LOG_NS);
    model
}

/// Brings a card into the state in which patterns began: its log had taken some pages, of which the
/// fill leaves none current.
pub(crate) fn before_patterns(
    device: &mut InProcessCard<VirtualClock>,
    player: &mut PatternPlayer,
    patterns: &MeasuredPatterns,
    structure: &CardStructure,
) -> Result<(), BlockDevError> {
    let has_cache = device.describe().volatile_cache;
    let eighth = patterns.filled.0 / 8 / structure.page_bytes * structure.page_bytes;
    for at in 0..u64::from(structure.logged_pages) {
        // Two places in turn, because writes to a single one could be collected in a buffer.
        device.write((3 + 2 * (at % 2)) * eighth, &[0x5a; LOGGED_BYTES])?;
        if has_cache {
            device.flush()?;
        }
    }
    player.fill(device, 0, patterns.filled.0)
}

fn count_patterns(
    target: &FitTarget,
    structure: &CardStructure,
    device: &mut InProcessCard<VirtualClock>,
) -> Result<Vec<BusFreeWork>, ProcedureError> {
    let Some(patterns) = &target.patterns else { return Ok(Vec::new()) };
    let clock = device.clock().clone();
    let flushes = device.describe().volatile_cache;
    let mut player = PatternPlayer::new(0, SEED);
    before_patterns(device, &mut player, patterns, structure)?;
    let mut streams = patterns.streams(target.erase_block).into_iter();
    let mut parts = Vec::new();
    for measured in &patterns.measured {
        for part in &measured.pattern.parts[..measured.parts_ns.len()] {
            let before = Operations::of(device, structure.page_bytes);
            let time_ns = player.time_ns(device, &clock, part)?;
            let operations = Operations::of(device, structure.page_bytes).since(&before, time_ns);
            let (jumps, switches) = streams.next().expect("one for each part");
            let work = BusFreeWork::of_part(operations, part, structure.page_bytes, flushes);
            parts.push(work.with_streams(jumps, switches));
        }
    }
    Ok(parts)
}
