//! `flashfit wear estimate`: how many years setups last under a usage model.

use std::path::Path;

use flashfit_user_error::ExitClass;
use flashfit_wear::estimate::{EstimateRequest, SetupEstimate, estimate};
use flashfit_wear::extrapolation::Interval;
use flashfit_wear::{SetupTraces, UsedLife, usage};
use schemars::JsonSchema;
use serde::Serialize;

use crate::command_error::CommandError;
use crate::output;
use crate::rendering::wear::estimate_text;
use crate::wear::life_args::WearEstimateArgs;
use crate::wear::setup_traces;
use crate::wear::target::{self, ModelChoice};

/// What is printed.
#[derive(Debug, JsonSchema, Serialize)]
pub struct EstimateDocument {
    pub target: String,
    pub usage: String,
    pub gib_a_day: f64,
    /// Of the device, with the share that is never written.
    pub capacity_bytes: u64,
    /// What the usage model never writes, which serves as spare blocks.
    pub unwritten_bytes: u64,
    pub rated_cycles: u64,
    /// Rated erase cycles of the blocks of the pSLC area, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pslc_rated_cycles: Option<u64>,
    /// The share of its rated life that the device has used already.
    pub used_life: UsedLife,
    /// The years asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted_years: Option<f64>,
    pub setups: Vec<EstimatedSetup>,
    /// The setups that cannot be estimated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_estimated: Vec<UnestimatedSetup>,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct UnestimatedSetup {
    pub setup: String,
    pub reason: String,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct EstimatedSetup {
    #[serde(flatten)]
    pub estimate: SetupEstimate,
    /// The share of draws in which no limit is reached within the years asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent_beyond: Option<f64>,
    /// How many times as long as the first setup it lasts; absent for the first one, and for a
    /// device that is at its end with both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_first: Option<Interval>,
}

pub fn run(args: &WearEstimateArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let usage = usage::load(&args.usage, catalog)?;
    let choice = ModelChoice {
        target: &args.target,
        is_elsewhere: false,
        capacity: args.capacity,
        endurance: args.endurance,
        class: args.class.as_deref(),
        used_percent: args.used,
    };
    let target = target::modeled(&choice, &usage, catalog)?;
    // Before the first estimate, which takes seconds.
    let setups: Vec<(&String, Result<SetupTraces, CommandError>)> = (args.filesystems.iter())
        .map(|name| Ok((name, setup_traces::find_known(name, &usage, catalog)?)))
        .collect::<Result<_, CommandError>>()?;
    let request = EstimateRequest {
        model: &target.model,
        usage: &usage,
        uncertainty: target.uncertainty,
        used: target.used,
        seed: args.seed,
    };
    let mut found: Vec<EstimatedSetup> = Vec::new();
    let mut failed: Vec<(&String, CommandError)> = Vec::new();
    for (name, traces) in setups {
        let estimate = match traces.and_then(|traces| Ok(estimate(&request, &traces)?)) {
            Ok(estimate) => estimate,
            // What one setup cannot do may be possible with another.
            Err(error) if error.class() == ExitClass::Usage => {
                failed.push((name, error));
                continue;
            }
            Err(error) => return Err(error),
        };
        let first = found.first().filter(|_| args.compare);
        found.push(EstimatedSetup {
            percent_beyond: args.years.map(|years| estimate.percent_beyond(years)),
            ratio_to_first: first.and_then(|first| estimate.ratio_to(&first.estimate)),
            estimate,
        });
    }
    if found.is_empty() {
        return Err(CommandError::joined(failed.into_iter().map(|(_, error)| error)));
    }
    let not_estimated = failed.iter().map(|(setup, error)| UnestimatedSetup {
        setup: (*setup).clone(),
        reason: error.message().to_owned(),
    });
    let document = EstimateDocument {
        target: target.explanation,
        usage: usage.name.clone(),
        gib_a_day: usage.gib_a_day(),
        capacity_bytes: target.capacity.0,
        unwritten_bytes: target.capacity.0 - target.model.capacity.0,
        rated_cycles: target.model.nand.endurance_cycles,
        pslc_rated_cycles: target.model.nand.pslc.as_ref().map(|pslc| pslc.endurance_cycles),
        used_life: target.used,
        wanted_years: args.years,
        setups: found,
        not_estimated: not_estimated.collect(),
    };
    if args.json {
        output::json(document)
    } else {
        output::print(&estimate_text(&document, &usage, output::width()))
    }
}
