//! `flashfit tune TARGET`: measures setups on a device and recommends one.

mod announce;
mod answer_parts;
pub mod args;
pub mod belief;
mod budget;
mod constraints;
mod crash_check;
mod extend;
mod geometry;
pub mod heartbeat;
mod hosts;
pub mod outcome;
mod progress;
mod progress_display;
mod remaining;
mod replay;
mod replay_choice;
pub(crate) mod resolve;
mod schedulers;
mod spec_check;
mod spending;
mod twin_probe;
mod twin_run;
mod twin_stage;
mod twin_ui;
mod ui;
mod wear_so_far;

use std::path::Path;

use flashfit_host::SystemRunner;
use flashfit_host::program::quote_path;
use flashfit_tune::run::{Catalogs, Run, RunRequest, RunResult};
use flashfit_tune::{RunSpec, StoredRun, TuneError};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::output::{self, note};
use crate::rendering::run_preview;
use crate::rendering::run_preview_document::RunPreviewDocument;
use crate::{signals, survey};
use crate::test_beds::again_words::again_words;
use args::TuneArgs;
use outcome::OutputForm;
use resolve::ResolvedSpec;
use twin_stage::TwinStage;
use ui::TuneUi;

pub fn run(args: &TuneArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    if let Some(dirs) = &args.replay {
        return replay::run(args, dirs, catalog);
    }
    let interrupt = signals::interrupt()?;
    let (resolved, earlier) = match &args.resume {
        Some(dir) => resume(args, dir, catalog)?,
        None => {
            let mut resolved = resolve::resolve(args, catalog, &interrupt)?;
            twin_probe::reserve(args, &mut resolved.spec);
            (survey::of_run(&args.survey, resolved)?, None)
        }
    };
    let runner = SystemRunner::new(interrupt);
    let catalogs = Catalogs::load(&resolved.spec)?;
    let result = hosts::with_hosts(args, &resolved, &catalogs, &runner, |hosts| {
        let &ResolvedSpec { ref spec, ref dir, end_requested } = &resolved;
        let tool_version = env!("CARGO_PKG_VERSION");
        let request =
            RunRequest { spec, dir, catalogs: &catalogs, tool_version, end_requested, until: None };
        let twin = TwinStage::of(args, spec, dir)?;
        let mut ui = TuneUi::new(args, request, twin.map(|twin| (twin, &runner)))?;
        if args.dry_run {
            let preview = Run::preview(request, hosts, earlier.as_ref(), &mut ui)?;
            if args.json || args.json_stream {
                let document = RunPreviewDocument::new(request, &preview);
                return output::json(document).map(|()| None);
            }
            let text = run_preview::text(request, &preview, output::width());
            return output::print(&text).map(|()| None);
        }
        Ok(Some(match earlier {
            None => Run::start(request, hosts, &mut ui)?,
            Some(earlier) => Run::resume(request, hosts, earlier, &mut ui)?,
        }))
    })?;
    let Some(result) = result else { return Ok(()) };
    if let (Some(states), Ok(_)) = (resolved.spec.crash_states, &result.ended) {
        let run = (&result.header, &result.trials[..]);
        crash_check::run(run, &catalogs, catalog, &resolved.dir, states)?;
    }
    present(args, &resolved, &catalogs, result)
}

/// Shows what a run found, also one that was interrupted.
fn present(
    args: &TuneArgs,
    ResolvedSpec { spec, dir, .. }: &ResolvedSpec,
    catalogs: &Catalogs,
    RunResult { header, trials, ended }: RunResult,
) -> Result<(), CommandError> {
    let ended = ended.map_err(|error| resumable(error, spec, dir));
    let form = match (args.json, args.json_stream) {
        (true, _) => OutputForm::Json,
        (_, true) => OutputForm::JsonLine,
        _ => OutputForm::Text,
    };
    let run = outcome::FinishedRun { header: &header, trials: &trials, ended: &ended };
    match &ended {
        Ok(_) => outcome::present(&run, catalogs, dir, form),
        Err(failure) if failure.class() == ExitClass::Interrupted && !trials.is_empty() => {
            outcome::present(&run, catalogs, dir, form)?;
            ended.map(drop)
        }
        Err(_) => ended.map(drop),
    }
}

/// What a recorded run continues with. It decides alone neither on programs nor on places outside
/// its directory: docs/run-format.md says which of them the command line names again.
fn resume(
    args: &TuneArgs,
    dir: &Path,
    catalog: Option<&Path>,
) -> Result<(ResolvedSpec, Option<StoredRun>), CommandError> {
    let run = StoredRun::read(dir)?;
    let mut spec = Catalogs::recorded(&run.header, catalog)?;
    spec.on = args.stand.again(&spec.on, dir)?;
    if let Some(elsewhere) = spec.mount_dir.take() {
        note(&format!(
            "note: file systems are mounted in {}, not in {}",
            dir.join("mnt").display(),
            elsewhere.display()
        ));
    }
    note(&format!("resuming {}: {} trials were recorded", dir.display(), run.trials.len()));
    spec.crash_states = args.crash_states.or(spec.crash_states);
    let spec = extend::extended(args, spec, &run.trials)?;
    let resolved = ResolvedSpec { spec, dir: dir.to_owned(), end_requested: false };
    Ok((resolved, Some(run)))
}

/// An error that ends a run says how to go on.
fn resumable(error: TuneError, spec: &RunSpec, dir: &Path) -> CommandError {
    let dir = format!("{}{}", quote_path(dir), again_words(spec));
    CommandError::from(error).in_dir(&dir).or_hint(&format!(
        "the recorded trials are kept; continue with: flashfit tune --resume {dir}"
    ))
}
