//! What the user sees of a run and is asked for.

mod agreed;

use std::rc::Rc;

use flashfit_device::{ConsentMethod, Device};
use flashfit_host::SystemRunner;
use flashfit_probe::SavedProbe;
use flashfit_target::InspectedTarget;
use flashfit_testbed::{TrialError, WriteGrant};
use flashfit_tune::Observer;
use flashfit_tune::run::{RunError, RunEvent, RunPreparation, RunRequest, RunUi};

use super::announce;
use super::args::TuneArgs;
use super::geometry;
use super::heartbeat::Heartbeat;
use super::progress::TuneProgress;
use super::twin_stage::TwinStage;
use super::wear_so_far::WearMeter;
use crate::command_error::CommandError;
use crate::consent;
use crate::output::{note, warn};
use agreed::Agreed;

pub struct TuneUi<'a> {
    args: &'a TuneArgs,
    request: RunRequest<'a>,
    /// What is done before the first trial, with the programs of this machine.
    twin: Option<(TwinStage, &'a SystemRunner)>,
    agreed: Agreed,
    /// Where the run is watched by a program.
    heartbeat: Option<Rc<Heartbeat>>,
    wear: WearMeter,
    /// The document of the geometry, if that must be compared with the devices.
    probe: Option<&'a SavedProbe>,
    /// Once trials begin.
    progress: Option<TuneProgress>,
}

impl<'a> TuneUi<'a> {
    pub fn new(
        args: &'a TuneArgs,
        request: RunRequest<'a>,
        twin: Option<(TwinStage, &'a SystemRunner)>,
        heartbeat: Option<Rc<Heartbeat>>,
    ) -> Result<Self, CommandError> {
        let agreed = Agreed::of(args, &request.spec.on)?;
        // A dry run says nothing else before its preview.
        if let (true, Some((twin, _))) = (args.dry_run, &twin) {
            note(&twin.plan());
        }
        let wear = WearMeter::default();
        Ok(Self { args, request, twin, agreed, heartbeat, wear, probe: None, progress: None })
    }

    pub fn with_geometry(self, probe: Option<&'a SavedProbe>) -> Self {
        Self { probe, ..self }
    }
}

impl RunUi for TuneUi<'_> {
    fn observer(&mut self) -> &mut dyn Observer {
        let args = self.args;
        self.progress.get_or_insert_with(|| {
            let watched = self.heartbeat.clone();
            TuneProgress::new(args.progress, 0, watched, self.wear.clone())
        })
    }

    fn event(&mut self, event: RunEvent<'_>) {
        match event {
            RunEvent::Target { board, target } => {
                board.iter().for_each(|name| note(&format!("{name}:")));
                self.wear.add_device(&target.inspected);
                announce::geometry(target);
                announce::forecast(self.request, target);
                self.twin.iter().for_each(|(twin, _)| note(&twin.plan()));
            }
            RunEvent::Probed(target) => announce::geometry(target),
            RunEvent::SpreadOver(boards) => {
                note(&format!("spread over {}; shown for the first", boards.join(", ")));
            }
            RunEvent::BoardLeftOut(reason) => note(&format!("left out: {reason}")),
            RunEvent::LeftOut(text) => note(&format!("note: {text}")),
            RunEvent::Warning(text) => warn(text),
            RunEvent::Began { problem, made } => {
                announce::run(self.request, problem, made);
                let heartbeat = self.heartbeat.clone();
                let wear = self.wear.clone();
                self.progress = Some(TuneProgress::new(self.args.progress, made, heartbeat, wear));
            }
            RunEvent::Ended => self.progress.iter_mut().for_each(TuneProgress::finish),
        }
    }

    fn check_device(
        &mut self,
        board: Option<&str>,
        device: &InspectedTarget,
    ) -> Result<(), RunError> {
        let Some(probe) = self.probe else { return Ok(()) };
        let checked = geometry::check(probe, board, device, &self.request.spec.on);
        Ok(checked.map_err(CommandError::into_trial_error)?)
    }

    fn agree(
        &mut self,
        board: Option<&str>,
        device: &Device,
        guard: &mut dyn FnMut(&ConsentMethod) -> Result<(), TrialError>,
    ) -> Result<String, TrialError> {
        consent::agreed(device, self.agreed.name(board), guard)
    }

    fn prepare(
        &mut self,
        grant: &WriteGrant,
        usable: &[String],
    ) -> Result<RunPreparation, RunError> {
        let Some((twin, runner)) = &mut self.twin else { return Ok(RunPreparation::default()) };
        Ok(twin.run(self.args, grant, usable, runner).map_err(CommandError::into_trial_error)?)
    }
}
