//! Parts of the JSON document with a recommendation.

use flashfit_report::{FailedTrials, ReportCommand, ReportedGain};
use schemars::JsonSchema;
use serde::Serialize;

use crate::rendering::answer::rounded;

/// How the answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputForm {
    /// For people.
    Text,
    /// As one document.
    Json,
    /// As one document on one line, behind those of the search.
    JsonLine,
}

/// A command and what it does.
#[derive(JsonSchema, Serialize)]
pub struct Step {
    pub caption: String,
    pub line: String,
}

impl From<ReportCommand> for Step {
    fn from(ReportCommand { caption, line }: ReportCommand) -> Self {
        Self { caption, line }
    }
}

/// A setup that is out.
#[derive(JsonSchema, Serialize)]
pub struct Failed {
    pub setup: String,
    pub message: String,
}

impl From<&FailedTrials> for Failed {
    fn from(failure: &FailedTrials) -> Self {
        Self { setup: failure.setup.clone(), message: failure.reason.clone() }
    }
}

/// A gain in hundredths of a percent, with the 95 % interval of a single measurement from any
/// starting state, and that of the mean, which decides.
#[derive(JsonSchema, Serialize)]
pub struct GainParts {
    pub percent_hundredths: i64,
    pub low_percent_hundredths: i64,
    pub high_percent_hundredths: i64,
    pub mean_low_percent_hundredths: i64,
    pub mean_high_percent_hundredths: i64,
    pub repeats: u32,
}

impl GainParts {
    pub fn of(gain: &ReportedGain) -> Self {
        let hundredths = |percent: f64| rounded(percent * 100.0);
        let mean = (gain.percent_low, gain.percent_high);
        let (low, high) = gain.percent_seen.unwrap_or(mean);
        Self {
            percent_hundredths: hundredths(gain.percent_mid),
            low_percent_hundredths: hundredths(low),
            high_percent_hundredths: hundredths(high),
            mean_low_percent_hundredths: hundredths(mean.0),
            mean_high_percent_hundredths: hundredths(mean.1),
            repeats: gain.repeats,
        }
    }
}
