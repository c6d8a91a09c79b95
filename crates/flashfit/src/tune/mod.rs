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
mod repeat_command;
mod replay;
mod replay_choice;
pub(crate) mod resolve;
pub(crate) mod resolved;
mod resume;
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
use std::rc::Rc;

use flashfit_host::SystemRunner;
use flashfit_tune::run::{Catalogs, Run, RunRequest, RunResult};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::output;
use crate::rendering::run_preview;
use crate::rendering::run_preview_document::RunPreviewDocument;
use crate::{signals, survey};
use args::TuneArgs;
use heartbeat::Heartbeat;
use outcome::OutputForm;
use resolved::ResolvedSpec;
use twin_stage::TwinStage;
use ui::TuneUi;

pub fn run(args: &TuneArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    if let Some(dirs) = &args.replay {
        return replay::run(args, dirs, catalog);
    }
    let interrupt = signals::interrupt()?;
    let (resolved, earlier) = match &args.resume {
        Some(dir) => resume::recorded(args, dir, catalog)?,
        None => {
            let mut resolved = resolve::resolve(args, catalog, &interrupt)?;
            twin_probe::reserve(args, &mut resolved.spec);
            (survey::of_run(&args.survey, resolved)?, None)
        }
    };
    let runner = SystemRunner::new(interrupt);
    let catalogs = Catalogs::load(&resolved.spec)?;
    // Kept while crash states are checked, and started after the place is made: it is a thread.
    let mut watched = None;
    let result = hosts::with_hosts(args, &resolved, &catalogs, &runner, |hosts| {
        let &ResolvedSpec { ref spec, ref dir, end_requested, ref probe } = &resolved;
        let tool_version = env!("CARGO_PKG_VERSION");
        let request =
            RunRequest { spec, dir, catalogs: &catalogs, tool_version, end_requested, until: None };
        let twin = TwinStage::of(args, spec, dir)?;
        let twin = twin.map(|twin| (twin, &runner));
        watched = (args.json_stream && !args.dry_run).then(|| Rc::new(Heartbeat::start()));
        let mut ui =
            TuneUi::new(args, request, twin, watched.clone())?.with_geometry(probe.as_ref());
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
    let run = (&result.header, &result.trials[..]);
    let checked = match (resolved.spec.crash_states, &result.ended) {
        (Some(states), Ok(_)) => crash_check::run(run, &catalogs, catalog, &resolved.dir, states),
        _ => Ok(()),
    };
    drop(watched);
    // The search has ended, whatever became of the check.
    present(args, &resolved, &catalogs, result)?;
    checked.map_err(|error| error.or_hint(&resume::hint(&resolved)))
}

/// Shows what a run found, also one that was interrupted.
fn present(
    args: &TuneArgs,
    resolved: &ResolvedSpec,
    catalogs: &Catalogs,
    RunResult { header, trials, ended }: RunResult,
) -> Result<(), CommandError> {
    let dir = &resolved.dir;
    let ended = ended.map_err(|error| resume::resumable(error, resolved));
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
