//! The end of a run: the report is written, and the answer printed.

use std::path::Path;

use flashfit_host::path_text;
use flashfit_report::text::wrap;
use flashfit_report::{html, terminal};
use flashfit_tune::run_dir::write_report;
use flashfit_tune::{RunEnd, RunHeader, Space, TrialRecord};
use schemars::JsonSchema;
use serde::Serialize;

pub use super::answer_parts::OutputForm;
use super::answer_parts::{Failed, GainParts, Step};
use crate::command_error::CommandError;
use crate::output;
use crate::rendering::answer::AnswerParts;
use crate::rendering::crash_test::CrashTest;
use crate::rendering::device_errors::DeviceErrorsParts;
use crate::rendering::setup_figures::{self, SetupFigures};
use crate::rendering::sustained::{SustainedAnswer, SustainedParts};
use crate::rendering::twin::TwinParts;
use crate::rendering::{self, RunView, verdict};
use flashfit_tune::run::Catalogs;

#[derive(JsonSchema, Serialize)]
pub struct RecommendationDocument {
    verdict: String,
    /// What to use: a setup that fresh trials show to be better or that likely is better, else the
    /// baseline.
    setup: Option<String>,
    /// The best setup of the search.
    winner: Option<String>,
    #[serde(rename = "untuned")]
    baseline: Option<String>,
    headline: String,
    /// Why the search ended, in words.
    ended: String,
    /// Whether it was interrupted, and can be resumed.
    interrupted: bool,
    gain: Option<GainParts>,
    commands: Vec<Step>,
    risk: String,
    /// What crash states of the setup showed, where they were checked.
    crash_test: Option<CrashTest>,
    #[serde(flatten)]
    answer: AnswerParts,
    /// Latencies, wear and constraints of every setup.
    setups: Vec<SetupFigures>,
    /// Setups of which a trial failed: they are out.
    failed: Vec<Failed>,
    simulated: bool,
    /// Errors of the device in completed trials, where the kernel counted any.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_errors: Option<DeviceErrorsParts>,
    /// Whether the device agrees with its simulated twin, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    twin: Option<TwinParts>,
    /// What longer trials say of the recommended setup, where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    sustained: Option<SustainedParts>,
    trials: usize,
    /// `null` if it could not be written.
    report: Option<String>,
}

/// A run that has ended, or was interrupted.
#[derive(Clone, Copy)]
pub struct FinishedRun<'a> {
    pub header: &'a RunHeader,
    pub trials: &'a [TrialRecord],
    pub ended: &'a Result<RunEnd, CommandError>,
}

/// Writes the report into the run directory.
pub fn write(run: &FinishedRun<'_>, catalogs: &Catalogs, dir: &Path) -> Result<(), CommandError> {
    let space = Space::of_run(run.header, &catalogs.filesystems)?;
    let view = RunView::new(run.header, run.trials, &catalogs.workloads, &space)?;
    write_report(dir, &html::render(&rendering::report(&view, &catalogs.filesystems, dir)))?;
    Ok(())
}

/// Writes the report into the run directory and prints the answer.
pub fn present(
    run: &FinishedRun<'_>,
    catalogs: &Catalogs,
    dir: &Path,
    form: OutputForm,
) -> Result<(), CommandError> {
    let FinishedRun { header, trials, ended } = *run;
    let space = Space::of_run(header, &catalogs.filesystems)?;
    let view = RunView::new(header, trials, &catalogs.workloads, &space)?;
    let report = rendering::report(&view, &catalogs.filesystems, dir);
    let written = write_report(dir, &html::render(&report)).map_err(|error| {
        CommandError::from(error).with_hint("the run is kept: flashfit report DIR -o FILE")
    });
    let why = match ended {
        Ok(ended) => {
            let known = header.spec.prior.as_ref();
            let assumption = known.map(|prior| rendering::prior::assumption(prior.is_of_twin()));
            verdict::ended(*ended, assumption)
        }
        Err(_) => "was interrupted; this is the result so far".to_owned(),
    };
    let sustained = SustainedAnswer::of(&view, dir);
    if form == OutputForm::Text {
        let text = terminal::render_verdict(&report, output::width());
        let twin = rendering::twin::agreement(header, &view.levelled);
        let twin = twin.map(|found| format!(" {}", rendering::twin::agreement_text(&found)));
        let end = format!("The search {why}.{}", twin.unwrap_or_default());
        let lines = |text: String| wrap(&text, output::width()).join("\n");
        let longer = sustained.map_or_else(String::new, |found| lines(found.text()) + "\n");
        let end = longer + &lines(end);
        let place = written.iter().map(|path| format!("Report: {}\n", path_text::to_text(path)));
        // Where there is no room for a report, the answer is still shown.
        output::print(&format!("{text}\n{end}\n{}", place.collect::<String>()))?;
        return written.map(drop);
    }
    let shown = report.verdict;
    let recommended = view.recommendation();
    let answer = RecommendationDocument {
        ended: why,
        interrupted: ended.is_err(),
        verdict: shown.supported_outcome().label().to_lowercase(),
        setup: recommended.map(|found| found.recommended().label()),
        winner: recommended.map(|found| found.winner.label()),
        baseline: recommended.map(|found| found.baseline.label()),
        headline: shown.headline.clone(),
        gain: shown.gain.map(|gain| GainParts::of(&gain)),
        commands: shown.commands.into_iter().map(Step::from).collect(),
        risk: shown.risk.clone(),
        crash_test: recommended.and_then(|found| CrashTest::read(dir, found.recommended())),
        answer: AnswerParts::of(&view.conclusion),
        setups: setup_figures::of(&view),
        failed: report.failures.iter().map(Failed::from).collect(),
        simulated: report.simulated,
        device_errors: rendering::device_errors::parts(&view),
        twin: rendering::twin::parts(header, &view.levelled),
        sustained: sustained.map(|found| found.parts()),
        trials: trials.len(),
        report: written.as_ref().ok().map(|path| path_text::to_text(path)),
    };
    match form {
        OutputForm::Json => output::json(answer)?,
        _ => output::json_line(answer)?,
    }
    written.map(drop)
}
