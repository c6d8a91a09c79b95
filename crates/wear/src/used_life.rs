//! The life that a device has used before an estimate begins, as its registers report it.
//!
//! Registers count in steps, so that the truth lies anywhere within the current one. Limit: a
//! device's own figure is taken as it is; how each vendor computes it is not documented.

use schemars::JsonSchema;
use serde::Serialize;

/// Shares of the rated life: 0 is new, 1 is at the rating, and more is past it.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct UsedLife {
    pub low: f64,
    pub high: f64,
}

impl UsedLife {
    pub const NEW: Self = Self { low: 0.0, high: 0.0 };

    /// From a percentage at the lower end of a step of the counter.
    pub fn from_step(percent: u64, step_percent: u64) -> Self {
        let share = |percent: u64| percent as f64 / 100.0;
        Self { low: share(percent), high: share(percent.saturating_add(step_percent)) }
    }

    /// The value at a quantile, 0 to 1, of the step.
    pub(crate) fn at(self, quantile: f64) -> f64 {
        self.low + (self.high - self.low) * quantile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_ten_percent_holds_all_of_it() {
        let used = UsedLife::from_step(20, 10);
        assert!((used.low - 0.2).abs() < 1e-12 && (used.high - 0.3).abs() < 1e-12);
        assert!((used.at(0.5) - 0.25).abs() < 1e-12);
    }
}
