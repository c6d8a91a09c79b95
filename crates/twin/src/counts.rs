//! How often a card does what in each cell of an open-unit table.
//!
//! The card is simulated once, with times that let the counts be read off: the NAND's operations
//! are counted by the card, copies and log writes take times so far apart that their sum shows the
//! number of each.

use flashfit_card::{Card, InProcessCard};
use flashfit_device::{BlockDev, Bytes, VirtualClock};
use flashfit_geometry::flashbench::procedure::part_of;
use flashfit_geometry::flashbench::{AccessOrder, OpenBlockProcedure, ProcedureError, TableCell};

use crate::fit_target::FitTarget;
use crate::structure::CardStructure;
use crate::times::{TIMES, Times};

/// The size of the writes with which a card is filled beforehand.
const PIECE_BYTES: usize = 1 << 20;
/// The seed of the mixed orders.
pub const SEED: u64 = 1;
/// Data on a bus takes a nanosecond at least; a request has fewer pages than this.
const COPY_NS: u64 = 1 << 16;
/// A cell has fewer copies than this, by `COPY_NS`.
const LOG_NS: u64 = 1 << 45;

/// What is done in a cell and takes time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CountedWork {
    /// What passes while the NAND waits, in seconds: data on the bus.
    pub fixed: f64,
    /// How often, in the order of [`Times`].
    pub of: [f64; TIMES],
}

/// What is done in a cell, whatever the bus.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BusFreeWork {
    of: [f64; TIMES],
    request_bytes: f64,
    page_bytes: f64,
}

/// A bus, and which of it and the NAND is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FitBus {
    /// How fast data passes.
    pub bytes_per_second: u64,
    /// Whether a page takes longer on the bus than in the NAND.
    pub limits: bool,
}

impl BusFreeWork {
    /// What of it takes time. Data passes while the page before it is programmed: of the bus and
    /// the NAND the slower one counts, and the faster one for a page.
    pub fn on(&self, bus: FitBus) -> CountedWork {
        let [requests, programs, ..] = self.of;
        let mut of = self.of;
        let rate = bus.bytes_per_second as f64;
        let pages = (self.request_bytes / self.page_bytes).max(1.0);
        if bus.limits {
            of[1] = (programs - (pages - 1.0) * requests).max(0.0);
            return CountedWork { fixed: requests * self.request_bytes / rate, of };
        }
        CountedWork { fixed: requests * self.request_bytes.min(self.page_bytes) / rate, of }
    }
}

/// A cell's key: how many units, in which order, the size of a write.
pub type CellKey = (u32, AccessOrder, Bytes);

/// The key of a cell.
pub fn key(cell: &TableCell) -> CellKey {
    (cell.units, cell.access, cell.write)
}

/// The procedure by which a target was measured.
pub fn procedure(target: &FitTarget) -> OpenBlockProcedure {
    OpenBlockProcedure {
        erase_unit: target.erase_unit,
        least_write: target.least_write,
        most_units: target.most_units(),
        seed: SEED,
    }
}

/// A card of that structure in virtual time, written all over once, as cards that are measured are.
pub fn used(
    model: &flashfit_card::CardModel,
) -> Result<InProcessCard<VirtualClock>, ProcedureError> {
    let mut device = InProcessCard::new(Card::counting(model), VirtualClock::default());
    let capacity = device.describe().capacity_bytes;
    let piece = vec![0x5a; PIECE_BYTES];
    let mut offset = 0;
    while offset < capacity {
        let length = (capacity - offset).min(PIECE_BYTES as u64) as usize;
        device.write(offset, &piece[..length])?;
        offset += length as u64;
    }
    device.flush()?;
    Ok(device)
}

/// The counts of every cell that the runs of a target have.
///
/// # Errors
/// As [`ProcedureError`] tells: the sizes of the target do not fit the card.
pub fn count(
    target: &FitTarget,
    structure: &CardStructure,
) -> Result<Vec<(CellKey, BusFreeWork)>, ProcedureError> {
    let none = Times {
        command: 0.0,
        program: 0.0,
        read: 0.0,
        copy: 0.0,
        erase: 0.0,
        log: 0.0,
        jump: 0.0,
        switch: 0.0,
    };
    let mut model = structure.model(target.erase_unit, u64::MAX, &none);
    model.nand.copy_ns = COPY_NS;
    model.layer.log_ns = model.layer.log_ns.map(|_| LOG_NS);
    let procedure = procedure(target);
    let mut device = used(&model)?;
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
            let requests = (u64::from(units) * target.erase_unit.0 / write.0) as f64;
            let programs = (after.nand_programmed_bytes - before.nand_programmed_bytes) / page;
            let reads = (after.nand_read_bytes - before.nand_read_bytes) / page;
            let jumps = if access == AccessOrder::Linear { 0.0 } else { requests };
            let switches = if units == 1 { 0.0 } else { requests };
            let of = [
                requests,
                programs as f64,
                reads as f64,
                (time_ns % LOG_NS / COPY_NS) as f64,
                (after.erases - before.erases) as f64,
                (time_ns / LOG_NS) as f64,
                jumps,
                switches,
            ];
            let done = BusFreeWork { of, request_bytes: write.0 as f64, page_bytes: page as f64 };
            counts.push(((units, access, write), done));
        }
    }
    Ok(counts)
}
