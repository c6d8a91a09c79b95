//! Infers the number of open erase blocks from the cost of writing to several in turn.
//!
//! The number is a change point in the logarithm of the cost, found by a posterior over all
//! numbers. Beyond it, each write costs a merge, or the cost rises gradually if only a part of a
//! unit is closed and continuations go to a log. The level below the change, its height and the
//! extra variation are unknowns. A gradual rise is a hypothesis of its own and gives no number,
//! since it may start late. Neither does a change beyond which writes to the same unit are slow in
//! one round and fast in the next: a device that closes any of its open erase blocks, not the least
//! recent one, often still has the next one open. Limits: one change; a number that is only certain
//! to within one is reported as such.

use super::open_erase_blocks::{UnitOrder, UnitWriteCost};
use crate::belief::{log_student_3, log_sum_exp};
use crate::findings::{CandidateValue, GeometryFinding, QuantityValue};

/// Hypotheses for the log height of a sudden change: smallest, step, number.
const MIN_JUMP: f64 = 0.4;
const JUMP_STEP: f64 = 0.3;
const JUMPS: i32 = 24;
/// And for the log variation of costs beyond it.
const JUMP_SPREADS: [f64; 2] = [0.14, 0.36];
/// Hypotheses for the log height of a gradual change and for the number of units it extends over.
const RISES: [f64; 5] = [0.1, 0.2, 0.4, 0.8, 1.6];
const SOFTNESSES: [f64; 3] = [1.0, 3.0, 6.0];
/// Prior probability of a gradual change.
const SOFT: f64 = 0.3;
/// Hypotheses for the log variation of costs beyond their standard errors.
const SPREADS: [f64; 4] = [0.015, 0.04, 0.09, 0.18];
/// The probability required of a number. The assumed shapes are rough: of drawn cards with a
/// probability between 0.95 and this one, half of the numbers were wrong.
const SURE_OF_SHAPE: f64 = 0.985;
/// Expected log ratio of a write to one unit to the base time, and its spread.
const MORE: f64 = 0.1;
const MORE_SPREAD: f64 = 0.4;
/// So many further numbers with the same cost can be open, if more than these cost more.
const LEAST_FLAT: usize = 3;
/// The largest log variation of the same cost, and the smallest log height of a larger one.
const FLAT: f64 = 0.1;
const LARGER: f64 = 0.7;

/// A hypothesis for costs beyond the open erase blocks.
#[derive(Debug, Clone, Copy)]
enum Beyond {
    Jump { by: f64, spread: f64 },
    Rise { by: f64, over: f64 },
}

impl Beyond {
    fn all() -> Vec<(Self, f64)> {
        let jumps = (0..JUMPS).flat_map(|step| {
            let by = MIN_JUMP + JUMP_STEP * f64::from(step);
            JUMP_SPREADS.map(|spread| Self::Jump { by, spread })
        });
        let rises =
            RISES.iter().flat_map(|&by| SOFTNESSES.map(move |over| Self::Rise { by, over }));
        let soft = SOFT / (RISES.len() * SOFTNESSES.len()) as f64;
        let hard = (1.0 - SOFT) / f64::from(JUMPS) / JUMP_SPREADS.len() as f64;
        jumps.map(|jump| (jump, hard)).chain(rises.map(|rise| (rise, soft))).collect()
    }

    /// Whether less than half of the change comes at once.
    fn is_gradual(self) -> bool {
        matches!(self, Self::Rise { over, .. } if over > 1.0)
    }

    /// The expected log cost at a distance beyond the change, and the additional spread there.
    fn at(self, beyond: f64) -> (f64, f64) {
        match self {
            Self::Jump { by, spread } => (by, spread),
            Self::Rise { by, over } => (by * (1.0 - (-beyond / over).exp()), 0.0),
        }
    }
}

/// The log-likelihoods of one number of open erase blocks.
#[derive(Debug, Clone, Copy)]
struct OfNumber {
    open: u32,
    /// Beyond it, the cost jumps, or there is no change.
    sudden: f64,
    /// Beyond it, the cost rises gradually.
    gradual: f64,
}

impl OfNumber {
    fn log(&self) -> f64 {
        log_sum_exp([self.sudden, self.gradual].into_iter())
    }
}

/// The log-likelihood of each number of open erase blocks from `least` up; the last one means
/// more than were measured. `base_ns` is the time of a sequential write without merges.
fn log_likelihoods(costs: &[UnitWriteCost], base_ns: f64, least: u32) -> Vec<OfNumber> {
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
                    // A jump is relative to the usual level.
                    log_student_3(log - level - more, scale)
                });
                each.sum()
            };
            // Without a change there are no hypotheses about it.
            let hypotheses = if open == most {
                vec![(Beyond::Jump { by: 0.0, spread: 0.36 }, 1.0)]
            } else {
                all.clone()
            };
            let sum = |is_gradual: bool| {
                let of_kind =
                    hypotheses.iter().filter(|(beyond, _)| beyond.is_gradual() == is_gradual);
                let logs: Vec<f64> = of_kind
                    .flat_map(|&(beyond, share)| {
                        SPREADS.map(|spread| fits(beyond, spread) + share.ln())
                    })
                    .collect();
                log_sum_exp(logs.into_iter()) - (SPREADS.len() as f64).ln() + of_level
            };
            OfNumber { open, sudden: sum(false), gradual: sum(true) }
        })
        .collect()
}

/// The finding for the number of open erase blocks.
pub fn finding(costs: &[UnitWriteCost], base_ns: f64, order: UnitOrder) -> GeometryFinding {
    let least = u32::from(order == UnitOrder::Linear);
    let Some(last) = costs.last() else {
        return GeometryFinding::not_measured("the region or the write budget is too small");
    };
    let logs = log_likelihoods(costs, base_ns, least);
    let total = log_sum_exp(logs.iter().map(OfNumber::log));
    let gradual = (log_sum_exp(logs.iter().map(|of| of.gradual)) - total).exp();
    let is_gradual = gradual > 0.5;
    let probability = |of: &OfNumber| {
        let log = if is_gradual { of.gradual } else { of.sudden };
        (log - total).exp()
    };
    let mut candidates: Vec<CandidateValue> = logs
        .iter()
        .map(|of| CandidateValue {
            value: QuantityValue::Count(of.open),
            probability: probability(of),
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
            format!("writing to up to {open} erase blocks in turn costs no more than to one");
        return GeometryFinding::inconclusive(reason, Vec::new());
    }
    let within = mean(costs.iter().filter(|cost| cost.units <= open), base_ns);
    let beyond = mean(costs.iter().filter(|cost| cost.units > open), base_ns);
    let (lower, upper) = (within / 1e6, beyond / 1e6);
    let reason = match open {
        0 => format!(
            "a write takes {base:.1} ms in order, {upper:.1} ms in random order to a single erase \
             block",
            base = base_ns / 1e6
        ),
        _ => format!(
            "a write takes {lower:.1} ms with up to {open} erase blocks in turn, {upper:.1} ms \
             with more"
        ),
    };
    if is_gradual {
        let reason = format!(
            "writes take longer gradually, from about {open} erase blocks in turn on ({lower:.1} \
             to {:.1} ms): no number of open erase blocks shows",
            last.time_ns / 1e6
        );
        return GeometryFinding::inconclusive(reason, candidates);
    }
    if order == UnitOrder::Linear && is_mixed(costs, open) {
        let reason = format!(
            "{reason}, but some of these are as fast as with fewer, as if the device closes any of \
             its open erase blocks: no exact number shows"
        );
        return GeometryFinding::inconclusive(reason, candidates);
    }
    if best.probability >= SURE_OF_SHAPE {
        let found = GeometryFinding::found(best.value, best.probability, reason);
        GeometryFinding { candidates, ..found }
    } else if within_one >= SURE_OF_SHAPE {
        let reason = format!("{reason}; it may be one more or one less");
        GeometryFinding { candidates, ..GeometryFinding::found(best.value, within_one, reason) }
    } else {
        GeometryFinding::inconclusive(format!("{reason}; the exact number is unclear"), candidates)
    }
}

/// The typical log cost with up to this number of units.
fn log_level(costs: &[UnitWriteCost], open: u32) -> f64 {
    let within = costs.iter().filter(|cost| cost.units <= open);
    let logs: Vec<f64> = within.map(|cost| cost.time_ns.ln()).collect();
    if logs.is_empty() { f64::INFINITY } else { crate::belief::median(&logs) }
}

/// Whether writes beyond the number are fast or slow without order.
fn is_mixed(costs: &[UnitWriteCost], open: u32) -> bool {
    let level = log_level(costs, open);
    let mut beyond = costs.iter().filter(|cost| cost.units > open);
    beyond.any(|cost| cost.is_irregular && cost.time_ns.ln() - level > LARGER)
}

/// Whether writes to several more units than this number in turn cost the same, and those to more
/// than these much more: the number is larger.
pub fn is_too_small(costs: &[UnitWriteCost], open: u32) -> bool {
    let level = log_level(costs, open);
    let height = |cost: &UnitWriteCost| cost.time_ns.ln() - level;
    let more: Vec<f64> = costs.iter().filter(|cost| cost.units > open).map(height).collect();
    let flat = (0..more.len()).filter(|at| more[*at].abs() < FLAT).nth(LEAST_FLAT - 1);
    flat.is_some_and(|at| more[at..].iter().any(|height| *height > LARGER))
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
            .map(|(units, ms)| UnitWriteCost {
                units,
                time_ns: ms * 1e6,
                error: 0.02,
                is_irregular: false,
            })
            .collect()
    }

    #[test]
    fn a_sudden_change_gives_the_number() {
        let found = finding(&costs(&[10.0, 11.0, 10.5, 900.0, 905.0]), 1e7, UnitOrder::Linear);
        assert_eq!(found.value, Some(QuantityValue::Count(3)));
        assert!(found.confidence.unwrap() > 0.99);
        let soft =
            finding(&costs(&[10.0, 10.2, 11.0, 10.4, 21.0, 23.0, 20.0]), 1e7, UnitOrder::Linear);
        assert_eq!(soft.value, Some(QuantityValue::Count(4)));
    }

    #[test]
    fn a_gradual_rise_gives_no_number_but_where_it_begins() {
        let rise = [6.5, 6.6, 6.4, 6.6, 7.0, 7.4, 7.9, 8.2, 8.4, 8.9, 8.8, 9.1, 9.1, 9.2];
        let found = finding(&costs(&rise), 6e6, UnitOrder::Linear);
        assert_eq!(found.value, None);
        let begins = found.candidates[0].value;
        assert!((3..=5).any(|open| begins == QuantityValue::Count(open)), "{found:?}");
        assert!(found.reason.contains("gradually, from about"), "{}", found.reason);
        // A drawn card with ten, and one with five of which chunks are merged one after the other.
        for rise in [
            vec![7.7, 7.7, 7.7, 7.7, 7.7, 7.7, 7.7, 7.7, 7.7, 7.7, 8.0, 8.9, 9.6, 10.1],
            vec![7.8, 7.7, 9.6, 8.0, 14.0, 8.0, 8.1, 12.7, 17.4, 17.1, 20.1, 22.5, 20.8, 23.8],
        ] {
            assert_eq!(finding(&costs(&rise), 7.5e6, UnitOrder::Linear).value, None);
        }
    }

    #[test]
    fn an_irregular_change_gives_no_number() {
        let times = [25.0, 25.0, 25.0, 25.0, 158.0, 188.0, 283.0];
        let sharp = finding(&costs(&times), 2.4e7, UnitOrder::Linear);
        assert_eq!(sharp.value, Some(QuantityValue::Count(4)));
        let mut mixed = costs(&times);
        for cost in &mut mixed {
            cost.is_irregular = true;
        }
        let found = finding(&mixed, 2.4e7, UnitOrder::Linear);
        assert_eq!(found.value, None, "{found:?}");
        assert!(found.reason.contains("closes any of its open"), "{}", found.reason);
        assert!(!found.candidates.is_empty());
    }

    #[test]
    fn a_number_is_too_small_if_further_ones_cost_the_same() {
        let times = [14.0, 14.0, 14.0, 14.0, 14.0, 34.0, 14.0, 50.0, 93.0];
        assert!(is_too_small(&costs(&times), 1));
        assert!(is_too_small(&costs(&times), 3));
        // Merges of chunks are seldom at first, and without a rise nothing contradicts.
        assert!(!is_too_small(&costs(&times), 4));
        assert!(!is_too_small(&costs(&[14.0; 9]), 1));
        assert!(!is_too_small(&[], 1));
    }

    #[test]
    fn expensive_random_writes_mean_no_open_blocks() {
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
