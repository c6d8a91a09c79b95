//! Basic statistics: medians and Student's t interval of a mean.
//!
//! Merits are logarithms, so a difference is the logarithm of a ratio and a symmetric interval is
//! appropriate. Limits: fewer than two values have no interval; the intervals assume no drift
//! between repeats, for which trials are interleaved in random order.

pub use flashfit_numbers::median;
use flashfit_search::student;

/// Above this number of degrees of freedom its quantile is used, which is slightly conservative.
const MAX_FREEDOM: f64 = 30.0;

/// An estimate with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean, which is in its interval.
    pub middle: f64,
    /// The interval of the mean; `None` with fewer than two values.
    pub interval: Option<(f64, f64)>,
    /// Where one more measurement from any starting state lies in 95 of 100 cases, if that is
    /// known.
    pub seen: Option<(f64, f64)>,
    pub count: usize,
}

impl Estimate {
    /// `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let middle = mean(values);
        let interval = half_width_95(values).map(|half| (middle - half, middle + half));
        Some(Self { middle, interval, seen: None, count: values.len() })
    }

    /// Whether the whole interval is above `threshold`; false without an interval.
    pub fn is_above(&self, threshold: f64) -> bool {
        self.interval.is_some_and(|(low, _)| low > threshold)
    }

    /// Whether there is an interval, and 0 is not in it.
    pub fn excludes_zero(&self) -> bool {
        self.is_above(0.0) || self.is_below(0.0)
    }

    /// Whether the whole interval is below `threshold`; false without an interval.
    pub fn is_below(&self, threshold: f64) -> bool {
        self.interval.is_some_and(|(_, high)| high < threshold)
    }
}

/// The mean; NaN without values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The two-sided 95 % quantile of Student's t distribution for at least one degree of freedom,
/// rounded to three decimals, because recorded figures were computed with printed tables.
pub fn student_95(freedom: usize) -> f64 {
    let freedom = (freedom.max(1) as f64).min(MAX_FREEDOM);
    (student::quantile(0.975, freedom) * 1000.0).round() / 1000.0
}

fn half_width_95(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let freedom = values.len() - 1;
    let mean = mean(values);
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / freedom as f64;
    Some(student_95(freedom) * (variance / values.len() as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3
    }

    #[test]
    fn quantiles_are_those_of_printed_tables() {
        let table = [
            12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179,
            2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
            2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
        ];
        for (freedom, wanted) in (1..).zip(table) {
            assert_eq!(student_95(freedom).to_bits(), f64::to_bits(wanted), "{freedom}");
        }
        assert_eq!(student_95(0).to_bits(), student_95(1).to_bits());
        assert_eq!(student_95(500).to_bits(), student_95(30).to_bits());
    }

    #[test]
    fn the_interval_is_students() {
        // scipy.stats.t.interval(0.95, 4, loc=3, scale=scipy.stats.sem([1,2,3,4,5]))
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let (low, high) = estimate.interval.unwrap();
        assert!(close(low, 1.0368) && close(high, 4.9632), "{low} {high}");
        assert!(close(estimate.middle, 3.0));
    }

    #[test]
    fn an_estimate_is_in_its_interval_whatever_the_values() {
        let estimate = Estimate::of(&[[3.0; 12].as_slice(), &[1.0]].concat()).unwrap();
        let (low, high) = estimate.interval.unwrap();
        assert!(low < estimate.middle && estimate.middle < high, "{estimate:?}");
    }

    #[test]
    fn one_value_has_no_interval_and_proves_nothing() {
        let estimate = Estimate::of(&[7.0]).unwrap();
        assert_eq!(estimate.interval, None);
        assert!(!estimate.is_above(0.0) && !estimate.is_below(100.0));
        assert_eq!(Estimate::of(&[]), None);
    }
}
