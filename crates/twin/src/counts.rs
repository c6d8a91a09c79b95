//! Counts the operations of a simulated card for each cell of an open-block table.
//!
//! The card is simulated once, with operation times chosen so that the counts can be read off: the
//! card counts NAND operations itself; copies and log writes take times of such different magnitude
//! that their sum reveals how many there were of each.

use flashfit_card::{Card, InProcessCard};
use flashfit_device::{BlockDev, Bytes, VirtualClock};
use flashfit_geometry::flashbench::procedure::part_of;
use flashfit_geometry::flashbench::{AccessOrder, OpenBlockProcedure, ProcedureError, TableCell};

use crate::fit_target::FitTarget;
use crate::structure::CardStructure;
use crate::times::{TIMES, Times};

/// The size of the writes that fill a card beforehand.
const FILL_BYTES: usize = 1 << 20;
/// The seed of random orders.
pub const SEED: u64 = 1;
/// A page takes at least 1 ns on the bus, and a request has fewer than 2^16 pages.
const COPY_NS: u64 = 1 << 16;
/// A cell has fewer than 2^29 copies of `COPY_NS`.
const LOG_NS: u64 = 1 << 45;

/// The operations in a cell, for a given bus.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CountedWork {
    /// Time in seconds during which the NAND waits for the bus.
    pub fixed: f64,
    /// Number of operations, in the order of [`Times`].
    pub counts: [f64; TIMES],
}

/// The operations in a cell, for any bus.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BusFreeWork {
    counts: [f64; TIMES],
    request_bytes: f64,
    page_bytes: f64,
}

/// A bus, and whether it or the NAND is the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FitBus {
    pub bytes_per_second: u64,
    /// Whether transferring a page takes longer than programming it.
    pub limits: bool,
}

impl BusFreeWork {
    /// The operations that take time on this bus. Transfer and programming of consecutive pages
    /// overlap: the slower one counts for every page, the faster one for one page per request.
    pub fn on(&self, bus: FitBus) -> CountedWork {
        let [requests, programs, ..] = self.counts;
        let mut counts = self.counts;
        let rate = bus.bytes_per_second as f64;
        let pages = (self.request_bytes / self.page_bytes).max(1.0);
        if bus.limits {
            counts[1] = (programs - (pages - 1.0) * requests).max(0.0);
            return CountedWork { fixed: requests * self.request_bytes / rate, counts };
        }
        CountedWork { fixed: requests * self.request_bytes.min(self.page_bytes) / rate, counts }
    }
}

/// The key of a cell: open blocks, order, and write size.
pub type CellKey = (u32, AccessOrder, Bytes);

pub fn key(cell: &TableCell) -> CellKey {
    (cell.units, cell.access, cell.write)
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

/// A card with this model in virtual time, fully written once, as cards are before a measurement.
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

/// The operation counts of every cell in the runs of a target.
///
/// # Errors
/// When the sizes of the target do not fit the card.
pub fn count(
    target: &FitTarget,
    structure: &CardStructure,
) -> Result<Vec<(CellKey, BusFreeWork)>, ProcedureError> {
    let zero = Times {
        command: 0.0,
        program: 0.0,
        read: 0.0,
        copy: 0.0,
        erase: 0.0,
        log: 0.0,
        jump: 0.0,
        switch: 0.0,
    };
    let mut model = structure.model(target.erase_block, u64::MAX, &zero);
    model.nand.copy_ns = COPY_NS;
    model.layer.log_ns = model.layer.log_ns.map(|_| LOG_NS);
    let procedure = procedure(target);
    let mut device = precondition(&model)?;
    let clock = device.clock().clone();
    let data = procedure.data();
    let page = structure.page;
    let mut counts = Vec::new();
    for &(units, access) in &target.runs {
        for write in procedure.sizes()? {
            let before = device.card().counters();
            let time_ns =
                procedure.time_ns(&mut device, &clock, (units, access), part_of(&data, write))?;
            let after = device.card().counters();
            let requests = (u64::from(units) * target.erase_block.0 / write.0) as f64;
            let programs = (after.nand_programmed_bytes - before.nand_programmed_bytes) / page;
            let reads = (after.nand_read_bytes - before.nand_read_bytes) / page;
            let jumps = if access == AccessOrder::Linear { 0.0 } else { requests };
            let switches = if units == 1 { 0.0 } else { requests };
            let operations = [
                requests,
                programs as f64,
                reads as f64,
                (time_ns % LOG_NS / COPY_NS) as f64,
                (after.erases - before.erases) as f64,
                (time_ns / LOG_NS) as f64,
                jumps,
                switches,
            ];
            let work = BusFreeWork {
                counts: operations,
                request_bytes: write.0 as f64,
                page_bytes: page as f64,
            };
            counts.push(((units, access, write), work));
        }
    }
    Ok(counts)
}
