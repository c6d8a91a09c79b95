//! Infers the number of open erase blocks, and their size, from open-unit tables.
//!
//! A device writes at one rate up to its number of open erase blocks, and at a much lower rate
//! beyond: the cliff. Each write size gives a row of rates by the number of units. Each position of
//! the cliff, or none, is weighted by how well two levels fit the rows. A gradual decline from each
//! number on is weighted, too; it gives no number of open erase blocks. Beyond a steep cliff, every
//! write also copies the rest of its unit. The extra time decreases with the write size and
//! vanishes for a whole unit, which reveals the unit size. Limits: only drops of at least a factor
//! of 1.8 count; writes below 64 KiB are ignored because they are slow for other reasons.

use flashfit_device::Bytes;

use crate::belief::{DeviceStructure, log_student_3, log_sum_exp, median};
use crate::findings::{CandidateValue, GeometryFinding, QuantityValue, SURE};
use crate::flashbench::{AccessOrder, OpenBlockTable};

/// The smallest write considered.
const MIN_WRITE: u64 = 64 << 10;
/// The divisor of the assumed unit that limits the writes considered; larger ones are nearly as
/// fast beyond the cliff.
const MAX_SHARE: u64 = 4;
/// The smallest drop at a cliff, as a factor.
const MIN_FALL: f64 = 1.8;
/// Variation of rates before and beyond a cliff, as logarithms.
const BEFORE: f64 = 0.12;
const BEYOND: f64 = 0.3;
/// Log-likelihood penalty per row for fitting two levels, or a level and a decline.
const FITTED: f64 = 1.5;
/// Prior probability of a gradual decline.
const GRADUAL: f64 = 0.2;
/// Variation of rates around a decline, as a logarithm.
const AROUND: f64 = 0.15;
/// The fewest numbers of units in a decline, and the largest share of it between two of them: most
/// of a cliff is a single step.
const LEAST_DECLINING: usize = 3;
const LARGEST_STEP: f64 = 0.5;
/// Weight of correlated rows.
const TOGETHER: f64 = 0.35;
/// Prior probability of no cliff within the table.
const NO_CLIFF: f64 = 0.4;
/// From this drop at writes of [`MIN_WRITE`] on, each write copies a unit.
const STEEP: f64 = 8.0;
/// Error of the rates predicted from copying, as a logarithm.
const COPYING: f64 = 0.15;

/// The posterior of the number of open erase blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct Cliff {
    /// Numbers with their probabilities, most likely first; the remainder is for no cliff.
    pub open_erase_blocks: Vec<(u32, f64)>,
    /// The probability of a gradual decline, and the number of units from which on it is likeliest.
    pub gradual: (u32, f64),
    /// The decline of the rates of any write size from one unit to the most, as a factor.
    pub whole_fall: f64,
    /// The largest number of units written in turn.
    pub most_units: u32,
    /// The drop beyond the most likely number, as a factor.
    pub fall: f64,
}

impl Cliff {
    /// The posterior; `None` if the tables have too few rates.
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
        let declines: Vec<f64> = (1..most)
            .map(|from| rows.iter().map(|row| TOGETHER * decline_at(row, from)).sum())
            .collect();
        let each = ((1.0 - NO_CLIFF - GRADUAL) / (most - 1) as f64).ln();
        let each_decline = (GRADUAL / (most - 1) as f64).ln();
        let total = log_sum_exp(
            logs.iter()
                .map(|log| each + log)
                .chain(declines.iter().map(|log| each_decline + log))
                .chain([none])
                .collect::<Vec<_>>()
                .into_iter(),
        );
        let gradual = log_sum_exp(declines.iter().map(|log| each_decline + log)) - total;
        let from = (1..).zip(&declines).max_by(|one, other| one.1.total_cmp(other.1));
        let gradual = (from.map_or(1, |(from, _)| from), gradual.exp());
        let mut open_erase_blocks: Vec<(u32, f64)> =
            (1..).zip(&logs).map(|(open, log)| (open, (each + log - total).exp())).collect();
        open_erase_blocks.sort_by(|one, other| other.1.total_cmp(&one.1));
        let open = open_erase_blocks[0].0 as usize;
        let falls: Vec<f64> = rows
            .iter()
            .filter(|row| row.len() > open)
            .map(|row| (median(&row[..open]) - median(&row[open..])).exp())
            .collect();
        let most_units = u32::try_from(most).expect("a table has few units");
        let whole_fall = whole_fall(tables, access);
        let fall = median(&falls);
        Some(Self { open_erase_blocks, gradual, whole_fall, most_units, fall })
    }

    /// The number, if its probability is at least [`SURE`].
    pub fn answer(&self) -> Option<u32> {
        let (open, probability) = self.open_erase_blocks[0];
        (probability >= SURE).then_some(open)
    }

    pub fn finding(&self) -> GeometryFinding {
        let candidates: Vec<CandidateValue> = self
            .open_erase_blocks
            .iter()
            .filter(|(_, probability)| *probability >= 0.001)
            .map(|&(open, probability)| CandidateValue {
                value: QuantityValue::Count(open),
                probability,
            })
            .collect();
        let Some(open) = self.answer() else {
            let cliffs = self.open_erase_blocks.iter().map(|(_, probability)| probability);
            let (from, gradual) = self.gradual;
            let none = 1.0 - cliffs.sum::<f64>() - gradual;
            let reason = if gradual > 0.5 {
                format!(
                    "the rates decline gradually, from about {from} units in turn on, by a factor \
                     of {:.1} with {}",
                    self.whole_fall, self.most_units
                )
            } else if none >= SURE && self.whole_fall >= MIN_FALL {
                format!(
                    "the rates of writes of {} and more do not drop with up to {} units in turn, \
                     those of another size by a factor of {:.1}",
                    Bytes(MIN_WRITE),
                    self.most_units,
                    self.whole_fall
                )
            } else if none >= SURE {
                format!("the rates do not drop with up to {} units in turn", self.most_units)
            } else {
                "the rates drop, but not at one number of units".to_owned()
            };
            return GeometryFinding::inconclusive(reason, candidates);
        };
        let reason = format!(
            "writes to {} units in turn are {:.1} times slower than to {open}",
            open + 1,
            self.fall
        );
        let found =
            GeometryFinding::found(QuantityValue::Count(open), self.open_erase_blocks[0].1, reason);
        GeometryFinding { candidates, ..found }
    }
}

/// By write size, the logarithms of the rates for 1, 2, ... units without gaps.
fn rows(table: &OpenBlockTable, access: AccessOrder) -> Vec<Vec<f64>> {
    let unit = table.cells.iter().map(|cell| cell.write.0).max().unwrap_or(0);
    let sizes = sizes(table).into_iter();
    sizes
        .filter(|write| (MIN_WRITE..=unit / MAX_SHARE).contains(&write.0))
        .map(|write| {
            (1..).map_while(|units| rate(table, units, access, write)).map(f64::ln).collect()
        })
        .collect()
}

/// The write sizes of a table, ascending.
pub fn sizes(table: &OpenBlockTable) -> Vec<Bytes> {
    let mut sizes: Vec<Bytes> = table.cells.iter().map(|cell| cell.write).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// In bytes per second; the importer rejects rates of 0.
fn rate(table: &OpenBlockTable, units: u32, access: AccessOrder, write: Bytes) -> Option<f64> {
    table.rate(units, access, write).filter(|&rate| rate > 0).map(|rate| rate as f64)
}

fn level(rates: &[f64], at: f64, scale: f64) -> f64 {
    rates.iter().map(|rate| log_student_3(rate - at, scale)).sum()
}

/// The largest decline from one unit to the most, over the write sizes.
fn whole_fall(tables: &[OpenBlockTable], access: AccessOrder) -> f64 {
    let falls = tables.iter().flat_map(|table| {
        sizes(table).into_iter().filter_map(|write| {
            let rates: Vec<f64> =
                (1..).map_while(|units| rate(table, units, access, write)).collect();
            Some(rates.first()? / rates.last()?)
        })
    });
    falls.fold(1.0, f64::max)
}

/// The log-likelihood of a row that is level with up to `from` units and then declines with the
/// logarithm of the number of units, or in proportion to it.
fn decline_at(row: &[f64], from: usize) -> f64 {
    if from + LEAST_DECLINING > row.len() || has_single_step(row) {
        return level(row, median(row), BEFORE) - 2.0;
    }
    let (before, beyond) = row.split_at(from);
    let high = median(before);
    let shapes: [fn(f64, f64) -> f64; 2] =
        [|units, from| (units / from).ln(), |units, from| units - from];
    let fitted = shapes.into_iter().map(|shape| {
        let place = |at: usize| shape((from + 1 + at) as f64, from as f64);
        let slopes: Vec<f64> =
            beyond.iter().enumerate().map(|(at, rate)| (high - rate) / place(at)).collect();
        let slope = median(&slopes);
        if slope * place(beyond.len() - 1) < MIN_FALL.ln() {
            return level(row, median(row), BEFORE) - 2.0;
        }
        let off = beyond.iter().enumerate().map(|(at, rate)| rate - high + slope * place(at));
        let around: f64 = off.map(|off| log_student_3(off, AROUND)).sum();
        level(before, high, BEFORE) + around - FITTED
    });
    fitted.fold(f64::NEG_INFINITY, f64::max)
}

/// Whether more than half of the whole decline is between two numbers of units.
fn has_single_step(row: &[f64]) -> bool {
    let lowest = row.iter().copied().fold(f64::INFINITY, f64::min);
    let whole = median(&row[..row.len().min(2)]) - lowest;
    row.windows(2).any(|of| of[0] - of[1] > LARGEST_STEP * whole)
}

/// The log-likelihood of a row for this number of open erase blocks.
fn cliff_at(row: &[f64], open: usize) -> f64 {
    if open >= row.len() {
        return level(row, median(row), BEFORE);
    }
    let (before, beyond) = row.split_at(open);
    let (high, low) = (median(before), median(beyond));
    if high - low < MIN_FALL.ln() {
        // No cliff here, with a penalty.
        return level(row, median(row), BEFORE) - 2.0;
    }
    level(before, high, BEFORE) + level(beyond, low, BEYOND) - FITTED
}

/// Whether random writes copy a unit even with a single unit, so that no unit can be open in random
/// order. `None` if the tables do not show it.
pub fn none_in_a_mixed_order(tables: &[OpenBlockTable], linear: &Cliff) -> Option<bool> {
    let open = linear.answer().filter(|_| linear.fall >= STEEP)?;
    let mut ratios = Vec::new();
    for table in tables {
        let unit = sizes(table).last()?.0;
        for write in sizes(table) {
            if !(MIN_WRITE..=unit / MAX_SHARE).contains(&write.0) {
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

/// The likelihood of the rates beyond a steep cliff by unit size.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyLikelihood {
    /// By row: the write size, its time within and beyond the open erase blocks, and the time to
    /// copy nearly a whole unit; in bytes and seconds.
    writes: Vec<(u64, f64, f64, f64)>,
}

impl CopyLikelihood {
    /// `None` without a steep cliff.
    pub fn of(tables: &[OpenBlockTable], access: AccessOrder, cliff: &Cliff) -> Option<Self> {
        let open = cliff.answer().filter(|_| cliff.fall >= STEEP)?;
        let mut writes = Vec::new();
        for table in tables {
            let times: Vec<(u64, f64, f64)> = sizes(table)
                .into_iter()
                .filter(|write| write.0 >= MIN_WRITE)
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

    /// The log-likelihood of the rates under a structure.
    pub fn log_likelihood(&self, structure: DeviceStructure) -> f64 {
        let Some(unit) = structure.bytes() else {
            // A cliff implies units, of unknown size.
            return self
                .writes
                .iter()
                .map(|_| TOGETHER * log_student_3(4.0 * COPYING, COPYING))
                .sum();
        };
        let of_write = |&(write, within, beyond, copying): &(u64, f64, f64, f64)| {
            // The share of the unit that is copied; 0 if whole units are written.
            let left =
                if write % unit == 0 { 0.0 } else { 1.0 - (write % unit) as f64 / unit as f64 };
            let predicted = within + copying * left;
            log_student_3((beyond / predicted).ln(), COPYING)
        };
        self.writes.iter().map(|write| TOGETHER * of_write(write)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flashbench::TableCell;

    /// A table of an erase block of 4 MiB in which rates depend on the number of units.
    fn table(rate: impl Fn(u32) -> f64) -> OpenBlockTable {
        let sizes = [64, 128, 256, 512, 1024, 4096];
        let cells = (1..=10).flat_map(|units| {
            let rate = rate(units);
            sizes.map(move |kib| TableCell {
                units,
                access: AccessOrder::Linear,
                write: Bytes::kib(kib),
                bytes_per_second: (rate * (1.0 + (kib % 7) as f64 / 100.0)) as u64,
            })
        });
        OpenBlockTable { cells: cells.collect() }
    }

    fn finding(rate: impl Fn(u32) -> f64) -> GeometryFinding {
        Cliff::of(&[table(rate)], AccessOrder::Linear).unwrap().finding()
    }

    #[test]
    fn a_cliff_gives_the_number_of_open_erase_blocks() {
        let cliff = finding(|units| if units <= 5 { 9e6 } else { 6e5 });
        assert_eq!(cliff.value, Some(QuantityValue::Count(5)));
        let level = finding(|_| 9e6);
        assert!(level.value.is_none() && level.reason.contains("do not drop"), "{}", level.reason);
    }

    #[test]
    fn a_gradual_decline_gives_none() {
        let from_two = |units: u32| 3.99e6 * (2.0 / f64::from(units.max(2))).powf(1.03);
        let in_proportion = |units: u32| 8e6 * (-0.2 * f64::from(units.saturating_sub(3))).exp();
        for found in [finding(from_two), finding(in_proportion)] {
            assert_eq!(found.value, None, "{found:?}");
            assert!(found.reason.contains("decline gradually"), "{}", found.reason);
        }
    }
}
