//! Intervals of what a counter in steps counted in repeated runs, and of the ratio of two counters.
//!
//! A counter shows a sum of all runs that is less than a step away from the truth, so the mean of
//! `n` runs is off by less than a step divided by `n`. The spread between runs adds Student's t
//! interval (95 %). For a ratio the spread is that of the residuals (Cochran, Sampling Techniques,
//! 6.3). Equal runs show counts that differ by a step, with a variance of at most a quarter of its
//! square, which is not counted as spread. Limit: a spread of less than half a step is not seen.
//! With one run the spread is unknown, so there is no interval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A mean or ratio with its interval; `low` and `high` are null for one run, because the spread
/// between runs is unknown.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct CountInterval {
    pub low: Option<f64>,
    pub middle: f64,
    pub high: Option<f64>,
}

/// The 97.5 % quantile of Student's t, for a two-sided interval of 95 %.
fn student(degrees: usize) -> f64 {
    flashfit_numbers::student::quantile(0.975, as_f64(degrees as u64))
}

#[expect(clippy::cast_precision_loss, reason = "figures for people have three digits")]
pub(crate) fn as_f64(count: u64) -> f64 {
    count as f64
}

/// The mean of what a counter with this step counted in each run; `None` without runs.
pub fn mean(counts: &[u64], step: u64) -> Option<CountInterval> {
    let runs = as_f64(counts.len() as u64);
    let total = counts.iter().map(|count| as_f64(*count)).sum::<f64>();
    let middle = (!counts.is_empty()).then(|| total / runs)?;
    let residuals: Vec<f64> = counts.iter().map(|count| as_f64(*count) - middle).collect();
    let half = half_width(&residuals, as_f64(step)).map(|spread| as_f64(step) / runs + spread);
    Some(CountInterval {
        low: half.map(|half| (middle - half).max(0.0)),
        middle,
        high: half.map(|half| middle + half),
    })
}

/// The ratio of two counters; `None` if one of them counted nothing beyond its step.
pub fn ratio(above: (&[u64], u64), below: (&[u64], u64)) -> Option<CountInterval> {
    let sum = |counts: &[u64]| counts.iter().map(|count| as_f64(*count)).sum::<f64>();
    let (top, bottom) = (sum(above.0), sum(below.0));
    let (top_step, bottom_step) = (as_f64(above.1), as_f64(below.1));
    if bottom <= bottom_step || top <= top_step {
        return None;
    }
    let middle = top / bottom;
    let pairs = above.0.iter().zip(below.0);
    let residuals: Vec<f64> =
        pairs.map(|(top, bottom)| as_f64(*top) - middle * as_f64(*bottom)).collect();
    let rounding = top_step.hypot(middle * bottom_step);
    let a_run = bottom / as_f64(below.0.len() as u64);
    let half = half_width(&residuals, rounding).map(|spread| spread / a_run);
    let least = (top - top_step).max(0.0) / (bottom + bottom_step);
    let most = (top + top_step) / (bottom - bottom_step);
    Some(CountInterval {
        low: half.map(|half| (least - half).max(0.0)),
        middle,
        high: half.map(|half| most + half),
    })
}

/// Half of Student's interval of the mean of residuals, which were rounded to this step; `None`
/// for fewer than two.
fn half_width(residuals: &[f64], step: f64) -> Option<f64> {
    let degrees = residuals.len().saturating_sub(1);
    if degrees == 0 {
        return None;
    }
    let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let runs = as_f64(residuals.len() as u64);
    let excess = squares - runs * step * step / 4.0;
    Some(student(degrees) * (excess.max(0.0) / as_f64(degrees as u64) / runs).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_has_no_interval() {
        let interval = mean(&[100], 10).unwrap();
        assert_eq!((interval.low, interval.middle, interval.high), (None, 100.0, None));
        let interval = ratio((&[100], 1), (&[50], 1)).unwrap();
        assert_eq!((interval.low, interval.middle, interval.high), (None, 2.0, None));
        assert_eq!(mean(&[], 10), None);
    }

    #[test]
    fn ten_steps_are_ten_percent() {
        let interval = mean(&[20, 20, 20, 20, 20], 10).unwrap();
        let (low, high) = (interval.low.unwrap(), interval.high.unwrap());
        assert!((high - 22.0).abs() < 1e-9 && (low - 18.0).abs() < 1e-9);
    }

    #[test]
    fn the_spread_between_runs_widens_the_interval() {
        // Mean 20, standard deviation 2, so 4.303 * 2 / sqrt(3) = 4.969.
        let interval = mean(&[18, 20, 22], 0).unwrap();
        assert!((interval.high.unwrap() - 24.969).abs() < 1e-3, "{interval:?}");
    }

    #[test]
    fn a_ratio_needs_counters_above_their_steps() {
        let two = ratio((&[200, 200, 200], 1), (&[100, 100, 100], 1)).unwrap();
        let (low, high) = (two.low.unwrap(), two.high.unwrap());
        assert!((two.middle - 2.0).abs() < 1e-9 && low < 2.0 && high > 2.0);
        assert!(high - low < 0.03, "{two:?}");
        assert_eq!(ratio((&[5], 1), (&[0], 1)), None);
        assert_eq!(ratio((&[5], 1), (&[10], 10)), None);
        assert_eq!(ratio((&[0, 0, 10], 10), (&[100, 100, 100], 1)), None);
    }

    #[test]
    fn quantiles_do_not_increase() {
        assert!((1..60).all(|degrees| student(degrees) > student(degrees + 1)));
    }
}
