//! `flashfit tune --twin-first`: the probe of the device, to which the twin is fitted.

use std::path::Path;

use flashfit_device::{Bytes, ConsentMethod, SystemRoots, WriteConsent};
use flashfit_host::SystemRunner;
use flashfit_probe::{ProbeRun, ProbeRunOptions, fit_twin};
use flashfit_target::InspectedTarget;
use flashfit_testbed::WriteGrant;
use flashfit_tune::RunSpec;
use flashfit_twin::pattern::file::PatternSet;
use flashfit_user_error::ExitClass;

use super::args::TuneArgs;
use crate::command_error::CommandError;
use crate::output::note;
use crate::output_file::{OutputFile, OutputKind};
use crate::probe::watch::ProbeProgress;
use crate::rendering::price::Price;

/// The longest time of the probe.
const MAX_TIME_NS: u64 = 10 * 60 * 1_000_000_000;
/// The part of what a run may write that is left for the probe.
const SHARE_OF_WRITES: u64 = 2;

/// Keeps a part of what a run may write for the probe before it.
pub fn reserve(args: &TuneArgs, spec: &mut RunSpec) {
    if args.twin.twin_first {
        let most = &mut spec.limits.max_write_bytes;
        *most = most.map(|most| most - most / SHARE_OF_WRITES);
    }
}

/// The probe that precedes the run of `spec`, whose limit leaves as much for it.
fn options(spec: &RunSpec) -> Result<ProbeRunOptions, CommandError> {
    Ok(ProbeRunOptions {
        name: spec.target.clone(),
        write: true,
        region: None,
        max_write: spec.limits.max_write_bytes.map(Bytes),
        max_read_ns: None,
        max_time_ns: Some(MAX_TIME_NS),
        twin: Some(PatternSet::load(spec.catalog_dir.as_deref())?),
        seed: spec.seed,
        expected: None,
    })
}

/// What the probe costs, before anybody agrees.
pub fn plan(spec: &RunSpec) -> String {
    let price = || -> Result<String, CommandError> {
        let target = inspect(spec)?;
        let probe = ProbeRun::new(&target, options(spec)?)?;
        Ok(Price::of_probe(&target, &probe.estimate()?).text())
    };
    // Who may not read the device yet sees the rest of the plan.
    let price = price().unwrap_or_else(|error| format!("unknown: {}", error.message()));
    format!("first a probe that writes, and a twin fitted to it; price of probing: {price}")
}

fn inspect(spec: &RunSpec) -> Result<InspectedTarget, CommandError> {
    let catalog = spec.catalog_dir.as_deref();
    Ok(InspectedTarget::inspect(&spec.target, &SystemRunner::default(), catalog)?)
}

/// Probes the device to which the user agreed, and writes its twin to `file`.
pub fn run(
    spec: &RunSpec,
    file: &Path,
    grant: &WriteGrant,
    runner: &SystemRunner,
) -> Result<(), CommandError> {
    let target = inspect(spec)?;
    let probe = ProbeRun::new(&target, options(spec)?)?;
    // A file that cannot be written is found before the device is erased.
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).map_err(|error| {
            let message = format!("{}: {error}", dir.display());
            CommandError::new(ExitClass::Environment, message, None)
        })?;
    }
    let output = OutputFile::check(file, OutputKind::CardModel, false)?;
    let mut progress = ProbeProgress::new(runner.interrupt().clone());
    let outcome = probe.run(
        &mut |shown, _| {
            // The device that the user saw, not what has its name now.
            let (device, given) = match grant {
                WriteGrant::Named { device, name } => {
                    (device.as_ref(), ConsentMethod::Named(name.clone()))
                }
                WriteGrant::Attached { .. } | WriteGrant::Card { .. } => {
                    (shown, ConsentMethod::NotAsked)
                }
            };
            WriteConsent::ask(&SystemRoots::default(), runner, device, &given)
        },
        &mut progress,
    );
    progress.finish();
    let outcome = outcome?;
    if let Some(failure) = outcome.failure {
        return Err(failure.into());
    }
    let fitted = fit_twin(&outcome.twin, &spec.target, file, &mut progress);
    progress.finish();
    let (twin, text) = fitted?;
    output.write(&text)?;
    note(&format!(
        "the twin is in {}; its rates and the measured ones differ by a factor of {:.2} in the \
         median",
        file.display(),
        twin.median_error_thousandths as f64 / 1000.0
    ));
    Ok(())
}
