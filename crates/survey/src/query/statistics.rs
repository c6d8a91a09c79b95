//! Means of cards and their differences, on logarithms: intervals are of ratios.
//!
//! The cards of a product are the sample; repeats of one card are averaged first. Differences of
//! two products are Welch's ("The generalization of Student's problem", 1947).

use flashfit_search::student;

/// Mean, spread and 95 % interval of a sample of logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogSample {
    pub mean: f64,
    /// Standard deviation; `None` for one value.
    pub deviation: Option<f64>,
    pub count: usize,
}

impl LogSample {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students_and_welchs() {
        let one = LogSample::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let (low, high) = one.interval().unwrap();
        assert!((low - 1.0368).abs() < 1e-3 && (high - 4.9632).abs() < 1e-3, "{low} {high}");
        let other = LogSample::of(&[2.0, 2.5, 3.5]).unwrap();
        // Standard error 0.83333, 5.9242 degrees of freedom: a quantile of about 2.455.
        let (difference, interval) = one.minus(&other);
        let (low, high) = interval.unwrap();
        assert!((difference - 1.0 / 3.0).abs() < 1e-9);
        assert!(
            (low + high - 2.0 / 3.0).abs() < 1e-9 && (4.05..4.13).contains(&(high - low)),
            "{low} {high}"
        );
        assert_eq!(LogSample::of(&[1.0]).unwrap().interval(), None);
        assert_eq!(LogSample::of(&[]), None);
    }
}
