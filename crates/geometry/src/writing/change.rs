//! How many units can be open, from what writing to several of them in turn costs.
//!
//! The number is a change point in the logarithm of the cost, found by a posterior over all
//! numbers. Beyond it a write costs a merge each time, or more and more: where only a part of a
//! unit gives way and what continues it goes to a log, the cost rises softly. Times below the
//! change and the height of it are unknowns, and so is how much times vary beyond what was seen of
//! each. Limits: one change; a soft rise that begins late is told one too high, so that a number
//! that is surer to within one than by itself is told as such.

use super::open_units::{UnitOrder, UnitWriteCost};
use crate::belief::{log_student_3, log_sum_exp};
use crate::findings::{CandidateValue, GeometryFinding, QuantityValue};

/// How much longer a write takes beyond a sudden change at least, as a logarithm, and in which
/// steps larger changes are supposed.
const LEAST_JUMP: f64 = 0.4;
const JUMP_STEP: f64 = 0.3;
const JUMPS: i32 = 24;
/// How much longer a write takes far beyond a soft change, as logarithms, and over how many units
/// most of that comes.
const RISES: [f64; 5] = [0.1, 0.2, 0.4, 0.8, 1.6];
const SOFTNESSES: [f64; 3] = [1.0, 3.0, 6.0];
/// How likely a change is a soft one.
const SOFT: f64 = 0.3;
/// What costs differ by beyond their standard errors, as logarithms.
const SPREADS: [f64; 4] = [0.015, 0.04, 0.09, 0.18];
/// How sure a number must be to be told: the shapes supposed here are rough, and of the numbers of
/// drawn cards that were between 0.95 and this sure as many were wrong as right.
const SURE_OF_SHAPE: f64 = 0.985;
/// What a write to one unit takes against what was measured before, as a logarithm: how much more,
/// and how much that differs.
const MORE: f64 = 0.1;
const MORE_SPREAD: f64 = 0.4;

/// What costs may do beyond the number of open erase blocks.
#[derive(Debug, Clone, Copy)]
enum Beyond {
    Jump(f64),
    Rise { by: f64, over: f64 },
}

impl Beyond {
    fn all() -> Vec<(Self, f64)> {
        let jumps = (0..JUMPS).map(|step| Self::Jump(LEAST_JUMP + JUMP_STEP * f64::from(step)));
        let rises =
            RISES.iter().flat_map(|&by| SOFTNESSES.map(move |over| Self::Rise { by, over }));
        let soft = SOFT / (RISES.len() * SOFTNESSES.len()) as f64;
        let hard = (1.0 - SOFT) / f64::from(JUMPS);
        jumps.map(|jump| (jump, hard)).chain(rises.map(|rise| (rise, soft))).collect()
    }

    /// The expected logarithm so many units beyond, and how much wider costs lie there.
    fn at(self, beyond: f64) -> (f64, f64) {
        match self {
            Self::Jump(jump) => (jump, 0.36),
            Self::Rise { by, over } => (by * (1.0 - (-beyond / over).exp()), 0.0),
        }
    }
}

/// The log-likelihood of each number of open erase blocks from `least` on, the last of which test
/// beds for more than were measured. `base_ns` is what a write takes in order where nothing gives
/// way.
fn log_likelihoods(costs: &[UnitWriteCost], base_ns: f64, least: u32) -> Vec<(u32, f64)> {
    let logs: Vec<f64> = costs.iter().map(|cost| (cost.time_ns / base_ns).max(1e-3).ln()).collect();
    let most = costs.last().map_or(least, |cost| cost.units);
    let all = Beyond::all();
    (least..=most)
        .map(|open| {
            let below: Vec<f64> =
                costs.iter().zip(&logs).filter(|(c, _)| c.units <= open).map(|(_, l)| *l).collect();
            let level = if below.is_empty() { MORE } else { crate::belief::median(&below) };
            let of_level = -0.5 * ((level - MORE) / MORE_SPREAD).powi(2);
            let fits = |beyond: Beyond, spread: f64| -> f64 {
                let each = costs.iter().zip(&logs).map(|(cost, log)| {
                    let over = f64::from(cost.units) - f64::from(open);
                    let (more, wider) = if over > 0.0 { beyond.at(over) } else { (0.0, 0.0) };
                    let scale = (spread * spread + cost.error * cost.error + wider * wider).sqrt();
                    // A jump is from what is usual, whatever the few below it took.
                    log_student_3(log - level - more, scale)
                });
                each.sum()
            };
            // Without a change there is nothing to suppose of it.
            let supposed = if open == most { vec![(Beyond::Jump(0.0), 1.0)] } else { all.clone() };
            let logs = supposed.iter().flat_map(|&(beyond, share)| {
                SPREADS.map(|spread| fits(beyond, spread) + share.ln())
            });
            let logs: Vec<f64> = logs.collect();
            (open, log_sum_exp(logs.into_iter()) - (SPREADS.len() as f64).ln() + of_level)
        })
        .collect()
}

/// What the costs say of the number of open erase blocks.
pub fn finding(costs: &[UnitWriteCost], base_ns: f64, order: UnitOrder) -> GeometryFinding {
    let least = u32::from(order == UnitOrder::Linear);
    let Some(last) = costs.last() else {
        return GeometryFinding::not_measured(
            "the region or what may be written was too small for it",
        );
    };
    let logs = log_likelihoods(costs, base_ns, least);
    let total = log_sum_exp(logs.iter().map(|&(_, log)| log));
    let mut candidates: Vec<CandidateValue> = logs
        .iter()
        .map(|&(open, log)| CandidateValue {
            value: QuantityValue::Count(open),
            probability: (log - total).exp(),
        })
        .collect();
    candidates.sort_by(|one, other| other.probability.total_cmp(&one.probability));
    let best = candidates[0];
    let QuantityValue::Count(open) = best.value else { unreachable!("the candidates are counts") };
    let near = |candidate: &&CandidateValue| {
        matches!(candidate.value, QuantityValue::Count(count) if count.abs_diff(open) <= 1
            && count < last.units)
    };
    let within_one: f64 = candidates.iter().filter(near).map(|one| one.probability).sum();
    candidates.retain(|candidate| candidate.probability >= 1e-3);
    candidates.truncate(5);
    if open == last.units {
        let reason =
            format!("writing to up to {open} erase units in turn costs no more than to one");
        return GeometryFinding::inconclusive(reason, Vec::new());
    }
    let within = mean(costs.iter().filter(|cost| cost.units <= open), base_ns);
    let beyond = mean(costs.iter().filter(|cost| cost.units > open), base_ns);
    let (lower, upper) = (within / 1e6, beyond / 1e6);
    let reason = format!(
        "a write takes {lower:.1} ms to up to {open} erase units in turn, {upper:.1} ms to more"
    );
    if best.probability >= SURE_OF_SHAPE {
        let found = GeometryFinding::found(best.value, best.probability, reason);
        GeometryFinding { candidates, ..found }
    } else if within_one >= SURE_OF_SHAPE {
        let reason = format!("{reason}; it may be one more or one less");
        GeometryFinding { candidates, ..GeometryFinding::found(best.value, within_one, reason) }
    } else {
        GeometryFinding::inconclusive(
            format!("{reason}; where it changes is not clear"),
            candidates,
        )
    }
}

fn mean<'a>(costs: impl Iterator<Item = &'a UnitWriteCost>, otherwise: f64) -> f64 {
    let times: Vec<f64> = costs.map(|cost| cost.time_ns).collect();
    if times.is_empty() { otherwise } else { times.iter().sum::<f64>() / times.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(times_ms: &[f64]) -> Vec<UnitWriteCost> {
        (1..)
            .zip(times_ms)
            .map(|(units, ms)| UnitWriteCost { units, time_ns: ms * 1e6, error: 0.02 })
            .collect()
    }

    #[test]
    fn the_change_is_the_number() {
        let found = finding(&costs(&[10.0, 11.0, 10.5, 900.0, 905.0]), 1e7, UnitOrder::Linear);
        assert_eq!(found.value, Some(QuantityValue::Count(3)));
        assert!(found.confidence.unwrap() > 0.99);
        let soft =
            finding(&costs(&[10.0, 10.2, 11.0, 10.4, 21.0, 23.0, 20.0]), 1e7, UnitOrder::Linear);
        assert_eq!(soft.value, Some(QuantityValue::Count(4)));
    }

    #[test]
    fn a_rise_is_told_to_within_one() {
        let rise = [6.5, 6.6, 6.4, 6.6, 7.0, 7.4, 7.9, 8.2, 8.4, 8.9, 8.8, 9.1, 9.1, 9.2];
        let found = finding(&costs(&rise), 6e6, UnitOrder::Linear);
        let Some(QuantityValue::Count(open)) = found.value else { panic!("{found:?}") };
        assert!((3..=5).contains(&open), "{found:?}");
    }

    #[test]
    fn no_unit_can_be_open_out_of_order() {
        let found = finding(&costs(&[500.0, 510.0, 505.0]), 1e7, UnitOrder::Random);
        assert_eq!(found.value, Some(QuantityValue::Count(0)));
    }

    #[test]
    fn without_a_change_there_is_no_number() {
        let flat = [10.0, 10.5, 10.1, 11.0, 9.9, 10.2, 10.3, 10.0];
        let found = finding(&costs(&flat), 1e7, UnitOrder::Linear);
        assert_eq!(found.value, None);
        assert!(found.reason.contains("up to 8"), "{}", found.reason);
        assert_eq!(
            finding(&[], 1e7, UnitOrder::Linear).verdict,
            crate::findings::QuantityVerdict::NotMeasured
        );
    }
}
