//! `flashfit tune --twin-first`: the measurements on the device, and their files.

use flashfit_device::{ConsentMethod, SystemRoots, WriteConsent};
use flashfit_host::SystemRunner;
use flashfit_probe::{ProbeDocument, ProbeRun};
use flashfit_target::InspectedTarget;
use flashfit_testbed::WriteGrant;
use flashfit_user_error::ExitClass;

use super::ProbeStage;
use super::limits::options;
use crate::command_error::CommandError;
use crate::output_file::{OutputFile, OutputKind};
use crate::probe::watch::ProbeProgress;

impl ProbeStage {
    /// Probes the device to which the user agreed, and writes what it found and measured.
    pub(super) fn probe(
        &self,
        target: &InspectedTarget,
        grant: &WriteGrant,
        runner: &SystemRunner,
        progress: &mut ProbeProgress,
    ) -> Result<(), CommandError> {
        let probe = ProbeRun::new(target, options(&self.device)?)?;
        // A file that cannot be written is found before the device is erased.
        if let Some(dir) = self.twin.parent() {
            std::fs::create_dir_all(dir).map_err(|error| {
                let message = format!("{}: {error}", dir.display());
                CommandError::new(ExitClass::Environment, message, None)
            })?;
        }
        OutputFile::check(&self.twin, OutputKind::CardModel, false)?;
        let measured = OutputFile::check(&self.measured, OutputKind::Measurements, false)?;
        let found = OutputFile::check(&self.document, OutputKind::Geometry, false)?;
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
            progress,
        )?;
        if let Some(failure) = outcome.failure {
            return Err(failure.into());
        }
        let document = ProbeDocument::new(probe.settings(), outcome.probed, false);
        if let Some(fault) = document.tested_capacity().fault() {
            return Err(fault.into());
        }
        // Before the fit, which may fail or be interrupted.
        found.write(&document.text())?;
        measured.write(&outcome.twin.text())
    }
}
