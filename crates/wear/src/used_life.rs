//! The life that a device has used before an estimate begins, as its registers report it.
//!
//! Registers count in steps, so that the truth lies anywhere within the current one. Limits: a
//! device's own figure is taken as the mean of its blocks; how each vendor computes it is not
//! documented. A register at its largest value says no more than that the rating is used up.

use schemars::JsonSchema;
use serde::Serialize;

/// Shares of the rated life that the mean of the blocks has used: 0 is new, 1 is at the rating, and
/// more is past it.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct UsedLife {
    pub low: f64,
    /// Absent if the register is at its largest value: the device is at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

impl UsedLife {
    pub const NEW: Self = Self { low: 0.0, high: Some(0.0) };

    /// A share that is known.
    pub fn exactly(share: f64) -> Self {
        Self { low: share, high: Some(share) }
    }

    /// From the percentage of a register at its largest value.
    pub fn at_end(percent: u64) -> Self {
        Self { low: percent as f64 / 100.0, high: None }
    }

    /// From a percentage at the lower end of a step of the counter.
    pub fn from_step(percent: u64, step_percent: u64) -> Self {
        let share = |percent: u64| percent as f64 / 100.0;
        Self { low: share(percent), high: Some(share(percent.saturating_add(step_percent))) }
    }

    /// The value at a quantile, 0 to 1, of the step; `None` at the end.
    pub(crate) fn at(self, quantile: f64) -> Option<f64> {
        Some(self.low + (self.high? - self.low) * quantile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_ten_percent_holds_all_of_it() {
        let used = UsedLife::from_step(20, 10);
        assert!((used.low - 0.2).abs() < 1e-12 && (used.at(1.0).unwrap() - 0.3).abs() < 1e-12);
        assert!((used.at(0.5).unwrap() - 0.25).abs() < 1e-12);
    }
}
