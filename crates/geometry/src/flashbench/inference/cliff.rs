//! Open-unit tables: how many erase blocks a device keeps open, and how large they are.
//!
//! Within its open erase blocks a device writes at one rate, beyond them at another that is much
//! lower: the cliff. Each size of a write gives a row of rates by units; each number of open erase
//! blocks, or none within the table, is weighed by how well two levels fit the rows. Beyond a steep
//! cliff every write costs the copying of what it leaves of its unit, so that its time falls with
//! its size and is the plain one for a whole unit, which tells how large that is. Limits: a cliff
//! that is less than a factor of 1.8 is none here; writes below 64 KiB are not looked at, because
//! they fall off for other reasons.

use flashfit_device::Bytes;

use crate::belief::{DeviceStructure, log_student_3, log_sum_exp, median};
use crate::findings::{CandidateValue, GeometryFinding, QuantityValue, SURE};
use crate::flashbench::{AccessOrder, OpenBlockTable};

/// The writes that are looked at.
const LEAST_WRITE: u64 = 64 << 10;
/// Writes larger than this share of the supposed unit are nearly as fast beyond the cliff.
const MOST_SHARE: u64 = 4;
/// The least fall at a cliff, as a factor.
const LEAST_FALL: f64 = 1.8;
/// How much rates vary before a cliff and beyond it, as logarithms.
const BEFORE: f64 = 0.12;
const BEYOND: f64 = 0.3;
/// What a cliff that may lie anywhere costs in likelihood for each row: its two levels are fitted.
const FITTED: f64 = 1.5;
/// The rows of one table go together: they count for less than if they were independent.
const TOGETHER: f64 = 0.35;
/// How likely there is no cliff within a table.
const NO_CLIFF: f64 = 0.4;
/// A cliff as steep as this, at writes of [`LEAST_WRITE`], costs the copying of a unit.
const STEEP: f64 = 8.0;
/// How well the copying predicts the rates, as logarithms.
const COPYING: f64 = 0.15;

/// Where the cliff lies: the probability of each number of open erase blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct Cliff {
    /// The numbers and their probabilities, the likeliest first; the rest is for none.
    pub open_units: Vec<(u32, f64)>,
    /// The most units that were written in turn.
    pub most_units: u32,
    /// How many times slower it is beyond the likeliest.
    pub fall: f64,
}

impl Cliff {
    /// Weighs the numbers of open erase blocks; `None` where the tables have too few rates for
    /// that.
    pub fn of(tables: &[OpenBlockTable], access: AccessOrder) -> Option<Self> {
        let rows: Vec<Vec<f64>> = tables
            .iter()
            .flat_map(|table| rows(table, access))
            .filter(|row| row.len() > 1)
            .collect();
        let most = rows.iter().map(Vec::len).max()?;
        let logs: Vec<f64> = (1..most)
            .map(|open| rows.iter().map(|row| TOGETHER * cliff_at(row, open)).sum())
            .collect();
        let none: f64 = rows.iter().map(|row| TOGETHER * level(row, median(row), BEFORE)).sum();
        let none = NO_CLIFF.ln() + none;
        let each = ((1.0 - NO_CLIFF) / (most - 1) as f64).ln();
        let total = log_sum_exp(
            logs.iter().map(|log| each + log).chain([none]).collect::<Vec<_>>().into_iter(),
        );
        let mut open_units: Vec<(u32, f64)> =
            (1..).zip(&logs).map(|(open, log)| (open, (each + log - total).exp())).collect();
        open_units.sort_by(|one, other| other.1.total_cmp(&one.1));
        let open = open_units[0].0 as usize;
        let falls: Vec<f64> = rows
            .iter()
            .filter(|row| row.len() > open)
            .map(|row| (median(&row[..open]) - median(&row[open..])).exp())
            .collect();
        let most_units = u32::try_from(most).expect("a table has few units");
        Some(Self { open_units, most_units, fall: median(&falls) })
    }

    /// The number that can be answered.
    pub fn answer(&self) -> Option<u32> {
        let (open, probability) = self.open_units[0];
        (probability >= SURE).then_some(open)
    }

    /// The finding.
    pub fn finding(&self) -> GeometryFinding {
        let candidates: Vec<CandidateValue> = self
            .open_units
            .iter()
            .filter(|(_, probability)| *probability >= 0.001)
            .map(|&(open, probability)| CandidateValue {
                value: QuantityValue::Count(open),
                probability,
            })
            .collect();
        let Some(open) = self.answer() else {
            let none =
                1.0 - self.open_units.iter().map(|(_, probability)| probability).sum::<f64>();
            let reason = if none >= SURE {
                format!("no rate falls up to {} units in turn", self.most_units)
            } else {
                "the rates fall, but not at one number of units".to_owned()
            };
            return GeometryFinding::inconclusive(reason, candidates);
        };
        let reason = format!(
            "writes to {} units in turn are {:.1} times slower than to {open}",
            open + 1,
            self.fall
        );
        let found =
            GeometryFinding::found(QuantityValue::Count(open), self.open_units[0].1, reason);
        GeometryFinding { candidates, ..found }
    }
}

/// For each size of a write the logarithms of the rates by units, from 1 on without a gap.
fn rows(table: &OpenBlockTable, access: AccessOrder) -> Vec<Vec<f64>> {
    let unit = table.cells.iter().map(|cell| cell.write.0).max().unwrap_or(0);
    let sizes = sizes(table).into_iter();
    sizes
        .filter(|write| (LEAST_WRITE..=unit / MOST_SHARE).contains(&write.0))
        .map(|write| {
            (1..).map_while(|units| rate(table, units, access, write)).map(f64::ln).collect()
        })
        .collect()
}

/// The sizes of a write in a table, ascending.
pub fn sizes(table: &OpenBlockTable) -> Vec<Bytes> {
    let mut sizes: Vec<Bytes> = table.cells.iter().map(|cell| cell.write).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// In bytes a second; rates of zero were refused when the table was read.
fn rate(table: &OpenBlockTable, units: u32, access: AccessOrder, write: Bytes) -> Option<f64> {
    table.rate(units, access, write).filter(|&rate| rate > 0).map(|rate| rate as f64)
}

fn level(rates: &[f64], at: f64, scale: f64) -> f64 {
    rates.iter().map(|rate| log_student_3(rate - at, scale)).sum()
}

/// How likely a row is with so many open erase blocks, as a logarithm.
fn cliff_at(row: &[f64], open: usize) -> f64 {
    if open >= row.len() {
        return level(row, median(row), BEFORE);
    }
    let (before, beyond) = row.split_at(open);
    let (high, low) = (median(before), median(beyond));
    if high - low < LEAST_FALL.ln() {
        // As if there were no cliff, and unlikely so.
        return level(row, median(row), BEFORE) - 2.0;
    }
    level(before, high, BEFORE) + level(beyond, low, BEYOND) - FITTED
}

/// Whether writes in a mixed order cost the copying of a unit from the first unit on: no unit can
/// be open out of order. `None` where the tables do not tell.
pub fn none_in_a_mixed_order(tables: &[OpenBlockTable], linear: &Cliff) -> Option<bool> {
    let open = linear.answer().filter(|_| linear.fall >= STEEP)?;
    let mut ratios = Vec::new();
    for table in tables {
        let unit = sizes(table).last()?.0;
        for write in sizes(table) {
            if !(LEAST_WRITE..=unit / MOST_SHARE).contains(&write.0) {
                continue;
            }
            let beyond: Vec<f64> = (open + 1..=linear.most_units)
                .filter_map(|units| rate(table, units, AccessOrder::Linear, write))
                .collect();
            if let Some(random) = rate(table, 1, AccessOrder::Random, write) {
                ratios.push(random / median(&beyond));
            }
        }
    }
    ratios.retain(|ratio| ratio.is_finite());
    (ratios.len() > 2).then(|| median(&ratios) < 1.5)
}

/// How likely the rates beyond a steep cliff are with units of some size, up to a constant.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyLikelihood {
    /// For each row: the size of a write, its time within the open erase blocks and beyond them,
    /// and what the copying of nearly a whole unit takes; in bytes and seconds.
    writes: Vec<(u64, f64, f64, f64)>,
}

impl CopyLikelihood {
    /// What the tables tell of it; `None` without a steep cliff.
    pub fn of(tables: &[OpenBlockTable], access: AccessOrder, cliff: &Cliff) -> Option<Self> {
        let open = cliff.answer().filter(|_| cliff.fall >= STEEP)?;
        let mut writes = Vec::new();
        for table in tables {
            let times: Vec<(u64, f64, f64)> = sizes(table)
                .into_iter()
                .filter(|write| write.0 >= LEAST_WRITE)
                .filter_map(|write| {
                    let time =
                        |units: u32| Some(write.0 as f64 / rate(table, units, access, write)?);
                    let within: Vec<f64> = (1..=open).filter_map(time).collect();
                    let beyond: Vec<f64> = (open + 1..=cliff.most_units).filter_map(time).collect();
                    let known = !within.is_empty() && !beyond.is_empty();
                    known.then(|| (write.0, median(&within), median(&beyond)))
                })
                .collect();
            let unit = times.iter().map(|(write, ..)| *write).max()?;
            let small = times.iter().filter(|(write, ..)| *write <= unit / 16);
            let copying =
                median(&small.map(|(_, within, beyond)| beyond - within).collect::<Vec<_>>());
            if copying > 0.0 {
                writes.extend(
                    times
                        .into_iter()
                        .map(|(write, within, beyond)| (write, within, beyond, copying)),
                );
            }
        }
        (!writes.is_empty()).then_some(Self { writes })
    }

    /// How likely the rates are under a structure, as a logarithm.
    pub fn log_likelihood(&self, structure: DeviceStructure) -> f64 {
        let Some(unit) = structure.bytes() else {
            // A cliff shows that there are units; their size is then anything.
            return self
                .writes
                .iter()
                .map(|_| TOGETHER * log_student_3(4.0 * COPYING, COPYING))
                .sum();
        };
        let of_write = |&(write, within, beyond, copying): &(u64, f64, f64, f64)| {
            // The share of the unit that is left to be copied; none where whole units are written.
            let left =
                if write % unit == 0 { 0.0 } else { 1.0 - (write % unit) as f64 / unit as f64 };
            let predicted = within + copying * left;
            log_student_3((beyond / predicted).ln(), COPYING)
        };
        self.writes.iter().map(|write| TOGETHER * of_write(write)).sum()
    }
}
