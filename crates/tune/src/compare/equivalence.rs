//! Whether a difference is surely too small to matter.
//!
//! An interval that includes 0 does not show that two runs are equal: it may include a loss by
//! half as well. Runs count as equal if the whole interval lies within a margin (the interval form
//! of an equivalence test).

use super::RunDifference;

/// Both ends of the interval of equal runs lie within this share.
pub const EQUIVALENCE_MARGIN: f64 = 0.05;

/// Smaller differences of logarithms are rounding errors.
const SAME: f64 = 1e-9;

impl RunDifference {
    /// Whether the interval with this probability lies within [`EQUIVALENCE_MARGIN`], or without
    /// one, the figures are the same.
    pub fn is_equivalent(&self, probability: f64) -> bool {
        let is_within = |(low, high): (f64, f64)| -> bool {
            (1.0 - EQUIVALENCE_MARGIN).ln() <= low && high <= (1.0 + EQUIVALENCE_MARGIN).ln()
        };
        self.interval(probability).map_or(self.log.abs() < SAME, is_within)
    }
}

#[cfg(test)]
mod tests {
    use super::super::StandardError;
    use super::*;

    #[test]
    fn only_a_narrow_interval_around_0_shows_equality() {
        let found = |log: f64, error: Option<f64>| RunDifference {
            log,
            error: error.map(|log| StandardError { log, freedom: 30.0, is_between_setups: false }),
            trials: [8, 8],
            rounds: [8, 8],
            setups: 8,
        };
        assert!(found(0.0, None).is_equivalent(0.95), "the same figures");
        assert!(found(-0.01, Some(0.01)).is_equivalent(0.95));
        for (log, error) in
            [(0.0, Some(0.5)), (-0.55, Some(0.6)), (0.0499, Some(0.01)), (0.001, None)]
        {
            assert!(!found(log, error).is_equivalent(0.95), "{log} {error:?}");
        }
    }
}
