//! How many erase units can be written in turn before each write costs a merge.
//!
//! Units far apart are written in turn, first one, then two, and so on: each in ascending order
//! (linear), or each in a mixed order (random). As long as the medium keeps so many open, a write
//! costs what it costs in one; beyond, one unit gives way for every write. The number is a change
//! point in the logarithm of the time, found by a posterior over all numbers, with the times below
//! and above it as unknowns. Limits: up to [`MOST_UNITS`]; writes of one size, larger than what
//! goes to a log for small writes; on a page-mapped medium there is no change.
//! Source: flashbench, `README`, `--open-au`.

use std::ops::Range;

use super::layout::Layout;
use super::meter::{Meter, Stop};
use crate::belief::{log_sum_exp, median};
use crate::findings::{Candidate, Finding, SURE, Value};
use crate::probed::{Point, Purpose, Series};

/// The most units that are written in turn.
pub const MOST_UNITS: u32 = 17;
/// Rounds of writes to all units, the first of which opens them and does not count.
const ROUNDS: u64 = 9;
/// Times that are taken of each number of units at least.
const LEAST_TIMES: usize = 20;
/// A number of units is beyond when its writes take so many times what they take in one.
const BEYOND: f64 = 3.0;
/// How many numbers of units beyond the change are measured.
const CONFIRMED: u32 = 2;
/// How much longer a write takes beyond the change at least, as a logarithm.
const LEAST_JUMP: f64 = 0.4;
/// The spread of the logarithm of a mean time.
const SPREAD: f64 = 0.18;

/// In which order each unit is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Each in ascending order.
    Linear,
    /// Each in a mixed order.
    Random,
}

/// What writing to so many units in turn took.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// How many units.
    pub units: u32,
    /// The typical time of a write, in nanoseconds.
    pub time_ns: f64,
}

/// Where the units lie and what is written to them.
#[derive(Debug, Clone)]
pub struct Ground {
    /// What was written in order before.
    pub window: Range<u64>,
    /// The units.
    pub layout: Layout,
    /// The size of a write, in bytes.
    pub write_bytes: u64,
}

impl Ground {
    /// How many whole units it has.
    pub fn units(&self) -> u64 {
        let Layout { unit, offset } = self.layout;
        let first = (self.window.start.saturating_sub(offset)).div_ceil(unit);
        (self.window.end.saturating_sub(offset) / unit).saturating_sub(first)
    }

    fn start(&self, number: u64) -> u64 {
        let Layout { unit, offset } = self.layout;
        let first = (self.window.start.saturating_sub(offset)).div_ceil(unit);
        offset + (first + number) * unit
    }

    /// Measures one order, from one unit on, until well beyond the change.
    pub fn measure(&self, meter: &mut Meter<'_>, order: Order) -> Result<Vec<Cost>, Stop> {
        // The first write to a unit opens it and does not count.
        if self.layout.unit / self.write_bytes < 3 {
            return Ok(Vec::new());
        }
        let costs = self.pass(meter, order, ROUNDS)?;
        let least = costs.iter().map(|cost| cost.time_ns).fold(f64::INFINITY, f64::min);
        if order == Order::Random || costs.iter().any(|cost| cost.time_ns > BEYOND * least) {
            return Ok(costs);
        }
        // A change that is less than a merge for each write shows when whole units are written.
        self.pass(meter, order, self.layout.unit / self.write_bytes)
    }

    fn pass(&self, meter: &mut Meter<'_>, order: Order, rounds: u64) -> Result<Vec<Cost>, Stop> {
        let most = MOST_UNITS.min(u32::try_from(self.units() / 2).unwrap_or(MOST_UNITS));
        let mut numbers: Vec<u64> = (0..self.units()).collect();
        meter.random.shuffle(&mut numbers);
        let mut costs: Vec<Cost> = Vec::new();
        let mut beyond = 0;
        for units in 1..=most {
            let time_ns = match self.in_turn(meter, order, units, rounds, &mut numbers) {
                Err(Stop::Spent) => break,
                other => other?,
            };
            costs.push(Cost { units, time_ns });
            let least = costs.iter().map(|cost| cost.time_ns).fold(f64::INFINITY, f64::min);
            beyond = if time_ns > BEYOND * least { beyond + 1 } else { 0 };
            if beyond > CONFIRMED {
                break;
            }
        }
        Ok(costs)
    }

    /// The typical time of a write when so many units are written in turn. Those written longest
    /// ago come next in `numbers`, so that none is still open.
    fn in_turn(
        &self,
        meter: &mut Meter<'_>,
        order: Order,
        units: u32,
        rounds: u64,
        numbers: &mut [u64],
    ) -> Result<f64, Stop> {
        let places = self.layout.unit / self.write_bytes;
        let rounds = rounds.min(places - 1);
        let purpose = match order {
            Order::Linear => Purpose::WriteLinear,
            Order::Random => Purpose::WriteRandom,
        };
        let mut times = Vec::new();
        while times.len() < LEAST_TIMES {
            let count = units as usize;
            let starts: Vec<u64> = numbers[..count].iter().map(|at| self.start(*at)).collect();
            numbers.rotate_left(count);
            let mut mixed: Vec<u64> = (1..places).collect();
            meter.random.shuffle(&mut mixed);
            for round in 0..rounds {
                let place = match order {
                    Order::Linear => round,
                    Order::Random => mixed[usize::try_from(round).expect("there are few rounds")],
                };
                for start in &starts {
                    let at = start + place * self.write_bytes;
                    let time_ns = meter.write(purpose, at, self.write_bytes)?;
                    if round > 0 {
                        times.push(time_ns);
                    }
                }
            }
        }
        Ok(match order {
            Order::Linear => trimmed_mean(&mut times),
            // A log out of order may be allowed few pages, and is merged when they are used up.
            Order::Random => median(&times),
        })
    }
}

/// The mean without the slowest sixteenth: rare stalls say nothing, but every eighth write may cost
/// a merge.
fn trimmed_mean(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    let kept = &times[..times.len() - times.len() / 16];
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// The log-likelihood of each number of open units from `least` on, the last of which stands for
/// more than were measured. `base_ns` is what a write takes in order where nothing gives way.
fn log_likelihoods(costs: &[Cost], base_ns: f64, least: u32) -> Vec<(u32, f64)> {
    let logs: Vec<f64> = costs.iter().map(|cost| (cost.time_ns / base_ns).max(1e-3).ln()).collect();
    let most = costs.last().map_or(least, |cost| cost.units);
    let fits = |open: u32, jump: f64, spread: f64| -> f64 {
        costs
            .iter()
            .zip(&logs)
            .map(|(cost, log)| {
                let expected = if cost.units > open { jump } else { 0.1 };
                let wide = if cost.units > open { 2.0 * spread } else { spread };
                crate::belief::log_student_3(log - expected, wide)
            })
            .sum()
    };
    (least..=most)
        .map(|open| {
            // Without a change there is no jump to suppose.
            let jumps: Vec<f64> = if open == most {
                vec![0.0]
            } else {
                (0..24).map(|step| LEAST_JUMP + 0.3 * f64::from(step)).collect()
            };
            let each: Vec<f64> = jumps.iter().map(|&jump| fits(open, jump, SPREAD)).collect();
            (open, log_sum_exp(each.iter().copied()) - (jumps.len() as f64).ln())
        })
        .collect()
}

/// What the costs say of the number of open units.
pub fn finding(costs: &[Cost], base_ns: f64, order: Order) -> Finding {
    let least = u32::from(order == Order::Linear);
    let Some(last) = costs.last() else {
        return Finding::not_measured("the region or what may be written was too small for it");
    };
    let logs = log_likelihoods(costs, base_ns, least);
    let total = log_sum_exp(logs.iter().map(|&(_, log)| log));
    let mut candidates: Vec<Candidate> = logs
        .iter()
        .map(|&(open, log)| Candidate {
            value: Value::Count(open),
            probability: (log - total).exp(),
        })
        .collect();
    candidates.sort_by(|one, other| other.probability.total_cmp(&one.probability));
    candidates.retain(|candidate| candidate.probability >= 1e-3);
    candidates.truncate(5);
    let best = candidates[0];
    let Value::Count(open) = best.value else { unreachable!("the candidates are counts") };
    if open == last.units {
        let reason =
            format!("writing to up to {open} erase units in turn costs no more than to one");
        return Finding::inconclusive(reason, Vec::new());
    }
    let within = mean(costs.iter().filter(|cost| cost.units <= open), base_ns);
    let beyond = mean(costs.iter().filter(|cost| cost.units > open), base_ns);
    let (lower, upper) = (within / 1e6, beyond / 1e6);
    let reason = format!(
        "a write takes {lower:.1} ms to up to {open} erase units in turn, {upper:.1} ms to more"
    );
    if best.probability >= SURE {
        let found = Finding::found(best.value, best.probability, reason);
        Finding { candidates, ..found }
    } else {
        Finding::inconclusive(format!("{reason}; where it changes is not clear"), candidates)
    }
}

fn mean<'a>(costs: impl Iterator<Item = &'a Cost>, otherwise: f64) -> f64 {
    let times: Vec<f64> = costs.map(|cost| cost.time_ns).collect();
    if times.is_empty() { otherwise } else { times.iter().sum::<f64>() / times.len() as f64 }
}

/// What a plot shows of the costs.
pub fn series(name: &str, costs: &[Cost]) -> Series {
    let points = costs.iter().map(|cost| Point {
        x: f64::from(cost.units),
        y: cost.time_ns,
        low: cost.time_ns * (-1.96 * SPREAD).exp(),
        high: cost.time_ns * (1.96 * SPREAD).exp(),
    });
    Series {
        name: name.to_owned(),
        x_unit: "count".to_owned(),
        y_unit: "ns".to_owned(),
        points: points.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(times_ms: &[f64]) -> Vec<Cost> {
        (1..).zip(times_ms).map(|(units, ms)| Cost { units, time_ns: ms * 1e6 }).collect()
    }

    #[test]
    fn the_change_is_the_number() {
        let found = finding(&costs(&[10.0, 11.0, 10.5, 900.0, 905.0]), 1e7, Order::Linear);
        assert_eq!(found.value, Some(Value::Count(3)));
        assert!(found.confidence.unwrap() > 0.99);
        let soft = finding(&costs(&[10.0, 10.2, 11.0, 10.4, 21.0, 23.0, 20.0]), 1e7, Order::Linear);
        assert_eq!(soft.candidates[0].value, Value::Count(4));
    }

    #[test]
    fn no_unit_can_be_open_out_of_order() {
        let found = finding(&costs(&[500.0, 510.0, 505.0]), 1e7, Order::Random);
        assert_eq!(found.value, Some(Value::Count(0)));
    }

    #[test]
    fn without_a_change_there_is_no_number() {
        let flat = [10.0, 10.5, 10.1, 11.0, 9.9, 10.2, 10.3, 10.0];
        let found = finding(&costs(&flat), 1e7, Order::Linear);
        assert_eq!(found.value, None);
        assert!(found.reason.contains("up to 8"), "{}", found.reason);
        assert_eq!(finding(&[], 1e7, Order::Linear).verdict, crate::findings::Verdict::NotMeasured);
    }
}
