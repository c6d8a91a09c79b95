//! The specially mapped zone in find-FAT tables.
//!
//! The first units of a card, where a file allocation table lies, are often mapped in another way
//! than the rest and are written faster or slower. A unit is special where its rates differ from
//! the median of all units by more than those vary, in nearly all sizes of a write; the zone
//! reaches from the start of the device to the last such unit of its first half.

use crate::belief::{log_student_3, log_sum_exp, median};
use crate::findings::{GeometryFinding, QuantityValue, SURE};
use crate::flashbench::FatTable;

/// A special unit's rates differ by at least this factor, mostly.
const LEAST_FACTOR: f64 = 1.15;
/// How much the rates of a special unit can lie off, as logarithms.
const SPECIAL: f64 = 0.5;
/// How likely a unit is special before anything is seen.
const PRIOR: f64 = 0.1;
/// The rows of a table go together: they count for less than if they were independent.
const TOGETHER: f64 = 0.3;
/// Rates do not repeat better than this, as logarithms.
const LEAST_NOISE: f64 = 0.02;

/// The finding.
pub fn finding(tables: &[FatTable]) -> GeometryFinding {
    let Some(unit) = tables.iter().filter_map(FatTable::unit).max() else {
        return GeometryFinding::not_measured("it takes a find-FAT table");
    };
    let same: Vec<&FatTable> = tables.iter().filter(|table| table.unit() == Some(unit)).collect();
    let units = same.iter().flat_map(|table| &table.rows).map(|row| row.bytes_per_second.len());
    let Some(units) = units.min().filter(|&units| units >= 4) else {
        return GeometryFinding::not_measured("it takes a find-FAT table of at least four units");
    };
    // By unit, how far each of its rates lies from the median of its row.
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
    let noise = (median(&all) / 0.6745).max(LEAST_NOISE);
    let special: Vec<f64> = off.iter().map(|off| probability(off, noise)).collect();
    let half = units / 2;
    let sure = |&p: &f64| p >= SURE || p <= 1.0 - SURE;
    if !special.iter().all(sure) || special[half..].iter().any(|&p| p >= SURE) {
        let reason = "units differ, but not those at the start from all others";
        return GeometryFinding::inconclusive(reason, Vec::new());
    }
    let Some(last) = special.iter().rposition(|&p| p >= SURE) else {
        let reason = format!("the first {units} units of {unit} are written alike");
        return GeometryFinding::inconclusive(reason, Vec::new());
    };
    let confidence = special.iter().map(|&p| p.max(1.0 - p)).product::<f64>();
    let bytes = (last as u64 + 1) * unit.0;
    let factor = median(&off[last]).exp();
    let reason = format!("unit {} is written {factor:.2} times as fast as most", last + 1);
    if confidence < SURE {
        return GeometryFinding::inconclusive(reason, Vec::new());
    }
    GeometryFinding::found(QuantityValue::Bytes(bytes), confidence, reason)
}

/// The probability that a unit is special, of how far its rates lie off.
fn probability(off: &[f64], noise: f64) -> f64 {
    let sum = |log: &dyn Fn(f64) -> f64| off.iter().map(|&off| TOGETHER * log(off)).sum::<f64>();
    let plain = (1.0 - PRIOR).ln() + sum(&|off| log_student_3(off, noise));
    let middle = median(off);
    if middle.abs() < LEAST_FACTOR.ln() {
        return 0.0;
    }
    // Where its level lies is not known beforehand.
    let special = PRIOR.ln()
        + log_student_3(middle, SPECIAL)
        + sum(&|off| log_student_3(off - middle, noise.max(middle.abs() / 3.0)));
    (special - log_sum_exp([plain, special].into_iter())).exp()
}
