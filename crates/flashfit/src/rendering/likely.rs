//! A gain that is likely and not shown, in words and as JSON.

use flashfit_search::LikelyGain;
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::hundredths;

/// A gain over the baseline according to the model of all trials.
#[derive(Debug, JsonSchema, Serialize)]
pub struct LikelyParts {
    /// In hundredths of a percent.
    percent_hundredths: i64,
    /// That there is a gain, 0 to 1.
    probability: f64,
}

impl From<&LikelyGain> for LikelyParts {
    fn from(gain: &LikelyGain) -> Self {
        Self { percent_hundredths: hundredths(gain.mean), probability: gain.probability }
    }
}

pub fn sentence(gain: &LikelyGain) -> String {
    format!(
        "Likely: the probability that it is better than the baseline is {} according to the model of \
         all trials, most of which also chose it.",
        flashfit_report::probability(gain.probability)
    )
}
