//! What a twin is fitted to: the rates of open-unit tables, and the order in which they were
//! measured.
//!
//! The order counts because a card is left by one run as the next finds it. Several tables of one
//! device are put together by the median of each cell.

use std::collections::BTreeMap;

use flashfit_device::Bytes;
use flashfit_geometry::belief::median;
use flashfit_geometry::flashbench::{AccessOrder, OpenBlockTable, TableCell};

/// With fewer cells a model could be anything.
const LEAST_CELLS: usize = 12;
/// No table has more units; simulating them would take long.
pub const MOST_UNITS: u32 = 64;

/// The rates, and how they were got.
#[derive(Debug, Clone, PartialEq)]
pub struct FitTarget {
    /// The rates that are known, each cell once.
    pub cells: Vec<TableCell>,
    /// The runs in the order of measurement: how many units, in which order. Each writes all sizes.
    pub runs: Vec<(u32, AccessOrder)>,
    /// The erase block that was supposed by the measurement: the largest write.
    pub erase_unit: Bytes,
    /// The smallest write.
    pub least_write: Bytes,
}

impl FitTarget {
    /// What tables of one device say together; `None` where they say too little for a fit.
    pub fn of(tables: &[OpenBlockTable]) -> Option<Self> {
        let all = || tables.iter().flat_map(|table| &table.cells);
        let erase_unit = all().map(|cell| cell.write).max()?;
        // Larger and smaller ones of other tables would need a procedure of their own.
        let divides = |write: Bytes| erase_unit.0 % write.0 == 0;
        let halves = |write: Bytes| divides(write) && (erase_unit.0 / write.0).is_power_of_two();
        let mut rates: BTreeMap<(u32, AccessOrder, Bytes), Vec<f64>> = BTreeMap::new();
        let mut runs = Vec::new();
        for cell in all().filter(|cell| halves(cell.write) && cell.units <= MOST_UNITS) {
            let run = (cell.units, cell.access);
            if !runs.contains(&run) {
                runs.push(run);
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
        (cells.len() >= LEAST_CELLS).then_some(Self { cells, runs, erase_unit, least_write })
    }

    /// The most units that were written in turn.
    pub fn most_units(&self) -> u32 {
        self.runs.iter().map(|(units, _)| *units).max().unwrap_or(1)
    }

    /// The same with only some of the cells known; the runs stay.
    #[must_use]
    pub fn with_cells(&self, keep: impl Fn(usize) -> bool) -> Self {
        let cells = self.cells.iter().enumerate().filter(|(at, _)| keep(*at));
        Self { cells: cells.map(|(_, cell)| *cell).collect(), ..self.clone() }
    }
}
