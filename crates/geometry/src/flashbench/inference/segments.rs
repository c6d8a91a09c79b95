//! Segmentation of a series into levels: the likelihood of every partition of the values into
//! consecutive levels.
//!
//! The values of a level are normal with their own variance. Its marginal likelihood is in closed
//! form (uniform prior for the level, inverse gamma prior for the variance). One value per level
//! may be an outlier. All partitions into at most [`MAX_LEVELS`] levels are weighted, so statements
//! about one boundary are averaged over the positions of the others. Source: Fearnhead, "Exact and
//! efficient Bayesian inference for multiple changepoint problems" (Statistics and Computing,
//! 2006), for the sum over partitions.

use std::ops::Range;

/// Tables show at most: below the page, below the erase block, on the way up, above it, and one for
/// the effect of the device's end on the top rows.
const MAX_LEVELS: usize = 5;
/// Prior probability that a value is an outlier.
const OFF: f64 = 0.03;
/// Shape of the prior of a level's variance; equivalent to twice as many observations.
const SHAPE: f64 = 1.5;
/// Prior probability of another level, spread over its possible positions.
const ANOTHER_LEVEL: f64 = 0.3;

/// A series with its noise.
#[derive(Debug)]
pub struct NoisySeries<'a> {
    pub values: &'a [f64],
    /// Approximate variation within a level.
    pub noise: f64,
    /// The range of possible levels.
    pub range: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SegmentLevel {
    /// Index of the first value.
    pub first: usize,
    /// Index after the last value.
    pub end: usize,
    pub mean: f64,
    /// Standard error of the mean.
    pub error: f64,
    /// Index of the outlier, if any.
    pub off: Option<usize>,
}

impl SegmentLevel {
    pub fn count(&self) -> usize {
        self.end - self.first
    }
}

#[derive(Clone, Copy)]
struct Marginal {
    log: f64,
    level: SegmentLevel,
}

impl NoisySeries<'_> {
    /// Calls `take` with every partition and its log-weight: prior times likelihood.
    pub fn partitions(&self, mut take: impl FnMut(&[SegmentLevel], f64)) {
        let count = self.values.len();
        let marginals: Vec<Vec<Marginal>> = (0..count)
            .map(|first| (first + 1..=count).map(|end| self.marginal(first..end)).collect())
            .collect();
        let mut levels = Vec::new();
        self.extend(&marginals, 0, 0.0, &mut levels, &mut take);
    }

    fn extend(
        &self,
        marginals: &[Vec<Marginal>],
        first: usize,
        log: f64,
        levels: &mut Vec<SegmentLevel>,
        take: &mut impl FnMut(&[SegmentLevel], f64),
    ) {
        let count = self.values.len();
        if first == count {
            take(levels, log);
            return;
        }
        if levels.len() == MAX_LEVELS {
            return;
        }
        let places = (count.max(2) - 1) as f64;
        let another = if levels.is_empty() { 0.0 } else { (ANOTHER_LEVEL / places).ln() };
        for marginal in &marginals[first] {
            levels.push(marginal.level);
            self.extend(marginals, marginal.level.end, log + another + marginal.log, levels, take);
            levels.pop();
        }
    }

    /// The marginal likelihood of one level, with or without an outlier.
    fn marginal(&self, range: Range<usize>) -> Marginal {
        let values = &self.values[range.clone()];
        let count = values.len();
        let (plain, mean, error) = self.without(values, None);
        let as_it_is = plain + count as f64 * (1.0 - OFF).ln();
        let mut best = (as_it_is, mean, error, None);
        let mut logs = vec![as_it_is];
        // A level of two with an outlier would be a single value.
        if count > 2 {
            for off in 0..count {
                let (log, mean, error) = self.without(values, Some(off));
                let log = log + OFF.ln() + (count - 1) as f64 * (1.0 - OFF).ln() - self.range.ln();
                logs.push(log);
                if log > best.0 {
                    best = (log, mean, error, Some(range.start + off));
                }
            }
        }
        let log = crate::belief::log_sum_exp(logs.iter().copied());
        let (_, mean, error, off) = best;
        let level = SegmentLevel { first: range.start, end: range.end, mean, error, off };
        Marginal { log, level }
    }

    /// The log-likelihood of one level without one of its values, with its mean and standard error.
    fn without(&self, values: &[f64], off: Option<usize>) -> (f64, f64, f64) {
        let kept = || values.iter().enumerate().filter(|(at, _)| Some(*at) != off).map(|(_, v)| *v);
        let count = kept().count() as f64;
        let mean = kept().sum::<f64>() / count;
        let squares: f64 = kept().map(|value| (value - mean).powi(2)).sum();
        let scale = SHAPE * self.noise * self.noise;
        let shape = SHAPE + (count - 1.0) / 2.0;
        let rate = scale + squares / 2.0;
        let log = -self.range.ln()
            - (count - 1.0) / 2.0 * (2.0 * std::f64::consts::PI).ln()
            - count.ln() / 2.0
            + SHAPE * scale.ln()
            - shape * rate.ln()
            + log_gamma_ratio(shape);
        (log, mean, (rate / shape / count).sqrt())
    }
}

/// The logarithm of Gamma(`shape`) / Gamma([`SHAPE`]); the arguments differ by a multiple of one
/// half.
fn log_gamma_ratio(shape: f64) -> f64 {
    // Gamma(1.5) is sqrt(pi)/2 and Gamma(2) is 1.
    let half_steps = ((shape - SHAPE) * 2.0).round() as usize;
    let (start, steps, first) = if half_steps % 2 == 0 {
        (SHAPE, half_steps / 2, 0.0)
    } else {
        (SHAPE + 0.5, half_steps / 2, -(std::f64::consts::PI.sqrt() / 2.0).ln())
    };
    first + (0..steps).map(|step| (start + step as f64).ln()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likeliest(values: &[f64]) -> Vec<usize> {
        let series = NoisySeries { values, noise: 1.0, range: 100.0 };
        let mut best = (f64::NEG_INFINITY, Vec::new());
        series.partitions(|levels, log| {
            if log > best.0 {
                best = (log, levels.iter().map(|level| level.first).collect());
            }
        });
        best.1
    }

    #[test]
    fn levels_start_where_the_values_step() {
        assert_eq!(likeliest(&[0.0, 1.0, -1.0, 0.0, 0.5, 0.0]), [0]);
        assert_eq!(likeliest(&[0.0, 1.0, -1.0, 20.0, 21.0, 20.0]), [0, 3]);
        assert_eq!(likeliest(&[0.0, 1.0, 10.0, 11.0, 10.0, 30.0, 31.0, 30.0]), [0, 2, 5]);
    }

    #[test]
    fn a_single_outlier_is_not_a_level() {
        assert_eq!(likeliest(&[0.0, 1.0, -1.0, 90.0, 0.5, 0.0, 1.0, 0.0]), [0]);
        assert_eq!(likeliest(&[0.0, 1.0, -1.0, 0.0, 20.0, 21.0, 70.0, 20.0]), [0, 4]);
    }

    #[test]
    fn the_ratio_of_gamma_functions_matches_known_values() {
        // Gamma(3.5)/Gamma(1.5) = 2.5 * 1.5; Gamma(3)/Gamma(1.5) = 2 / (sqrt(pi)/2).
        assert!((log_gamma_ratio(3.5).exp() - 3.75).abs() < 1e-9);
        let expected = 4.0 / std::f64::consts::PI.sqrt();
        assert!((log_gamma_ratio(3.0).exp() - expected).abs() < 1e-9);
    }
}
