//! Infers the log for small writes from open-unit tables.
//!
//! Only a separate log makes small writes faster than writes of twice the size. Each access order
//! and number of units shows at most one such size. The sizes are compared with each other and with
//! chance.

use std::collections::{BTreeMap, BTreeSet};

use super::cliff::sizes;
use crate::belief::log_sum_exp;
use crate::findings::{CandidateValue, GeometryFinding, QuantityValue, SURE};
use crate::flashbench::{AccessOrder, OpenBlockTable};

/// Smallest factor between the rate of a logged write and of one twice as large.
const FASTER: f64 = 1.6;
/// The largest write that a log for small writes takes.
const MAX_BYTES: u64 = 256 << 10;
/// Probability that a row shows the log if there is one, and that it shows another size by chance.
const SHOWS: f64 = 0.6;
const CHANCE: f64 = 0.02;
/// Weight of correlated rows.
const TOGETHER: f64 = 0.4;

pub fn finding(tables: &[OpenBlockTable]) -> GeometryFinding {
    let mut seen: BTreeMap<u64, u32> = BTreeMap::new();
    let (mut rows, mut shown) = (0_u32, 0_u32);
    for table in tables {
        let sizes = sizes(table);
        let numbers: BTreeSet<u32> = table.cells.iter().map(|cell| cell.units).collect();
        for access in [AccessOrder::Linear, AccessOrder::Random] {
            for &units in &numbers {
                let faster = sizes.windows(2).filter_map(|of| {
                    let rate = |write| table.rate(units, access, write).map(|rate| rate as f64);
                    let ratio = rate(of[0])? / rate(of[1])?;
                    (of[0].0 <= MAX_BYTES).then_some((of[0].0, ratio))
                });
                let most = faster.max_by(|one, other| one.1.total_cmp(&other.1));
                let Some((write, ratio)) = most else { continue };
                rows += 1;
                if ratio >= FASTER {
                    *seen.entry(write).or_default() += 1;
                    shown += 1;
                }
            }
        }
    }
    if rows == 0 {
        return GeometryFinding::not_measured("requires tables with consecutive write sizes");
    }
    let candidates = posterior(&seen, rows);
    let likeliest = candidates.first().copied().filter(|of| of.probability >= SURE);
    let Some(CandidateValue { value, probability }) = likeliest else {
        let reason = match shown {
            0 => "no write size is faster than twice that size".to_owned(),
            _ => {
                format!("writes of one size are faster than larger ones in {shown} of {rows} rows")
            }
        };
        return GeometryFinding::inconclusive(reason, candidates);
    };
    let count = match value {
        QuantityValue::Bytes(bytes) => seen[&bytes],
        _ => unreachable!("the candidates are sizes"),
    };
    let reason =
        format!("writes of this size are faster than larger ones in {count} of {rows} rows");
    GeometryFinding { candidates, ..GeometryFinding::found(value, probability, reason) }
}

/// The posterior of the sizes. The prior of no log equals that of all sizes together.
fn posterior(seen: &BTreeMap<u64, u32>, rows: u32) -> Vec<CandidateValue> {
    let log = |own: u32| {
        let others: u32 = seen.values().sum::<u32>() - own;
        // A log may only be visible in some rows, for example beyond the cliff or in random order.
        let quiet = f64::from(rows - own - others);
        let of_log = f64::from(own) * SHOWS.ln() + quiet * (1.0 - SHOWS).max(0.5).ln();
        TOGETHER * (of_log + f64::from(others) * CHANCE.ln())
    };
    let none = TOGETHER
        * (f64::from(seen.values().sum::<u32>()) * CHANCE.ln()
            + f64::from(rows - seen.values().sum::<u32>()) * (1.0 - CHANCE).ln());
    let prior = (seen.len().max(1) as f64).ln();
    let logs: Vec<f64> = seen.values().map(|&own| log(own) - prior).chain([none]).collect();
    let total = log_sum_exp(logs.iter().copied());
    let mut candidates: Vec<CandidateValue> = seen
        .keys()
        .zip(&logs)
        .map(|(&bytes, log)| CandidateValue {
            value: QuantityValue::Bytes(bytes),
            probability: (log - total).exp(),
        })
        .collect();
    candidates.sort_by(|one, other| other.probability.total_cmp(&one.probability));
    candidates
}
