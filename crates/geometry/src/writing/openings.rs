//! Counts the open erase blocks by the cost of beginning one more.
//!
//! The beginnings of erase blocks are written, one after the other, while nothing is left to
//! complete in those that are open. As many as the device keeps open cost only their own writing.
//! The next one closes the first, which must be completed with copies, and so does each after it. A
//! layer that maps chunks and continues closed ones in a log shows little of this when erase blocks
//! are written in turn, because only the closed ones cost more; here every further one does. The
//! number is a change point of the times, with a level before it and one after it.
//!
//! There are two ways to leave nothing to complete: to write other erase blocks from start to end,
//! or to continue those that were begun. On a layer with a log for each erase block, either can
//! leave logs in use, which look like fewer open erase blocks. So the number must be the same with
//! both. Limits: the rest of a chunk must take visibly longer than the written beginning; writes
//! that go to a log show nothing.

use super::meter::{MeasurementStop, Meter};
use super::open_erase_blocks::{MAX_UNITS, UnitPlacement, UnitWriteCost};
use crate::belief::{log_student_3, log_sum_exp, median};
use crate::findings::{CandidateValue, GeometryFinding, QuantityValue};
use crate::probed::SamplePurpose;

/// Chunks are an eighth of an erase block or larger, so an odd number of these parts leaves one
/// incomplete.
const PARTS: u64 = 16;
/// Writes of up to this size may go to a log, if nothing is known about it.
const USUAL_LOG: u64 = 64 << 10;
/// The fewest repeats, and the most.
const LEAST_TRIALS: usize = 5;
const MOST_TRIALS: usize = 11;
/// Erase blocks begun beyond the likely number.
const BEYOND: usize = 5;
/// The smallest standard error of a logarithm.
const LEAST_ERROR: f64 = 0.02;
/// Hypotheses for the log variation of times beyond their standard errors.
const SPREADS: [f64; 4] = [0.015, 0.04, 0.09, 0.18];
/// The smallest log height of the change, and how many further erase blocks must show it.
const LEAST_RISE: f64 = 0.15;
const LEAST_BEYOND: usize = 3;
/// Prior probability that there is no change.
const NO_CHANGE: f64 = 0.5;
/// The probability required of a number.
const SURE_OF_NUMBER: f64 = 0.985;

/// The finding, and the time of the first write to each further erase block.
pub struct Openings {
    pub finding: GeometryFinding,
    pub costs: Vec<UnitWriteCost>,
}

/// Measures until the number is found or it is clear that it does not show. `log_bytes` is the
/// largest write that goes to a log, if it is known.
pub fn measure(
    meter: &mut Meter<'_>,
    placement: &UnitPlacement,
    log_bytes: Option<u64>,
) -> Result<Openings, MeasurementStop> {
    let unit = placement.layout.unit;
    let Some(write_bytes) = write_bytes(unit, log_bytes.unwrap_or(USUAL_LOG)) else {
        return Ok(none("erase blocks are hardly larger than the writes that go to a log"));
    };
    let ways = [Completion::ByOthers, Completion::Continued];
    let [by_others, continued] = ways.map(|way| trials(meter, placement, write_bytes, way));
    let (by_others, continued) = (by_others?, continued?);
    let value = by_others.finding.value;
    if value.is_some() && continued.finding.value != value {
        let reason = "beginning further erase blocks shows a number that depends on what is open";
        let finding = GeometryFinding::inconclusive(reason, Vec::new());
        return Ok(Openings { finding, ..by_others });
    }
    Ok(by_others)
}

/// How the erase blocks that are open are left with nothing to complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Completion {
    /// Others are written from start to end.
    ByOthers,
    /// Those that were begun are continued to their ends.
    Continued,
}

/// Repeats until the number is found.
fn trials(
    meter: &mut Meter<'_>,
    placement: &UnitPlacement,
    write_bytes: u64,
    way: Completion,
) -> Result<Openings, MeasurementStop> {
    let unit = placement.layout.unit;
    let mut numbers: Vec<u64> = (0..placement.units()).collect();
    meter.random.shuffle(&mut numbers);
    let others = match way {
        Completion::ByOthers => (numbers.len() * 2 / 5).min(MAX_UNITS as usize),
        Completion::Continued => 0,
    };
    let others = numbers.split_off(numbers.len() - others);
    let mut most = numbers.len().min(MAX_UNITS as usize);
    let mut trials: Vec<Vec<f64>> = Vec::new();
    let mut found = none("the write budget is too small");
    for trial in 0..=MOST_TRIALS {
        if (most + others.len()) as u64 * unit > meter.left_bytes() / 2 || most <= LEAST_BEYOND {
            break;
        }
        let begun = &numbers[..most];
        match begin_and_complete(meter, placement, write_bytes, (begun, &others)) {
            Err(MeasurementStop::Spent) => break,
            // Before the first trial, other erase blocks were open.
            times if trial > 0 => trials.push(times?),
            times => _ = times?,
        }
        numbers.rotate_left(most);
        if trials.len() < LEAST_TRIALS {
            continue;
        }
        found = infer(&trials);
        if found.finding.value.is_some() {
            break;
        }
        let likely = found.finding.candidates.first().map(|candidate| candidate.value);
        if let Some(QuantityValue::Count(open)) = likely {
            most = most.min(open as usize + BEYOND);
        }
    }
    Ok(found)
}

fn none(reason: &str) -> Openings {
    Openings { finding: GeometryFinding::inconclusive(reason, Vec::new()), costs: Vec::new() }
}

/// Begins erase blocks and returns the times of this. Then it writes others to their ends, or those
/// that were begun, the open ones first.
fn begin_and_complete(
    meter: &mut Meter<'_>,
    placement: &UnitPlacement,
    write_bytes: u64,
    (begun, others): (&[u64], &[u64]),
) -> Result<Vec<f64>, MeasurementStop> {
    let unit = placement.layout.unit;
    let starts = |numbers: &[u64]| -> Vec<u64> {
        numbers.iter().map(|number| placement.start(*number)).collect()
    };
    let mut times = Vec::new();
    for start in starts(begun) {
        times.push(meter.write(SamplePurpose::WriteLinear, start, write_bytes)?);
    }
    for start in starts(others) {
        meter.fill(start..start + unit)?;
    }
    if others.is_empty() {
        for start in starts(begun).into_iter().rev() {
            meter.fill(start + write_bytes..start + unit)?;
        }
    }
    Ok(times)
}

/// Infers the number from the times of all trials, by the erase block that was begun.
fn infer(trials: &[Vec<f64>]) -> Openings {
    let most = trials.iter().map(Vec::len).min().unwrap_or(0);
    let costs: Vec<UnitWriteCost> = (0..most)
        .map(|at| {
            let times: Vec<f64> = trials.iter().map(|times| times[at]).collect();
            cost(at as u32 + 1, &times)
        })
        .collect();
    let logs: Vec<f64> = costs.iter().map(|cost| cost.time_ns.ln()).collect();
    let numbers = 1..=most.saturating_sub(LEAST_BEYOND);
    let each = ((1.0 - NO_CHANGE) / numbers.clone().count().max(1) as f64).ln();
    let nothing = likelihood(&costs, &logs, most) + NO_CHANGE.ln();
    let weighed: Vec<(usize, f64)> =
        numbers.map(|open| (open, likelihood(&costs, &logs, open) + each)).collect();
    let total = log_sum_exp(weighed.iter().map(|(_, log)| *log).chain([nothing]));
    let mut candidates: Vec<CandidateValue> = weighed
        .iter()
        .map(|&(open, log)| CandidateValue {
            value: QuantityValue::Count(open as u32),
            probability: (log - total).exp(),
        })
        .filter(|candidate| candidate.probability >= 1e-3)
        .collect();
    candidates.sort_by(|one, other| other.probability.total_cmp(&one.probability));
    candidates.truncate(5);
    let sure = candidates.first().filter(|one| one.probability >= SURE_OF_NUMBER);
    let finding = match sure.map(|candidate| (candidate.value, candidate.probability)) {
        Some((QuantityValue::Count(open), confidence)) if is_a_step(trials, &logs, open) => {
            let value = QuantityValue::Count(open);
            let found = GeometryFinding::found(value, confidence, reason(&costs, open));
            GeometryFinding { candidates, ..found }
        }
        _ => {
            let reason = "beginning further erase blocks shows no number of open ones";
            GeometryFinding::inconclusive(reason, candidates)
        }
    };
    Openings { finding, costs }
}

/// The log-likelihood of this number of open erase blocks; without a change if it is all.
fn likelihood(costs: &[UnitWriteCost], logs: &[f64], open: usize) -> f64 {
    let (before, beyond) = logs.split_at(open);
    let (lower, upper) = (median(before), if beyond.is_empty() { 0.0 } else { median(beyond) });
    let of = SPREADS.map(|spread| -> f64 {
        let each = costs.iter().zip(logs).enumerate().map(|(at, (cost, log))| {
            let level = if at < open { lower } else { upper };
            log_student_3(log - level, spread.hypot(cost.error))
        });
        each.sum()
    });
    log_sum_exp(of.into_iter())
}

/// Whether all times beyond are longer than all up to the number, in nearly every trial, too.
fn is_a_step(trials: &[Vec<f64>], logs: &[f64], open: u32) -> bool {
    let (before, beyond) = logs.split_at(open as usize);
    let longest = before.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let shortest = beyond.iter().copied().fold(f64::INFINITY, f64::min);
    let rises = median(beyond) - median(before) >= LEAST_RISE && shortest > longest;
    let slower = trials.iter().filter(|times| {
        let (before, beyond) = times.split_at(open as usize);
        median(beyond) > median(before)
    });
    rises && slower.count() + 1 >= trials.len()
}

fn reason(costs: &[UnitWriteCost], open: u32) -> String {
    let mean_ms = |of: &dyn Fn(u32) -> bool| {
        let times: Vec<f64> =
            costs.iter().filter(|cost| of(cost.units)).map(|cost| cost.time_ns / 1e6).collect();
        times.iter().sum::<f64>() / times.len().max(1) as f64
    };
    format!(
        "beginning another erase block takes {:.1} ms for the first {open}, {:.1} ms for further \
         ones",
        mean_ms(&|units| units <= open),
        mean_ms(&|units| units > open),
    )
}

/// The smallest odd number of parts that exceeds the writes to a log.
fn write_bytes(unit: u64, log: u64) -> Option<u64> {
    let part = unit / PARTS;
    (1..PARTS).step_by(2).map(|parts| parts * part).find(|bytes| *bytes > log)
}

fn cost(units: u32, times: &[f64]) -> UnitWriteCost {
    let time_ns = median(times);
    let deviations: Vec<f64> = times.iter().map(|time| (time / time_ns).ln().abs()).collect();
    // Of a normal distribution, the median deviation is two thirds of the standard deviation, and
    // a median is a quarter less exact than a mean.
    let error = 1.5 * 1.25 * median(&deviations) / (times.len() as f64).sqrt();
    UnitWriteCost { units, time_ns, error: error.max(LEAST_ERROR) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_leave_every_chunk_incomplete_and_avoid_the_log() {
        assert_eq!(write_bytes(4 << 20, 64 << 10), Some(256 << 10));
        assert_eq!(write_bytes(512 << 10, 64 << 10), Some(96 << 10));
        assert_eq!(write_bytes(128 << 10, 64 << 10), Some(72 << 10));
        assert_eq!(write_bytes(128 << 10, 4096), Some(8 << 10));
        assert_eq!(write_bytes(64 << 10, 64 << 10), None);
    }

    fn found(times_ms: &[f64]) -> Option<QuantityValue> {
        let trial = |wobble: f64| times_ms.iter().map(|ms| ms * wobble * 1e6).collect();
        infer(&[1.0, 1.02, 0.97, 1.01, 0.99].map(trial)).finding.value
    }

    #[test]
    fn every_further_erase_block_must_take_longer() {
        assert_eq!(found(&[10.0, 13.0, 13.1, 12.9, 13.0]), Some(QuantityValue::Count(1)));
        let low = [10.0, 10.1, 9.9, 10.0, 13.4, 13.3, 13.5, 13.4];
        assert_eq!(found(&low), Some(QuantityValue::Count(4)));
        // Some of those that are open were not complete.
        assert_eq!(found(&[28.0, 28.1, 27.9, 250.0, 249.0, 27.7, 250.0, 248.0, 249.0]), None);
        assert_eq!(found(&[10.0, 10.1, 9.9, 10.0, 10.1, 10.0, 9.9]), None);
        assert_eq!(found(&[10.0, 10.5, 11.0, 11.5, 12.1, 12.7, 13.2, 13.8]), None);
    }

    #[test]
    fn an_outlier_does_not_change_a_cost() {
        let cost = cost(3, &[10e6, 10.2e6, 9.9e6, 10.1e6, 300e6]);
        assert_eq!((cost.units, cost.time_ns), (3, 10.1e6));
        assert!(cost.error < 0.03, "{}", cost.error);
    }
}
