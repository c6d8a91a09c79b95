//! The end of a run: the report is written, and the answer printed.

use std::path::Path;

use flashfit_report::{Command, html, terminal};
use flashfit_tune::{RunHeader, Space, TrialRecord};
use serde::Serialize;

use crate::catalogues::Catalogues;
use crate::failure::Failure;
use crate::output;
use crate::rendering::{self, RunView};

#[derive(Serialize)]
struct Answer {
    verdict: String,
    /// What to use: the winner where fresh trials show it better, else the untuned one.
    setup: Option<String>,
    /// What came first in the search.
    winner: Option<String>,
    untuned: Option<String>,
    headline: String,
    gain: Option<GainParts>,
    commands: Vec<Step>,
    risk: String,
    simulated: bool,
    trials: usize,
    report: String,
}

/// A command and what it does.
#[derive(Serialize)]
struct Step {
    caption: String,
    line: String,
}

/// A gain in hundredths of a percent, with its 95 % interval.
#[derive(Serialize)]
struct GainParts {
    percent_hundredths: i64,
    low_percent_hundredths: i64,
    high_percent_hundredths: i64,
    repeats: u32,
}

/// Writes the report into the run directory and prints the answer.
pub fn present(
    header: &RunHeader,
    trials: &[TrialRecord],
    catalogues: &Catalogues,
    dir: &Path,
    json: bool,
) -> Result<(), Failure> {
    let space = Space::of_run(header, &catalogues.filesystems)?;
    let view = RunView::new(header, trials, &catalogues.workloads, &space)?;
    let report = rendering::report(&view, &catalogues.filesystems, dir);
    let path = dir.join("report.html");
    output::file(&path, &html::render(&report))?;
    if !json {
        let text = terminal::render_verdict(&report, output::width());
        return output::print(&format!("{text}\nReport: {}\n", path.display()));
    }
    let verdict = report.verdict;
    let hundredths = |percent: f64| rounded(percent * 100.0);
    let recommended = view.recommendation();
    output::json(
        "recommendation",
        Answer {
            verdict: verdict.outcome_shown().label().to_lowercase(),
            setup: recommended.map(|found| found.recommended().label()),
            winner: recommended.map(|found| found.winner.label()),
            untuned: recommended.map(|found| found.untuned.label()),
            headline: verdict.headline.clone(),
            gain: verdict.gain.map(|gain| GainParts {
                percent_hundredths: hundredths(gain.percent_mid),
                low_percent_hundredths: hundredths(gain.percent_low),
                high_percent_hundredths: hundredths(gain.percent_high),
                repeats: gain.repeats,
            }),
            commands: verdict
                .commands
                .into_iter()
                .map(|Command { caption, line }| Step { caption, line })
                .collect(),
            risk: verdict.risk.clone(),
            simulated: report.simulated,
            trials: trials.len(),
            report: path.display().to_string(),
        },
    )
}

#[expect(clippy::cast_possible_truncation, reason = "a gain in percent is far below 2^63")]
fn rounded(value: f64) -> i64 {
    value.round() as i64
}
