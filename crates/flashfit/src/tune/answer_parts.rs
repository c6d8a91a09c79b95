//! Parts of the JSON document with a recommendation.

use flashfit_report::{FailedTrials, ReportCommand};
use serde::Serialize;

/// A command and what it does.
#[derive(Serialize)]
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
#[derive(Serialize)]
pub struct Failed {
    pub setup: String,
    pub message: String,
}

impl From<&FailedTrials> for Failed {
    fn from(failure: &FailedTrials) -> Self {
        Self { setup: failure.setup.clone(), message: failure.reason.clone() }
    }
}

/// A gain in hundredths of a percent, with its 95 % interval.
#[derive(Serialize)]
pub struct GainParts {
    pub percent_hundredths: i64,
    pub low_percent_hundredths: i64,
    pub high_percent_hundredths: i64,
    pub repeats: u32,
}
