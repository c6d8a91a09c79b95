//! How far a twin is off in each pattern.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fit_target::MeasuredPatterns;

/// A pattern is reproduced if its duration is off by at most this ratio, in thousandths.
const GOOD_THOUSANDTHS: u64 = 1300;
/// And not at all beyond this.
const WRONG_THOUSANDTHS: u64 = 2000;

/// The duration of a pattern on the device and on its twin.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PatternRatio {
    pub name: String,
    /// What it does, as part of a sentence.
    pub what: String,
    pub measured_ns: u64,
    pub simulated_ns: u64,
}

impl PatternRatio {
    /// Of all patterns, given the simulated durations of their parts in nanoseconds.
    pub fn all(patterns: &MeasuredPatterns, parts_ns: &[u64]) -> Vec<Self> {
        let mut rest = parts_ns;
        let of = patterns.measured.iter().map(|of| {
            let (parts, others) = rest.split_at(of.parts_ns.len());
            rest = others;
            Self {
                name: of.pattern.name.clone(),
                what: of.pattern.what.clone(),
                measured_ns: of.parts_ns.iter().sum(),
                simulated_ns: parts.iter().sum(),
            }
        });
        of.collect()
    }

    /// The median and the largest error, in thousandths; `None` without patterns.
    pub fn median_and_largest(all: &[Self]) -> Option<(u64, u64)> {
        let mut errors: Vec<u64> = all.iter().map(Self::error_thousandths).collect();
        errors.sort_unstable();
        Some((*errors.get(errors.len() / 2)?, *errors.last()?))
    }

    /// The ratio of the longer duration to the shorter, in thousandths: 1000 is not an error.
    pub fn error_thousandths(&self) -> u64 {
        let (one, other) = (self.measured_ns.max(1), self.simulated_ns.max(1));
        let ratio = u128::from(one.max(other)) * 1000 / u128::from(one.min(other));
        u64::try_from(ratio).unwrap_or(u64::MAX)
    }

    /// Whether the twin reproduces it; `None` if it is neither right nor wrong.
    pub fn is_good(&self) -> Option<bool> {
        match self.error_thousandths() {
            error if error <= GOOD_THOUSANDTHS => Some(true),
            error if error > WRONG_THOUSANDTHS => Some(false),
            _ => None,
        }
    }
}
