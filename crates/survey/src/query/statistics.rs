//! Means of cards and their differences, of figures or of their logarithms.
//!
//! The cards of a product are the sample; repeats of one card are averaged first. Differences of
//! logarithms are Welch's ("The generalization of Student's problem", 1947); those of figures that
//! can be 0 are made from the two intervals (Zou and Donner, "Construction of confidence limits
//! about effect measures", 2008). Shares have Wilson's interval (Wilson, 1927).

use flashfit_search::student;

/// Mean, spread and 95 % interval of a sample of figures or logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FigureSample {
    pub mean: f64,
    /// Standard deviation; `None` for one value.
    pub deviation: Option<f64>,
    pub count: usize,
}

impl FigureSample {
    /// `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let deviation = (count > 1).then(|| (squares / (count as f64 - 1.0)).sqrt());
        Some(Self { mean, deviation, count })
    }

    /// The 95 % interval of the mean.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let count = self.count as f64;
        let half = student::quantile(0.975, count - 1.0) * self.deviation? / count.sqrt();
        Some((self.mean - half, self.mean + half))
    }

    /// The difference to another sample, with its 95 % interval if both have a deviation.
    pub fn minus(&self, other: &Self) -> (f64, Option<(f64, f64)>) {
        let difference = self.mean - other.mean;
        let half = self.error_of_difference(other).map(|(error, freedom)| {
            if error > 0.0 { student::quantile(0.975, freedom) * error } else { 0.0 }
        });
        (difference, half.map(|half| (difference - half, difference + half)))
    }

    /// The standard error of the difference to another sample, with its degrees of freedom, if
    /// both have a deviation.
    pub fn error_of_difference(&self, other: &Self) -> Option<(f64, f64)> {
        let share = |of: &Self| Some(of.deviation?.powi(2) / of.count as f64);
        let (own, others) = (share(self)?, share(other)?);
        let variance = own + others;
        if variance <= 0.0 {
            return Some((0.0, 1.0));
        }
        let part = |share: f64, of: &Self| share.powi(2) / (of.count as f64 - 1.0);
        let freedom = variance.powi(2) / (part(own, self) + part(others, other));
        Some((variance.sqrt(), freedom.max(1.0)))
    }
}

/// The 95 % interval of a share of this many trials, of which there is at least one.
pub fn wilson(share: f64, count: f64) -> (f64, f64) {
    /// The 97.5 % quantile of the normal distribution.
    const Z: f64 = 1.959_964;
    let scale = 1.0 + Z * Z / count;
    let middle = (share + Z * Z / (2.0 * count)) / scale;
    let half = Z / scale * (share * (1.0 - share) / count + Z * Z / (4.0 * count * count)).sqrt();
    ((middle - half).clamp(0.0, share), (middle + half).clamp(share, 1.0))
}

/// The 95 % interval of the difference of two means by those of the means.
pub fn interval_of_difference(
    (own, (own_low, own_high)): (f64, (f64, f64)),
    (other, (other_low, other_high)): (f64, (f64, f64)),
) -> (f64, f64) {
    let difference = own - other;
    let below = (own - own_low).hypot(other_high - other);
    let above = (own_high - own).hypot(other - other_low);
    (difference - below, difference + above)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students_and_welchs() {
        let one = FigureSample::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let (low, high) = one.interval().unwrap();
        assert!((low - 1.0368).abs() < 1e-3 && (high - 4.9632).abs() < 1e-3, "{low} {high}");
        let other = FigureSample::of(&[2.0, 2.5, 3.5]).unwrap();
        // Standard error 0.83333, 5.9242 degrees of freedom: a quantile of about 2.455.
        let (difference, interval) = one.minus(&other);
        let (low, high) = interval.unwrap();
        assert!((difference - 1.0 / 3.0).abs() < 1e-9);
        assert!(
            (low + high - 2.0 / 3.0).abs() < 1e-9 && (4.05..4.13).contains(&(high - low)),
            "{low} {high}"
        );
        assert_eq!(FigureSample::of(&[1.0]).unwrap().interval(), None);
        assert_eq!(FigureSample::of(&[]), None);
    }

    #[test]
    fn differences_of_shares_are_newcombes() {
        // Newcombe, "Interval estimation for the difference between independent proportions",
        // 1998, method 10: 56 of 70 and 48 of 80.
        let part = |share: f64, count: f64| (share, wilson(share, count));
        let (low, high) = interval_of_difference(part(0.8, 70.0), part(0.6, 80.0));
        assert!((low - 0.0524).abs() < 1e-4 && (high - 0.3339).abs() < 1e-4, "{low} {high}");
    }
}
