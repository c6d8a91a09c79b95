//! Infers the specially mapped zone from find-FAT tables.
//!
//! Many cards map their first units, which hold a file allocation table, in a different way, and
//! write them faster or slower. A unit is special if its rates differ from the median of all units
//! by more than their variation in nearly all write sizes. The zone ends with the last such unit of
//! the first half.

use crate::belief::{log_student_3, log_sum_exp, median};
use crate::findings::{GeometryFinding, QuantityValue, SURE};
use crate::flashbench::FatTable;

/// Smallest median factor of a special unit's rates.
const MIN_FACTOR: f64 = 1.15;
/// Scale of a special unit's difference, as a logarithm.
const SPECIAL: f64 = 0.5;
/// Prior probability of a special unit.
const PRIOR: f64 = 0.1;
/// Weight of correlated rows.
const TOGETHER: f64 = 0.3;
/// Smallest variation of rates, as a logarithm.
const MIN_NOISE: f64 = 0.02;

pub fn finding(tables: &[FatTable]) -> GeometryFinding {
    let Some(unit) = tables.iter().filter_map(FatTable::unit).max() else {
        return GeometryFinding::not_measured("requires a find-FAT table");
    };
    let same: Vec<&FatTable> = tables.iter().filter(|table| table.unit() == Some(unit)).collect();
    let units = same.iter().flat_map(|table| &table.rows).map(|row| row.bytes_per_second.len());
    let Some(units) = units.min().filter(|&units| units >= 4) else {
        return GeometryFinding::not_measured("requires a find-FAT table of at least four units");
    };
    // By unit, the differences of its rates from the medians of their rows.
    let mut off: Vec<Vec<f64>> = vec![Vec::new(); units];
    for row in same.iter().flat_map(|table| &table.rows) {
        let logs: Vec<f64> = row
            .bytes_per_second
            .iter()
            .take(units)
            .map(|&rate| (rate.max(1) as f64).ln())
            .collect();
        let middle = median(&logs);
        off.iter_mut().zip(logs).for_each(|(off, log)| off.push(log - middle));
    }
    let all: Vec<f64> = off.iter().flatten().map(|off| off.abs()).collect();
    let noise = (median(&all) / 0.6745).max(MIN_NOISE);
    let special: Vec<f64> = off.iter().map(|off| probability(off, noise)).collect();
    let half = units / 2;
    let sure = |&p: &f64| p >= SURE || p <= 1.0 - SURE;
    if !special.iter().all(sure) || special[half..].iter().any(|&p| p >= SURE) {
        let reason = "the rates differ, but not between the first units and all others";
        return GeometryFinding::inconclusive(reason, Vec::new());
    }
    let Some(last) = special.iter().rposition(|&p| p >= SURE) else {
        let reason = format!("the first {units} units of {unit} have equal write rates");
        return GeometryFinding::inconclusive(reason, Vec::new());
    };
    let confidence = special.iter().map(|&p| p.max(1.0 - p)).product::<f64>();
    let bytes = (last as u64 + 1) * unit.0;
    let factor = median(&off[last]).exp();
    let reason = format!("unit {} is written at {factor:.2} times the usual rate", last + 1);
    if confidence < SURE {
        return GeometryFinding::inconclusive(reason, Vec::new());
    }
    GeometryFinding::found(QuantityValue::Bytes(bytes), confidence, reason)
}

/// The probability that a unit with these differences is special.
fn probability(off: &[f64], noise: f64) -> f64 {
    let sum = |log: &dyn Fn(f64) -> f64| off.iter().map(|&off| TOGETHER * log(off)).sum::<f64>();
    let plain = (1.0 - PRIOR).ln() + sum(&|off| log_student_3(off, noise));
    let middle = median(off);
    if middle.abs() < MIN_FACTOR.ln() {
        return 0.0;
    }
    // The level of a special unit is unknown.
    let special = PRIOR.ln()
        + log_student_3(middle, SPECIAL)
        + sum(&|off| log_student_3(off - middle, noise.max(middle.abs() / 3.0)));
    (special - log_sum_exp([plain, special].into_iter())).exp()
}
