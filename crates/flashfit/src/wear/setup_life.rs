//! Estimates how long one setup of a run lasts.

use std::path::Path;

use flashfit_tune::RunLife;
use flashfit_tune::life::{EstimatedLife, UnknownLife};
use flashfit_wear::UsageModel;
use flashfit_wear::estimate::{EstimateError, EstimateRequest, estimate};

use crate::command_error::CommandError;
use crate::wear::setup_name::SetupName;
use crate::wear::setup_traces;
use crate::wear::target::ModeledTarget;

/// The seed of `wear estimate`, so that both print the same years.
const SEED: u64 = 1;

/// Adds the estimate of a setup, or why there is none.
pub fn add(
    life: &mut RunLife,
    setup: SetupName,
    target: &ModeledTarget,
    usage: &UsageModel,
    catalog: Option<&Path>,
) -> Result<(), CommandError> {
    let name = [std::slice::from_ref(&setup.filesystem), &setup.options[..]].concat().join(":");
    let request = EstimateRequest {
        model: &target.model,
        usage,
        uncertainty: target.uncertainty,
        used: target.used,
        seed: SEED,
    };
    let reason = match setup_traces::search(&name, &setup, usage, catalog)? {
        Err(missing) => missing.reason(&name),
        Ok(traces) => match estimate(&request, &traces) {
            Ok(found) => {
                let years = [found.years.low, found.years.median, found.years.high];
                life.setups.push(EstimatedLife {
                    filesystem: setup.filesystem,
                    options: setup.options,
                    years_thousandths: years.map(thousandths),
                    limit: found.limit.text().to_owned(),
                });
                return Ok(());
            }
            // Too much for one file system may be possible with another, and a small device can
            // be tuned without an estimate.
            Err(error @ (EstimateError::TooMuch { .. } | EstimateError::TooSmall { .. })) => {
                error.to_string()
            }
            Err(error) => return Err(error.into()),
        },
    };
    if setup.options.is_empty() {
        life.unknown.push(UnknownLife { filesystem: setup.filesystem, reason });
    }
    Ok(())
}

pub fn thousandths(value: f64) -> u64 {
    (value * 1000.0).round() as u64
}
