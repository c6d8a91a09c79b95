//! The measurements that a twin is fitted to: the rates of open-block tables, in the order in which
//! they were measured.
//!
//! The order matters because each run starts with the card as the previous one left it. For several
//! tables of one device, the median of each cell is used.

use std::collections::BTreeMap;

use flashfit_device::Bytes;
use flashfit_geometry::belief::median;
use flashfit_geometry::flashbench::{AccessOrder, OpenBlockTable, TableCell};

/// Fewer cells do not determine a model.
const MIN_CELLS: usize = 12;
/// Upper limit of open blocks, to bound the time of the simulation.
pub const MAX_UNITS: u32 = 64;

#[derive(Debug, Clone, PartialEq)]
pub struct FitTarget {
    /// Measured rates, one per cell.
    pub cells: Vec<TableCell>,
    /// Open blocks and order of each run, in the order of measurement. Each run has all sizes.
    pub runs: Vec<(u32, AccessOrder)>,
    /// The erase block that the measurement assumed: the largest write.
    pub erase_block: Bytes,
    pub least_write: Bytes,
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
        let mut runs = Vec::new();
        for cell in all().filter(|cell| halves(cell.write) && cell.units <= MAX_UNITS) {
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
        (cells.len() >= MIN_CELLS).then_some(Self { cells, runs, erase_block, least_write })
    }

    /// The largest number of open blocks.
    pub fn most_units(&self) -> u32 {
        self.runs.iter().map(|(units, _)| *units).max().unwrap_or(1)
    }

    /// Keeps only some of the cells, but all runs.
    #[must_use]
    pub fn with_cells(&self, keep: impl Fn(usize) -> bool) -> Self {
        let cells = self.cells.iter().enumerate().filter(|(at, _)| keep(*at));
        Self { cells: cells.map(|(_, cell)| *cell).collect(), ..self.clone() }
    }
}
