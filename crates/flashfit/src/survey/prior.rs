//! `flashfit tune --survey FILE`: the results of similar devices that a search begins with.

use std::path::{Path, PathBuf};

use clap::Args;
use flashfit_host::{SystemRunner, path_text};
use flashfit_report::text::plain;
use flashfit_survey::import::{self, SurveyInput};
use flashfit_survey::prior::PriorRequest;
use flashfit_survey::{CardIdentity, SurveyDatabase};
use flashfit_target::{InspectedTarget, TargetSource};
use flashfit_testbed::TestBedSpec;
use flashfit_tune::{Criterion, RunPrior};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::output;
use crate::rendering::prior::prior_text;
use crate::tune::resolved::ResolvedSpec;

#[derive(Debug, Args)]
pub struct SurveyPriorArgs {
    /// Begin the search with what this survey knows of similar devices: this one, others of its
    /// product, or else others with the same probed geometry. Gains are from fresh trials.
    #[arg(long, value_name = "FILE")]
    pub survey: Option<PathBuf>,
}

/// A run with what the survey, if one was named, knows of similar devices.
pub fn of_run(
    args: &SurveyPriorArgs,
    mut resolved: ResolvedSpec,
) -> Result<ResolvedSpec, CommandError> {
    let Some(path) = &args.survey else { return Ok(resolved) };
    let spec = &mut resolved.spec;
    if !matches!(spec.on, TestBedSpec::Here | TestBedSpec::Vm(_)) {
        let message = "--survey needs a device of this machine: it looks up its identity";
        return Err(CommandError::new(ExitClass::Usage, message, Some("leave --survey out")));
    }
    let catalog = spec.catalog_dir.as_deref();
    let inspected = InspectedTarget::inspect(&spec.target, &SystemRunner::default(), catalog)?;
    let identity = match &inspected.source {
        TargetSource::Card(model) => {
            CardIdentity::simulated(&model.name, Some(inspected.capacity().0))
        }
        TargetSource::Device(device) => CardIdentity::of_device(
            device.kind,
            &device.identity,
            &device.declared,
            inspected.capacity().0,
            inspected.partition_start().is_some(),
        ),
    };
    let probed = &spec.probed;
    let request = PriorRequest {
        identity: &identity,
        is_simulated: inspected.is_simulated(),
        erase_block: probed.erase_block.as_ref().map(|found| found.bytes.0),
        write_unit: probed.write_unit.as_ref().map(|found| found.bytes.0),
        by: spec.by,
        without: &[],
    };
    spec.prior = look_up(path, &request)?;
    Ok(resolved)
}

/// The prior of a replay: without the replayed runs themselves.
pub fn of_replay(
    args: &SurveyPriorArgs,
    dirs: &[PathBuf],
    by: Criterion,
) -> Result<Option<RunPrior>, CommandError> {
    let Some(path) = &args.survey else { return Ok(None) };
    let mut runs = Vec::new();
    for dir in dirs {
        if let SurveyInput::Source(run) = import::read(dir)? {
            runs.push(run);
        }
    }
    let Some(first) = runs.first() else { return Ok(None) };
    let without: Vec<String> = runs.iter().map(|run| run.origin.clone()).collect();
    let request = PriorRequest {
        identity: &first.card,
        is_simulated: first.is_simulated,
        erase_block: first.construction.erase_block,
        write_unit: first.construction.write_unit,
        by,
        without: &without,
    };
    look_up(path, &request)
}

fn look_up(path: &Path, request: &PriorRequest<'_>) -> Result<Option<RunPrior>, CommandError> {
    let prior = SurveyDatabase::open_for_reading(path)?.prior(request)?;
    output::note(&match &prior {
        Some(prior) => prior_text(prior),
        None => {
            let survey = path_text::to_text(path);
            format!("survey: {} has no similar device", plain(&survey))
        }
    });
    Ok(prior)
}
