//! The conclusions from visible erasures: the erase block, the write unit, and whether one
//! structure explains everything that was seen.

use super::erasures::{BuildBelief, SeenDistance};
use crate::belief::log_sum_exp;

/// The log-likelihood loss at which the conclusion contradicts the result of a size.
pub(super) const CONTRADICTED: f64 = 10.0;

/// The inferred erase block and write unit.
#[derive(Debug, Clone)]
pub struct Erasures {
    /// Log-evidence of each erase block size against nothing.
    pub gains: Vec<(u64, f64)>,
    /// The most likely write unit with its probability.
    pub write_unit: (u64, f64),
}

impl BuildBelief {
    /// The most likely erase block with its probability.
    pub(super) fn likeliest_unit(&self) -> (u64, f64) {
        let mut sums: Vec<(u64, f64)> = Vec::new();
        let weights = self.weights();
        let total = log_sum_exp(weights.iter().copied());
        for (build, weight) in self.builds.iter().zip(&weights) {
            let probability = (weight - total).exp();
            match sums.iter_mut().find(|(unit, _)| *unit == build.unit) {
                Some((_, sum)) => *sum += probability,
                None => sums.push((build.unit, probability)),
            }
        }
        sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are builds")
    }

    /// Whether the most likely build explains this distance.
    pub(super) fn is_as_expected(&self, of: &SeenDistance) -> bool {
        let best = self.best().map(|best| self.builds[best].whole_distance(of.shape));
        best == Some(of.whole_distance)
    }

    /// Whether the most likely build explains the results of all sizes and areas. Otherwise the
    /// stalls have another cause, or several. A single size gives no information on write units and
    /// must agree with the times by size. Sizes without a clear result do not count if smallest
    /// writes gave the write unit.
    pub fn is_explained(&self) -> bool {
        self.best().is_some_and(|best| {
            let write_unit = self.builds[best].write_unit;
            let is_timed = self.timed.is_none_or(|timed| timed == write_unit);
            let agrees = |logs: &Vec<f64>| {
                let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                logs[best] > most - CONTRADICTED
            };
            self.is_everywhere
                && (!self.is_log() || self.are_far_apart())
                && (is_timed || self.seen.len() > 1)
                && self.seen.iter().all(|of| self.is_as_expected(of))
                && (self.is_crossed || self.unclear.iter().all(agrees))
        })
    }

    /// The inferred erase block and write unit.
    pub fn result(&self) -> Erasures {
        let mut gains: Vec<(u64, f64, f64)> = Vec::new();
        let mut write_units: Vec<(u64, f64)> = Vec::new();
        let total = log_sum_exp(self.logs.iter().zip(&self.priors).map(|(a, b)| a + b));
        let priors = self.priors.iter().zip(&self.untimed);
        for ((build, log), (prior, untimed)) in self.builds.iter().zip(&self.logs).zip(priors) {
            match gains.iter_mut().find(|(unit, _, _)| *unit == build.unit) {
                Some((_, gain, of_unit)) => {
                    *gain = log_sum_exp([*gain, log + prior].into_iter());
                    *of_unit = log_sum_exp([*of_unit, *untimed].into_iter());
                }
                None => gains.push((build.unit, log + prior, *untimed)),
            }
            let probability = (log + prior - total).exp();
            match write_units.iter_mut().find(|(size, _)| *size == build.write_unit) {
                Some((_, sum)) => *sum += probability,
                None => write_units.push((build.write_unit, probability)),
            }
        }
        let best = write_units.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        // The prior of the unit is part of the belief; only the structure given the unit counts
        // here.
        let gains = gains.into_iter().map(|(unit, gain, of_unit)| (unit, gain - of_unit)).collect();
        Erasures { gains, write_unit: best.expect("there are builds") }
    }
}
