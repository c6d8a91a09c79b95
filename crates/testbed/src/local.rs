//! This machine as a place for trials. The agent answers with it too, on the machine where it runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_card::CardModel;
use flashfit_device::{
    ConsentMethod, Device, DeviceKind, Refusal, SystemRoots, Target, WriteConsent, list,
};
use flashfit_filesystem::{Conditions, FileSystemCatalog};
use flashfit_host::private_folder::PrivateFolder;
use flashfit_host::program::find;
use flashfit_host::{Program, Runner, SystemRunner, capability, mount};
use flashfit_option_probe::{Cache, OptionFindings, OptionProbeTools, find_out, kernel};
use flashfit_user_error::{ExitClass, UserError};

use crate::host::{
    Capabilities, Host, OpenRequest, ProbeRequest, ProbeResult, Requirements, WriteGrant,
};
use crate::local_test_bed::{LocalTestBed, LocalTestBedOptions};
use crate::writable_device::WritableBlockDevice;

use crate::{TestBed, TrialError};

/// A large and slow card that is written all over.
pub(crate) const LONGEST_PROBE: Duration = Duration::from_secs(24 * 3600);

/// Makes the arguments that serve the card of that name.
pub type CardCommandLine = Box<dyn Fn(&str) -> Vec<String> + Send>;

/// The program that serves a simulated card, and the arguments that make it serve one.
pub struct CardProgram {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: CardCommandLine,
}

/// This machine.
pub struct LocalHost<'a> {
    runner: &'a SystemRunner,
    catalogue: &'a FileSystemCatalog,
    cards: CardProgram,
    /// Where file systems are mounted, unless the user said where.
    mount_dir: PathBuf,
    /// Where job files and results are put meanwhile; not on the device.
    scratch_dir: PathBuf,
    on_state: Option<Box<dyn Fn() + 'a>>,
}

impl<'a> LocalHost<'a> {
    /// With folders for what is only needed while trials are made.
    pub fn new(
        runner: &'a SystemRunner,
        catalogue: &'a FileSystemCatalog,
        cards: CardProgram,
        mount_dir: &Path,
        scratch_dir: &Path,
    ) -> Self {
        let (mount_dir, scratch_dir) = (mount_dir.to_owned(), scratch_dir.to_owned());
        Self { runner, catalogue, cards, mount_dir, scratch_dir, on_state: None }
    }

    /// Calls this in each trial when the file system is in the state in which the workload begins.
    #[must_use]
    pub fn on_state(self, call: impl Fn() + 'a) -> Self {
        Self { on_state: Some(Box::new(call)), ..self }
    }

    fn backing(&self, leave: &WriteGrant) -> Result<WritableBlockDevice, TrialError> {
        let system = SystemRoots::default();
        let consent = match leave {
            WriteGrant::Card { name, model } => return self.card(&system, name, model),
            WriteGrant::Named { shown, named } => WriteConsent::ask(
                &system,
                self.runner,
                shown,
                &ConsentMethod::Named(named.clone()),
            )?,
            WriteGrant::Attached { serial, capacity } => {
                WriteConsent::for_attached_disk(&system, self.runner, serial, *capacity)?
            }
        };
        let backing = match consent.device().kind {
            DeviceKind::Image => WritableBlockDevice::image(self.runner, &consent),
            _ => WritableBlockDevice::node(consent),
        };
        Ok(backing?)
    }

    fn card(
        &self,
        system: &SystemRoots,
        name: &str,
        model: &CardModel,
    ) -> Result<WritableBlockDevice, TrialError> {
        let args = (self.cards.args)(name);
        Ok(WritableBlockDevice::card(system, self.runner, model, &self.cards.program, &args)?)
    }
}

impl Host for LocalHost<'_> {
    fn describe(&mut self, wanted: &Requirements) -> Result<Capabilities, TrialError> {
        let has = |name: &&String| find(name).is_some();
        Ok(Capabilities {
            kernel: kernel::release(),
            machine: std::env::consts::ARCH.to_owned(),
            lacks_devices: capability::missing_for_block_devices(),
            lacks_cards: capability::missing_for_simulated_cards(),
            programs: wanted.programs.iter().filter(has).cloned().collect(),
            kinds: wanted.kinds.iter().filter(|kind| kernel::has(kind)).cloned().collect(),
            media: list::devices(&SystemRoots::default()),
        })
    }

    fn look(&mut self, target: &str) -> Result<Device, TrialError> {
        let stopped = |error: &dyn UserError| TrialError::stopped(error);
        let found = match Target::parse(target).map_err(|error| stopped(&error))? {
            Target::Image(path) => Device::from_image(self.runner, &path),
            Target::Node(path) => Device::from_node(&SystemRoots::default(), self.runner, &path),
            Target::Simulated(name) => unreachable!("sim:{name} is looked up in the catalogue"),
        };
        found.map_err(|error| stopped(&error))
    }

    fn ask(&mut self, shown: &Device, agreement: &ConsentMethod) -> Result<(), TrialError> {
        match WriteConsent::ask(&SystemRoots::default(), self.runner, shown, agreement) {
            Ok(_) => Ok(()),
            Err(refusal @ Refusal::NotConfirmed { .. }) => {
                Err(TrialError::NotAgreed { message: refusal.to_string(), hint: refusal.hint() })
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    fn findings(
        &mut self,
        filesystem: &str,
        conditions: &Conditions,
        rotational: Option<bool>,
    ) -> Result<OptionFindings, TrialError> {
        let filesystem =
            self.catalogue.filesystem(filesystem).map_err(|error| TrialError::stopped(&error))?;
        let (means, cache) = (OptionProbeTools::take().rotational(rotational), Cache::of_user());
        find_out(self.runner, filesystem, conditions, &means, &cache, false)
            .map(|found| found.findings)
            .map_err(|error| TrialError::stopped(&error))
    }

    fn probe(&mut self, wanted: &ProbeRequest) -> Result<ProbeResult, TrialError> {
        let folder = PrivateFolder::new().map_err(|error| TrialError::Stopped {
            message: format!("cannot make a temporary folder: {error}"),
            class: ExitClass::Environment,
            hint: None,
        })?;
        let places: BTreeMap<&String, PathBuf> = (wanted.files.iter().zip(0..))
            .map(|(name, number)| (name, folder.join(&number.to_string())))
            .collect();
        let args = wanted.args.iter().map(|arg| match places.get(arg) {
            Some(path) => path.display().to_string(),
            None => arg.clone(),
        });
        let program = Program::new(self.cards.program.display().to_string())
            .arg("probe")
            .args(args.collect::<Vec<_>>())
            .timeout(LONGEST_PROBE);
        let outcome = self.runner.run(&program).map_err(|error| TrialError::stopped(&error))?;
        let read = |(name, path): (&String, PathBuf)| {
            Some((name.clone(), std::fs::read_to_string(path).ok()?))
        };
        Ok(ProbeResult {
            code: outcome.code,
            stdout: outcome.stdout,
            stderr: outcome.stderr,
            files: places.into_iter().filter_map(read).collect(),
        })
    }

    fn open<'b>(&'b mut self, opening: &OpenRequest) -> Result<Box<dyn TestBed + 'b>, TrialError> {
        mount::enter_private_namespace().map_err(|error| TrialError::stopped(&error))?;
        let backing = self.backing(&opening.leave)?;
        let options = LocalTestBedOptions {
            mount_dir: opening.mount_dir.clone().unwrap_or_else(|| self.mount_dir.clone()),
            scratch_dir: self.scratch_dir.clone(),
            given: opening.given.clone(),
            layout: opening.layout.clone(),
            memory_bytes: opening.memory_bytes,
        };
        let here = LocalTestBed::new(self.runner, self.catalogue, backing, options)?;
        Ok(Box::new(match &self.on_state {
            Some(call) => here.on_state(call.as_ref()),
            None => here,
        }))
    }
}
