//! The operations of a cell or a part, and the time that transfers take besides them.

use flashfit_card::InProcessCard;
use flashfit_device::VirtualClock;

use super::{COPY_NS, LOG_NS};
use crate::pattern::{LONGEST_REQUEST_BYTES, PatternRequest};
use crate::times::TIMES;

/// Positions in the order of [`crate::times::Times`].
const COMMAND: usize = 0;
const PROGRAM: usize = 1;
const READ: usize = 2;
const COPY: usize = 3;
const JUMP: usize = 6;
const SWITCH: usize = 7;
const FLUSH: usize = 8;
const CLOSE: usize = 9;

/// Numbers of dies that are tried.
pub const DIES: [u32; 3] = [1, 2, 4];

/// The operations in a cell, for a given bus and number of dies. Of what dies do in parallel, only
/// a part counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CountedWork {
    /// Time in seconds during which the NAND waits for the bus.
    pub fixed_s: f64,
    /// Number of operations, in the order of [`crate::times::Times`].
    pub counts: [f64; TIMES],
}

/// The operations in a cell, for any bus and any number of dies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BusFreeWork {
    counts: [f64; TIMES],
    written_bytes: f64,
    /// The first page of each write: nothing is programmed while it is transferred.
    first_bytes: f64,
    /// Pages that are transferred while an earlier one of the same write is programmed.
    overlapped_pages: LaterPages,
    read_bytes: f64,
    /// The pages of each read after the first one.
    later_read_pages: LaterPages,
}

/// The pages of requests after the first of each, and what remains of them on several dies.
#[derive(Debug, Clone, Copy, PartialEq)]
struct LaterPages([f64; DIES.len()]);

impl LaterPages {
    const NONE: Self = Self([0.0; DIES.len()]);

    fn add(&mut self, bytes: u64, page: u64, requests: f64) {
        for (&dies, later) in DIES.iter().zip(&mut self.0) {
            let pages = match dies {
                1 => bytes as f64 / page as f64,
                _ => bytes.div_ceil(page).div_ceil(u64::from(dies)) as f64,
            };
            *later += (pages - 1.0).max(0.0) * requests;
        }
    }

    fn plus(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] + other.0[at]))
    }

    /// One after another on so many dies.
    fn on(self, dies: u32) -> f64 {
        let at = DIES.iter().position(|&of| of == dies).expect("a number of dies that is tried");
        self.0[at]
    }
}

/// A bus, and whether it or the NAND is the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FitBus {
    pub bytes_per_second: u64,
    /// Whether transferring a page takes longer than programming it.
    pub limits: bool,
}

/// What the card counted itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operations {
    programs: u64,
    reads: u64,
    erases: u64,
    evictions: u64,
    /// Without streams and flushes.
    counts: [f64; TIMES],
}

impl Operations {
    pub fn of(device: &InProcessCard<VirtualClock>, page: u64) -> Self {
        let counters = device.card().counters();
        Self {
            programs: counters.nand_programmed_bytes / page,
            reads: counters.nand_read_bytes / page,
            erases: counters.erases,
            evictions: device.card().evictions(),
            counts: [0.0; TIMES],
        }
    }

    /// The operations since `before`, in a time that tells copies and log writes.
    pub fn since(self, before: &Self, time_ns: u64) -> Self {
        let mut counts = [0.0; TIMES];
        counts[1..6].copy_from_slice(&[
            (self.programs - before.programs) as f64,
            (self.reads - before.reads) as f64,
            (time_ns % LOG_NS / COPY_NS) as f64,
            (self.erases - before.erases) as f64,
            (time_ns / LOG_NS) as f64,
        ]);
        Self { counts, ..self }
    }

    /// With the erase blocks closed since `before`, where closing takes time of its own.
    pub fn with_closes_since(mut self, before: &Self) -> Self {
        self.counts[CLOSE] = (self.evictions - before.evictions) as f64;
        self
    }
}

impl BusFreeWork {
    pub(super) fn of_table(
        operations: Operations,
        requests: f64,
        write_bytes: u64,
        page: u64,
    ) -> Self {
        let mut work = Self::empty(operations);
        work.write(write_bytes, page, requests);
        work
    }

    pub(super) fn of_part(
        operations: Operations,
        part: &[PatternRequest],
        page: u64,
        flushes: bool,
    ) -> Self {
        let mut work = Self::empty(operations);
        for request in part {
            match *request {
                PatternRequest::Flush if flushes => work = work.with_flushes(1.0),
                PatternRequest::Flush => {}
                PatternRequest::Read { length, .. } => {
                    work.counts[COMMAND] += length.div_ceil(LONGEST_REQUEST_BYTES) as f64;
                    work.read_bytes += length as f64;
                    work.later_read_pages.add(length, page, 1.0);
                }
                PatternRequest::Write { length, .. } => {
                    let whole = length / LONGEST_REQUEST_BYTES;
                    work.write(LONGEST_REQUEST_BYTES, page, whole as f64);
                    let rest = length % LONGEST_REQUEST_BYTES;
                    work.write(rest, page, if rest > 0 { 1.0 } else { 0.0 });
                }
            }
        }
        work
    }

    fn empty(operations: Operations) -> Self {
        Self {
            counts: operations.counts,
            written_bytes: 0.0,
            first_bytes: 0.0,
            overlapped_pages: LaterPages::NONE,
            read_bytes: 0.0,
            later_read_pages: LaterPages::NONE,
        }
    }

    fn write(&mut self, bytes: u64, page: u64, requests: f64) {
        self.counts[COMMAND] += requests;
        self.written_bytes += bytes as f64 * requests;
        self.first_bytes += bytes.min(page) as f64 * requests;
        self.overlapped_pages.add(bytes, page, requests);
    }

    pub(super) fn with_streams(mut self, jumps: f64, switches: f64) -> Self {
        self.counts[JUMP] += jumps;
        self.counts[SWITCH] += switches;
        self
    }

    /// A flush is a request of its own.
    pub(super) fn with_flushes(mut self, flushes: f64) -> Self {
        self.counts[COMMAND] += flushes;
        self.counts[FLUSH] += flushes;
        self
    }

    /// The operations of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            counts: std::array::from_fn(|at| self.counts[at] + other.counts[at]),
            written_bytes: self.written_bytes + other.written_bytes,
            first_bytes: self.first_bytes + other.first_bytes,
            overlapped_pages: self.overlapped_pages.plus(other.overlapped_pages),
            read_bytes: self.read_bytes + other.read_bytes,
            later_read_pages: self.later_read_pages.plus(other.later_read_pages),
        }
    }

    /// The operations that take time on this bus. Transfer and programming of consecutive pages
    /// overlap: the slower one counts for every page, the faster one for one page per request.
    /// Consecutive pages are on different dies, which copy, read and program in parallel.
    pub fn on(&self, bus: FitBus, dies: u32) -> CountedWork {
        let mut counts = self.counts;
        let rate = bus.bytes_per_second as f64;
        let copied = counts[COPY];
        let spread = |all: f64, later: LaterPages| {
            let copies = copied.min(all) / f64::from(dies);
            let others = (all - copied).max(0.0);
            let first = (others - later.on(1)).max(0.0);
            copies + first + later.on(dies).min(others)
        };
        counts[READ] = spread(counts[READ], self.later_read_pages);
        counts[PROGRAM] = spread(counts[PROGRAM], self.overlapped_pages);
        counts[COPY] = copied / f64::from(dies);
        let written_bytes = if bus.limits {
            counts[PROGRAM] = (counts[PROGRAM] - self.overlapped_pages.on(dies)).max(0.0);
            self.written_bytes
        } else {
            self.first_bytes
        };
        CountedWork { fixed_s: (written_bytes + self.read_bytes) / rate, counts }
    }
}
