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
//! both; two that are nearly certain of it count together. Limits: the rest of a chunk must take
//! visibly longer than the written beginning; writes that go to a log show nothing.

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
/// Repeats after which erase blocks are left out that cannot matter, if they are large.
const FEW_TRIALS: usize = 2;
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
/// The least probability of a number that is listed.
const LEAST_LISTED: f64 = 1e-3;
/// The probability required of a number.
const SURE_OF_NUMBER: f64 = 0.985;

/// The finding, and the time of the first write to each further erase block.
pub struct Openings {
    pub finding: GeometryFinding,
    pub costs: Vec<UnitWriteCost>,
    /// Whether the times show a step at the likeliest number.
    is_step: bool,
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
    if value.is_some() && value == continued.finding.value {
        return Ok(by_others);
    }
    if let Some(finding) = together(&by_others, &continued) {
        return Ok(Openings { finding, ..by_others });
    }
    let reason = "beginning further erase blocks shows no number that depends on nothing else";
    let finding = GeometryFinding::inconclusive(reason, by_others.finding.candidates);
    Ok(Openings { finding, ..by_others })
}

/// The number if both ways have the same likeliest one, which is certain only if they count
/// together, and one of them shows a step.
fn together(one: &Openings, other: &Openings) -> Option<GeometryFinding> {
    let likely = |of: &Openings, value: QuantityValue| {
        let candidates = &of.finding.candidates;
        let found = candidates.iter().find(|candidate| candidate.value == value);
        found.map_or(LEAST_LISTED, |candidate| candidate.probability)
    };
    let best = one.finding.candidates.first()?.value;
    let is_best_of_both = other.finding.candidates.first()?.value == best;
    let both = |value| likely(one, value) * likely(other, value);
    let values = |of: &Openings| -> Vec<QuantityValue> {
        of.finding.candidates.iter().map(|candidate| candidate.value).collect()
    };
    let listed = values(one);
    let more = values(other).into_iter().filter(|value| !listed.contains(value));
    let rest: f64 =
        listed.iter().copied().filter(|value| *value != best).chain(more).map(both).sum();
    // And what neither lists, such as no change.
    let probability = both(best) / (both(best) + rest + LEAST_LISTED);
    let QuantityValue::Count(open) = best else { return None };
    let rise = |of: &Openings| rise(&of.costs, open as usize);
    let is_seen = rise(one)?.min(rise(other)?) >= LEAST_RISE && (one.is_step || other.is_step);
    let is_sure = is_best_of_both && probability >= SURE_OF_NUMBER && is_seen;
    is_sure.then(|| {
        let reason = reason(if one.is_step { &one.costs } else { &other.costs }, open);
        GeometryFinding::found(best, probability, reason)
    })
}

/// By how much times beyond the number are longer, as a logarithm.
fn rise(costs: &[UnitWriteCost], open: usize) -> Option<f64> {
    let logs: Vec<f64> = costs.iter().map(|cost| cost.time_ns.ln()).collect();
    let (before, beyond) = logs.split_at_checked(open)?;
    (!beyond.is_empty()).then(|| median(beyond) - median(before))
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
    let mut others = numbers.split_off(numbers.len() - others);
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
        let is_dear = (LEAST_TRIALS * (most + others.len())) as u64 * unit > meter.left_bytes() / 2;
        if trials.len() < LEAST_TRIALS && !(is_dear && trials.len() >= FEW_TRIALS) {
            continue;
        }
        found = infer(&trials);
        if trials.len() >= LEAST_TRIALS && found.finding.value.is_some() {
            break;
        }
        let likely = found.finding.candidates.first().map(|candidate| candidate.value);
        if let Some(QuantityValue::Count(open)) = likely {
            most = most.min(open as usize + BEYOND);
            others.truncate(open as usize + BEYOND);
        }
    }
    if trials.len() < LEAST_TRIALS && found.finding.value.is_some() {
        let reason = "the write budget is too small for enough repeats";
        found.finding = GeometryFinding::inconclusive(reason, found.finding.candidates);
    }
    Ok(found)
}

fn none(reason: &str) -> Openings {
    let finding = GeometryFinding::inconclusive(reason, Vec::new());
    Openings { finding, costs: Vec::new(), is_step: false }
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
        .filter(|candidate| candidate.probability >= LEAST_LISTED)
        .collect();
    candidates.sort_by(|one, other| other.probability.total_cmp(&one.probability));
    candidates.truncate(5);
    let best = candidates.first().map(|candidate| (candidate.value, candidate.probability));
    let is_step = match best {
        Some((QuantityValue::Count(open), _)) => is_a_step(trials, &logs, open),
        _ => false,
    };
    let finding = match best {
        Some((value @ QuantityValue::Count(open), confidence))
            if is_step && confidence >= SURE_OF_NUMBER =>
        {
            let found = GeometryFinding::found(value, confidence, reason(&costs, open));
            GeometryFinding { candidates, ..found }
        }
        _ => {
            let reason = "beginning further erase blocks shows no number of open ones";
            GeometryFinding::inconclusive(reason, candidates)
        }
    };
    Openings { finding, costs, is_step }
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
    UnitWriteCost { units, time_ns, error: error.max(LEAST_ERROR), is_irregular: false }
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
    fn two_ways_that_are_nearly_certain_of_a_number_are_certain_together() {
        let way = |shares: &[(u32, f64)], beyond_ms: f64, is_step: bool| {
            let candidate = |&(open, probability): &(u32, f64)| CandidateValue {
                value: QuantityValue::Count(open),
                probability,
            };
            let candidates = shares.iter().map(candidate).collect();
            let time_ns = |units| if units <= 8 { 8e6 } else { beyond_ms * 1e6 };
            let costs = (1..=13)
                .map(|units| {
                    let time_ns = time_ns(units);
                    UnitWriteCost { units, time_ns, error: 0.03, is_irregular: false }
                })
                .collect();
            let finding = GeometryFinding::inconclusive("", candidates);
            Openings { finding, costs, is_step }
        };
        let one = way(&[(8, 0.93), (9, 0.06)], 10.5, true);
        let other = way(&[(8, 0.94), (7, 0.03), (9, 0.02)], 10.2, false);
        let found = together(&one, &other).unwrap();
        assert_eq!(found.value, Some(QuantityValue::Count(8)));
        assert!(found.confidence.unwrap() > SURE_OF_NUMBER, "{found:?}");
        // Another number, hardly longer times, no step, and no certainty.
        for doubtful in [
            way(&[(10, 0.9), (8, 0.05)], 10.2, true),
            way(&[(8, 0.99)], 8.8, true),
            way(&[(9, 0.5), (8, 0.4)], 10.2, true),
            way(&[], 10.2, true),
        ] {
            assert!(together(&one, &doubtful).is_none());
        }
        let without_step = way(&[(8, 0.93), (9, 0.06)], 10.5, false);
        assert!(together(&without_step, &other).is_none());
    }

    #[test]
    fn an_outlier_does_not_change_a_cost() {
        let cost = cost(3, &[10e6, 10.2e6, 9.9e6, 10.1e6, 300e6]);
        assert_eq!((cost.units, cost.time_ns), (3, 10.1e6));
        assert!(cost.error < 0.03, "{}", cost.error);
    }
}
