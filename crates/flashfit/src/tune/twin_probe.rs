//! `flashfit tune --twin-first`: the probe of the device, to which the twin is fitted.

mod fit;
mod limits;
mod measure;

use std::path::{Path, PathBuf};

use flashfit_check::Price;
use flashfit_geometry::Geometry;
use flashfit_host::SystemRunner;
use flashfit_host::program::quote_path;
use flashfit_probe::ProbeRun;
use flashfit_target::InspectedTarget;
use flashfit_testbed::WriteGrant;
use flashfit_tune::RunSpec;
use flashfit_user_error::ExitClass;

use super::repeat_command::RepeatCommand;
use crate::command_error::CommandError;
use crate::output::note;
use crate::probe::saved;
use crate::probe::watch::ProbeProgress;
use crate::rendering::price;
use fit::TwinFiles;
use limits::options;
pub use limits::reserve;

/// What it found, in the directory of the run.
const DOCUMENT: &str = "probe.json";
/// What it measured for the twin, until that is fitted.
const MEASURED: &str = "twin-measurements.json";

/// The probe, and the files of it in the directory of the run.
pub struct ProbeStage {
    device: RunSpec,
    twin: PathBuf,
    /// With the geometry.
    document: PathBuf,
    measured: PathBuf,
    is_done: bool,
    again: RepeatCommand,
}

impl ProbeStage {
    /// The probe that precedes the run of `device` in `dir`. It is done once its twin is there.
    pub fn new(device: &RunSpec, dir: &Path, twin: &Path, again: RepeatCommand) -> Self {
        let (document, measured) = (dir.join(DOCUMENT), dir.join(MEASURED));
        let (device, twin, is_done) = (device.clone(), twin.to_owned(), twin.exists());
        Self { device, twin, document, measured, is_done, again }
    }

    /// Whether only the twin is left to be fitted.
    fn is_measured(&self) -> bool {
        self.document.exists() && self.measured.exists()
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
        if self.is_measured() {
            let document = self.document.display();
            let doubt = self.doubt().map_or_else(String::new, |doubt| format!("; {doubt}"));
            return Some(format!("first a twin fitted to the earlier probe of {document}{doubt}"));
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
        let mut progress = ProbeProgress::new(runner.interrupt().clone()).without_questions();
        if !self.is_done && !self.is_measured() {
            let probed = self.probe(&target, grant, runner, &mut progress);
            progress.finish();
            probed.map_err(|error| self.interrupted(error))?;
        }
        if !self.document.exists() {
            return Ok(None);
        }
        let mut notes = Vec::new();
        let (found, _) = saved::read_with_doubt(&self.document, &target.planned(), &mut notes)
            .map_err(|error| error.with_hint(&self.removal()))?;
        notes.iter().for_each(|text| note(&format!("note: {text}")));
        if !self.is_done {
            let Self { document, measured, twin, .. } = self;
            let files = TwinFiles { document, measured, twin };
            fit::fit(files, &self.device.target, &self.again, &mut progress)?;
        }
        Ok(Some(found))
    }

    /// Why the earlier probe may be that of another device, before anybody agrees to use it.
    fn doubt(&self) -> Option<String> {
        let target = inspect(&self.device).ok()?;
        let read = saved::read_with_doubt(&self.document, &target.planned(), &mut Vec::new());
        let reason = match read {
            Ok((_, doubt)) => doubt?.reason,
            Err(error) => error.message().to_owned(),
        };
        Some(format!("{reason}; {}", self.removal()))
    }

    /// How the device is measured again.
    fn removal(&self) -> String {
        let [document, measured] = [&self.document, &self.measured].map(|path| quote_path(path));
        format!("to measure again: rm {document} {measured}")
    }

    /// Says of an interrupted probe that it begins again.
    fn interrupted(&self, error: CommandError) -> CommandError {
        match error.class() {
            ExitClass::Interrupted => error.with_hint(&format!(
                "nothing of an unfinished probe is kept; to probe again: {}",
                self.again.text()
            )),
            _ => error,
        }
    }
}

fn inspect(spec: &RunSpec) -> Result<InspectedTarget, CommandError> {
    let catalog = spec.catalog_dir.as_deref();
    Ok(InspectedTarget::inspect(&spec.target, &SystemRunner::default(), catalog)?)
}
