//! `flashfit tune --twin-first`: the probe of the device, to which the twin is fitted.

mod limits;

use std::path::{Path, PathBuf};

use flashfit_check::Price;
use flashfit_device::{ConsentMethod, SystemRoots, WriteConsent};
use flashfit_geometry::Geometry;
use flashfit_host::SystemRunner;
use flashfit_probe::{ProbeDocument, ProbeRun, fit_twin};
use flashfit_target::InspectedTarget;
use flashfit_testbed::WriteGrant;
use flashfit_tune::RunSpec;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::output::note;
use crate::output_file::{OutputFile, OutputKind};
use crate::probe::watch::ProbeProgress;
use crate::probe::{result, saved};
use crate::rendering::price;
use limits::options;
pub use limits::reserve;

/// What it found, in the directory of the run.
const DOCUMENT: &str = "probe.json";

/// The probe, and the files of it in the directory of the run.
pub struct ProbeStage {
    device: RunSpec,
    twin: PathBuf,
    /// With the geometry.
    document: PathBuf,
    is_done: bool,
}

impl ProbeStage {
    /// The probe that precedes the run of `device` in `dir`. It is done once its twin is there.
    pub fn new(device: &RunSpec, dir: &Path, twin: &Path) -> Self {
        let (device, document) = (device.clone(), dir.join(DOCUMENT));
        Self { device, twin: twin.to_owned(), document, is_done: twin.exists() }
    }

    /// What it costs, before anybody agrees.
    pub fn plan(&self) -> Option<String> {
        let shown = || -> Result<String, CommandError> {
            let target = inspect(&self.device)?;
            let probe = ProbeRun::new(&target, options(&self.device)?)?;
            Ok(price::text(&Price::of_probe(&target, &probe.estimate()?)))
        };
        if self.is_done {
            return None;
        }
        // Who may not read the device yet sees the rest of the plan.
        let price = shown().unwrap_or_else(|error| format!("unknown: {}", error.message()));
        Some(format!(
            "first a probe that writes, and a twin fitted to it, and the layout to what it finds; \
             price of probing: {price}"
        ))
    }

    /// Makes it, unless it is done, and returns the geometry that it found.
    pub fn run(
        &self,
        grant: &WriteGrant,
        runner: &SystemRunner,
    ) -> Result<Option<Geometry>, CommandError> {
        let target = inspect(&self.device)?;
        if !self.is_done {
            self.probe(&target, grant, runner)?;
        }
        if !self.document.exists() {
            return Ok(None);
        }
        let mut notes = Vec::new();
        let found = saved::read(Some(&self.document), &target.planned(), &mut notes)?;
        notes.iter().for_each(|text| note(&format!("note: {text}")));
        Ok(Some(found))
    }

    /// Probes the device to which the user agreed, and writes what it found and its twin.
    fn probe(
        &self,
        target: &InspectedTarget,
        grant: &WriteGrant,
        runner: &SystemRunner,
    ) -> Result<(), CommandError> {
        let probe = ProbeRun::new(target, options(&self.device)?)?;
        // A file that cannot be written is found before the device is erased.
        if let Some(dir) = self.twin.parent() {
            std::fs::create_dir_all(dir).map_err(|error| {
                let message = format!("{}: {error}", dir.display());
                CommandError::new(ExitClass::Environment, message, None)
            })?;
        }
        let output = OutputFile::check(&self.twin, OutputKind::CardModel, false)?;
        let found = OutputFile::check(&self.document, OutputKind::Geometry, false)?;
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
        let mut document = ProbeDocument::new(probe.settings(), outcome.probed, false);
        if let Some(fake) = result::lacking(&document) {
            return Err(fake);
        }
        let fitted = fit_twin(&outcome.twin, &self.device.target, &self.twin, &mut progress);
        progress.finish();
        let (twin, text) = fitted?;
        let median_error = twin.median_error_thousandths as f64 / 1000.0;
        document.twin = Some(twin);
        found.write(&document.text())?;
        output.write(&text)?;
        note(&format!(
            "the twin is in {}; its rates and the measured ones differ by a factor of \
             {median_error:.2} in the median",
            self.twin.display()
        ));
        Ok(())
    }
}

fn inspect(spec: &RunSpec) -> Result<InspectedTarget, CommandError> {
    let catalog = spec.catalog_dir.as_deref();
    Ok(InspectedTarget::inspect(&spec.target, &SystemRunner::default(), catalog)?)
}
