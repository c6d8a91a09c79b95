//! `flashfit tune --replay DIR…`: any strategy on recorded runs instead of a device. Needs no root.

use std::path::{Path, PathBuf};

use flashfit_filesystem::{FileSystemCatalog, Setup};
use flashfit_tune::replay::{Recording, ReplayRequest, replay};
use flashfit_tune::{Conclusion, Config, RunPrior, StoredRun, Weight, twin};

use crate::command_error::CommandError;
use crate::output;
use crate::rendering::replay as rendering;
use crate::survey;
use crate::tune::args::TuneArgs;
use crate::tune::replay_choice::ReplayChoice;

/// Searches the recorded runs and prints what came of it.
pub fn run(args: &TuneArgs, dirs: &[PathBuf], catalog: Option<&Path>) -> Result<(), CommandError> {
    let config = match &args.config {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    let catalog_dir = catalog.map(Path::to_owned).or_else(|| config.catalog_dir.clone());
    crate::cli::is_folder(catalog_dir.as_deref())?;
    let fs_catalog = FileSystemCatalog::load(catalog_dir.as_deref())?;
    let recording = Recording::read(dirs)?;
    for run in recording.with_other_catalog(catalog_dir.as_deref())? {
        let run = run.display();
        output::note(&format!(
            "note: {run} used other definitions of its file systems or workloads than this \
             catalog has; its setups are read by this catalog"
        ));
    }
    if let [first, others @ ..] = &recording.devices[..] {
        if !others.is_empty() {
            let count = recording.devices.len();
            output::note(&format!(
                "note: {count} devices were measured; figures are as on {first}"
            ));
        }
    }
    let choice = ReplayChoice::of(args, &config, &recording, catalog_dir.as_deref())?;
    let wanted = |setup: &Setup| choice.wants(setup);
    let weight = |workload: &str| {
        choice.weights.get(workload).map_or(Weight::ONE, |weight| Weight(*weight)).value()
    };
    let question = ReplayRequest {
        rules: choice.rules.clone(),
        judge: choice.judge,
        workloads: choice.workloads.clone(),
        weight: &weight,
        allow: choice.allow,
        wanted: &wanted,
        life: choice.life.clone(),
        prior: prior(args, dirs, &choice)?,
    };
    let replayed = replay(&recording, &question, &fs_catalog)?;
    let conclusion = Conclusion::of(
        replayed.problem.clone(),
        replayed.history.clone(),
        replayed.costs.clone(),
        &choice.rules,
        &recording.trials,
        &replayed.copied,
    );
    let shown = rendering::ReplayView {
        recording: &recording,
        replayed: &replayed,
        conclusion: &conclusion,
        rules: &choice.rules,
        by: choice.judge.by,
        limit_ns: choice.judge.p99_write_max_ns,
    };
    if args.json {
        return output::json(rendering::document(&shown));
    }
    if args.json_stream {
        return output::json_line(rendering::document(&shown));
    }
    output::print(&rendering::text(&shown, output::width()))
}

/// What is known before the first trial: the run of a twin, or what a survey has.
fn prior(
    args: &TuneArgs,
    dirs: &[PathBuf],
    choice: &ReplayChoice,
) -> Result<Option<RunPrior>, CommandError> {
    let Some(dir) = &args.twin_run else {
        return survey::of_replay(&args.survey, dirs, choice.judge.by);
    };
    let StoredRun { header, trials } = StoredRun::read(dir)?;
    Ok(twin::prior_of(&trials, &choice.judge, &header.spec.target))
}
