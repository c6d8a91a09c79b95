//! The measurements that a twin is fitted to: the rates of open-block tables, in the order in which
//! they were measured.
//!
//! The order matters because each run starts with the card as the previous one left it. For several
//! tables of one device, the median of each cell is used.

use std::collections::BTreeMap;

use flashfit_card::card::streams::Streams;
use flashfit_device::{BlockDevInfo, Bytes};
use flashfit_geometry::belief::median;
use flashfit_geometry::flashbench::{AccessOrder, OpenBlockTable, TableCell};
use serde::{Deserialize, Serialize};

use crate::counts::BusFreeWork;
use crate::pattern::{MeasuredPattern, PatternRequest};
use crate::times::Durations;

/// Fewer cells do not determine a model.
const MIN_CELLS: usize = 12;
/// Upper limit of open blocks, to bound the time of the simulation.
pub const MAX_UNITS: u32 = 64;
/// How much the cells of tables, the parts of patterns and whole patterns count. In which part a
/// merge falls is chance, so that the whole says more.
const CELLS_SHARE: f64 = 1.0;
const PARTS_SHARE: f64 = 0.5;
const PATTERNS_SHARE: f64 = 1.5;
/// The largest card that is fast to simulate.
pub const MOST_BYTES: u64 = 8 << 30;
/// Addressable erase blocks of a card without patterns.
const CAPACITY_UNITS: u64 = 64;

#[derive(Debug, Clone, PartialEq)]
pub struct FitTarget {
    /// Measured rates, one per cell.
    pub cells: Vec<TableCell>,
    /// The runs in the order of measurement.
    pub runs: Vec<MeasuredRun>,
    /// The erase block that the measurement assumed: the largest write.
    pub erase_block: Bytes,
    pub least_write: Bytes,
    /// Patterns that were measured after the runs.
    pub patterns: Option<MeasuredPatterns>,
    /// What the device reports about itself, if it is known.
    pub device: Option<BlockDevInfo>,
}

/// The cells of one number of open blocks and one order, measured from the largest write down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredRun {
    pub units: u32,
    pub access: AccessOrder,
    /// Where the run ended. What was not measured was not written, either.
    pub least_write: Bytes,
}

/// Patterns of one device, which lie within what was written once before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredPatterns {
    /// From the beginning.
    pub filled: Bytes,
    pub measured: Vec<MeasuredPattern>,
}

impl MeasuredPatterns {
    /// Bytes per second of the fastest part that only reads.
    pub fn read_rate(&self) -> Option<f64> {
        let parts = self.measured.iter().flat_map(|of| of.pattern.parts.iter().zip(&of.parts_ns));
        let rates = parts.filter_map(|(part, &ns)| {
            let read = |request: &PatternRequest| match request {
                PatternRequest::Read { length, .. } => Some(*length),
                PatternRequest::Write { .. } | PatternRequest::Flush => None,
            };
            let bytes: Option<u64> = part.iter().map(read).sum();
            Some(bytes? as f64 * 1e9 / ns.max(1) as f64)
        });
        rates.max_by(f64::total_cmp)
    }

    /// For each measured part, the writes that do not continue where the last one to their erase
    /// block ended, and those to another erase block than the last one.
    pub fn streams(&self, erase_block: Bytes) -> Vec<(f64, f64)> {
        let mut streams = Streams::default();
        let mut counts = Vec::new();
        for of in &self.measured {
            for part in &of.pattern.parts[..of.parts_ns.len()] {
                let (mut jumps, mut switches) = (0.0, 0.0);
                for (offset, length) in part.iter().flat_map(PatternRequest::written_pieces) {
                    let step = streams.step(erase_block.0, offset, length);
                    jumps += f64::from(u8::from(step.jumps));
                    switches += f64::from(u8::from(step.switches));
                }
                counts.push((jumps, switches));
            }
        }
        counts
    }
}

impl FitTarget {
    /// Combines the tables of one device; `None` if they have too few cells.
    pub fn from_tables(tables: &[OpenBlockTable]) -> Option<Self> {
        let all = || tables.iter().flat_map(|table| &table.cells);
        let erase_block = all().map(|cell| cell.write).max()?;
        // Other sizes would need a separate procedure.
        let divides = |write: Bytes| erase_block.0 % write.0 == 0;
        let halves = |write: Bytes| divides(write) && (erase_block.0 / write.0).is_power_of_two();
        let mut rates: BTreeMap<(u32, AccessOrder, Bytes), Vec<f64>> = BTreeMap::new();
        let mut runs: Vec<MeasuredRun> = Vec::new();
        for cell in all().filter(|cell| halves(cell.write) && cell.units <= MAX_UNITS) {
            let of_run =
                |run: &&mut MeasuredRun| (run.units, run.access) == (cell.units, cell.access);
            match runs.iter_mut().find(of_run) {
                Some(run) => run.least_write = run.least_write.min(cell.write),
                None => runs.push(MeasuredRun {
                    units: cell.units,
                    access: cell.access,
                    least_write: cell.write,
                }),
            }
            if cell.bytes_per_second > 0 {
                let key = (cell.units, cell.access, cell.write);
                rates.entry(key).or_default().push(cell.bytes_per_second as f64);
            }
        }
        let cells: Vec<TableCell> = rates
            .into_iter()
            .map(|((units, access, write), rates)| {
                let bytes_per_second = median(&rates) as u64;
                TableCell { units, access, write, bytes_per_second }
            })
            .collect();
        let least_write = cells.iter().map(|cell| cell.write).min()?;
        (cells.len() >= MIN_CELLS).then_some(Self {
            cells,
            runs,
            erase_block,
            least_write,
            patterns: None,
            device: None,
        })
    }

    /// Adds patterns of the same device, measured after its tables.
    #[must_use]
    pub fn with_patterns(
        self,
        patterns: Option<MeasuredPatterns>,
        device: Option<BlockDevInfo>,
    ) -> Self {
        Self { patterns, device, ..self }
    }

    /// Whether the device declares a volatile cache.
    pub fn has_cache(&self) -> bool {
        self.device.is_some_and(|device| device.volatile_cache)
    }

    /// `84 open-block rates and 19 patterns`.
    pub fn measurements(&self) -> String {
        let rates = format!("{} open-block rates", self.cells.len());
        match self.patterns.as_ref().map_or(0, |patterns| patterns.measured.len()) {
            0 => rates,
            patterns => format!("{rates} and {patterns} patterns"),
        }
    }

    /// How large a card must be for the measurements. One that was full has few erase blocks, so
    /// that it is fast to simulate; on another, it matters how much is left.
    pub fn capacity(&self, was_full: bool) -> Bytes {
        let filled = self.patterns.as_ref().map_or(0, |patterns| patterns.filled.0);
        let device = self.device.filter(|_| !was_full).map_or(0, |device| device.capacity_bytes);
        let least = CAPACITY_UNITS * self.erase_block.0;
        let bytes = filled.max(least).max(device.min(MOST_BYTES));
        Bytes(bytes.div_ceil(self.erase_block.0) * self.erase_block.0)
    }

    /// All durations: of the cells, of all parts, and of whole patterns.
    pub fn durations(&self) -> Durations {
        let unit = self.erase_block.0 as f64;
        let seconds =
            |cell: &TableCell| unit * f64::from(cell.units) / cell.bytes_per_second as f64;
        let mut all: Vec<(f64, f64)> = Vec::new();
        let mut add = |seconds: Vec<f64>, share: f64| {
            let weight = share / seconds.len().max(1) as f64;
            all.extend(seconds.into_iter().map(|of| (of, weight)));
        };
        add(self.cells.iter().map(seconds).collect(), CELLS_SHARE);
        if let Some(patterns) = &self.patterns {
            let parts_ns = patterns.measured.iter().map(|of| &of.parts_ns);
            let in_seconds = |ns: u64| ns.max(1) as f64 / 1e9;
            add(parts_ns.clone().flatten().map(|&ns| in_seconds(ns)).collect(), PARTS_SHARE);
            add(parts_ns.map(|all| in_seconds(all.iter().sum())).collect(), PATTERNS_SHARE);
        }
        Durations::weighted(all)
    }

    /// The sums over each pattern of what is known of all its parts.
    pub fn pattern_sums(&self, parts: &[BusFreeWork]) -> Vec<BusFreeWork> {
        let measured = self.patterns.iter().flat_map(|patterns| &patterns.measured);
        let mut begin = 0;
        measured
            .map(|of| {
                let end = begin + of.parts_ns.len();
                let sum = parts[begin..end].iter().copied().reduce(BusFreeWork::plus);
                begin = end;
                sum.expect("a measured pattern has parts")
            })
            .collect()
    }

    /// The largest number of open blocks.
    pub fn most_units(&self) -> u32 {
        self.runs.iter().map(|run| run.units).max().unwrap_or(1)
    }

    /// Keeps only some of the cells, but all runs.
    #[must_use]
    pub fn with_cells(&self, keep: impl Fn(usize) -> bool) -> Self {
        let cells = self.cells.iter().enumerate().filter(|(at, _)| keep(*at));
        Self { cells: cells.map(|(_, cell)| *cell).collect(), ..self.clone() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Equal rates of up to three erase blocks of this size.
    pub(crate) fn target(erase_block: Bytes) -> FitTarget {
        let cell = |number: u32| TableCell {
            units: 1 + number / 7,
            access: AccessOrder::Linear,
            write: Bytes(erase_block.0 >> (number % 7)),
            bytes_per_second: 1 << 20,
        };
        let table = OpenBlockTable { cells: (0..21).map(cell).collect() };
        FitTarget::from_tables(&[table]).expect("enough cells")
    }

    /// All sizes of each run were simulated, and what was never written filled the logs.
    #[test]
    fn a_run_ends_where_its_measurement_ended() {
        let cells = |units: u32, sizes: u32| {
            (0..sizes).map(move |halved| TableCell {
                units,
                access: AccessOrder::Linear,
                write: Bytes((4 << 20) >> halved),
                bytes_per_second: 1 << 20,
            })
        };
        let table = OpenBlockTable { cells: cells(1, 11).chain(cells(2, 3)).collect() };
        let target = FitTarget::from_tables(&[table]).expect("enough cells");
        let ends: Vec<_> = target.runs.iter().map(|run| (run.units, run.least_write)).collect();
        assert_eq!(ends, [(1, Bytes::kib(4)), (2, Bytes::mib(1))]);
        assert_eq!(target.least_write, Bytes::kib(4));
    }
}
