//! `flashfit tune --twin FILE`: the trials on a twin of the device, before those on the device.

mod check;

use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_host::{SystemRunner, path_text};
use flashfit_target::SIMULATED;
use flashfit_testbed::WriteGrant;
use flashfit_tune::run::RunPreparation;
use flashfit_tune::{Objective, RunSpec, StoredRun, TimeSpan, twin};
use flashfit_user_error::ExitClass;

use super::args::TuneArgs;
use super::repeat_command::RepeatCommand;
use super::twin_probe::ProbeStage;
use super::twin_run;
use crate::command_error::CommandError;
use crate::output::note;
use crate::rendering::reproduce::TWIN_DIR;
use crate::rendering::twin::{finished_text, plan_text};

const USUAL_TRIALS: u32 = 200;
const USUAL_TIME: TimeSpan = TimeSpan(30 * 60 * 1_000_000_000);
const USUAL_SPEED_MIPS: u32 = 1000;
/// The most machines at once.
const MAX_GUESTS: usize = 4;
/// The twin that was fitted after a probe, there too.
const FILE: &str = "twin.toml";

/// The run on the twin that precedes a run.
pub struct TwinStage {
    probe: Option<ProbeStage>,
    again: RepeatCommand,
    spec: RunSpec,
    dir: PathBuf,
    time: Duration,
    guests: usize,
}

impl TwinStage {
    /// `None` if no twin is named.
    pub fn of(args: &TuneArgs, spec: &RunSpec, dir: &Path) -> Result<Option<Self>, CommandError> {
        let own = dir.join(FILE);
        let Some(file) = args.twin.twin.as_ref().or(args.twin.twin_first.then_some(&own)) else {
            return Ok(None);
        };
        check::refuse_unusable(args, spec)?;
        let file = std::path::absolute(file).map_err(|error| {
            let message = format!("{}: {error}", file.display());
            CommandError::new(ExitClass::Usage, message, None)
        })?;
        let target = format!("{SIMULATED}{}", path_text::to_text(&file));
        // A file that is not a card is found before anything else is done.
        let is_there = !args.twin.twin_first || file.exists();
        if is_there {
            let catalog = spec.catalog_dir.as_deref();
            let model = flashfit_card::catalog::load(&path_text::to_text(&file), catalog)?;
            check::warn_of_another_device(&file, &model, spec);
        }
        let again = RepeatCommand::of(args, dir);
        let first = || ProbeStage::new(spec, dir, &file, again.clone());
        let probe = args.twin.twin_first.then(first);
        let speed_mips = args.twin.twin_speed_mips.unwrap_or(USUAL_SPEED_MIPS);
        let mut of_twin = twin::spec_of(spec, &target, speed_mips);
        of_twin.limits.trials = Some(args.twin.twin_trials.unwrap_or(USUAL_TRIALS));
        let usual = TimeSpan(spec.limits.budget_ns.map_or(USUAL_TIME.0, |ns| ns.min(USUAL_TIME.0)));
        let time = Duration::from_nanos(args.twin.twin_time.unwrap_or(usual).0);
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let guests = args.stand.vm_guests.map(|count| count as usize);
        let guests = guests.unwrap_or_else(|| processors().min(MAX_GUESTS));
        Ok(Some(Self { probe, again, spec: of_twin, dir: dir.join(TWIN_DIR), time, guests }))
    }

    /// What it will do, for the user to see before agreeing.
    pub fn plan(&self) -> String {
        let probe = self.probe.as_ref().and_then(ProbeStage::plan).map(|plan| plan + "\n");
        probe.unwrap_or_default() + &plan_text(&self.spec, self.time, self.guests)
    }

    /// Makes the trials on the twin, or the rest of them, and returns what they say. The virtual
    /// machine may have more file systems than the place of the device, where only `usable` ones
    /// can be tried.
    pub fn run(
        &mut self,
        args: &TuneArgs,
        grant: &WriteGrant,
        usable: &[String],
        runner: &SystemRunner,
    ) -> Result<RunPreparation, CommandError> {
        self.spec.filesystems.retain(|name| usable.contains(name));
        let found = self.probe.as_ref().map(|probe| probe.run(grant, runner)).transpose()?;
        // What the user says of the device counts more.
        let geometry = found.flatten().filter(|_| args.what.geometry.is_none());
        if let Some(geometry) = &geometry {
            self.spec.probed = geometry.clone().or(self.spec.probed.clone());
        }
        let earlier = match self.dir.join("run.json").exists() {
            true => Some(self.earlier()?),
            false => None,
        };
        // The report is written when it has ended.
        let is_finished = self.dir.join("report.html").exists();
        let trials = match earlier {
            Some(earlier) if is_finished => earlier.trials,
            earlier => {
                let how = (self.time, self.guests);
                let trials = twin_run::trials((&self.spec, &self.dir), how, args, runner, earlier);
                trials.map_err(|error| match error.class() {
                    ExitClass::Interrupted => error.with_hint(&format!(
                        "a finished probe and the trials on the twin are kept; to continue: {}",
                        self.again.text()
                    )),
                    _ => error,
                })?
            }
        };
        let prior = twin::prior_of(&trials, &Objective::of(&self.spec), &self.spec.target);
        note(&finished_text(&trials, prior.as_ref()));
        Ok(RunPreparation { prior, geometry })
    }

    fn earlier(&self) -> Result<StoredRun, CommandError> {
        let earlier = StoredRun::read(&self.dir)?;
        if earlier.header.spec == self.spec {
            return Ok(earlier);
        }
        let dir = self.dir.display();
        let message = format!("{dir} has a run on a twin with other choices");
        let hint = format!("repeat the command that began it, use another --dir, or remove {dir}");
        Err(CommandError::new(ExitClass::Usage, message, Some(&hint)))
    }
}
