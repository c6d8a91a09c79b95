//! This machine as a host for trials. The agent uses it too.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_card::CardModel;
use flashfit_device::{
    ConsentMethod, Device, DeviceKind, Refusal, SystemRoots, Target, WriteConsent, list,
};
use flashfit_filesystem::{Conditions, FileSystemCatalog};
use flashfit_host::private_folder::PrivateFolder;
use flashfit_host::processor::page_bytes;
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

/// Enough to write all of a large and slow card.
const PROBE_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Returns the arguments that serve the card of that name.
pub type CardCommandLine = Box<dyn Fn(&str) -> Vec<OsString> + Send>;

/// The program that serves simulated cards.
pub struct CardProgram {
    pub program: PathBuf,
    pub args: CardCommandLine,
    /// Arguments that name the user's catalog, if there is one.
    pub catalog_args: Vec<OsString>,
}

pub struct LocalHost<'a> {
    runner: &'a SystemRunner,
    catalog: &'a FileSystemCatalog,
    cards: CardProgram,
    mount_dir: PathBuf,
    /// For job files and results; not on the device.
    scratch_dir: PathBuf,
    on_initial_state: Option<Box<dyn Fn() + Send + 'a>>,
}

impl<'a> LocalHost<'a> {
    /// `mount_dir` and `scratch_dir` are only needed while trials run.
    pub fn new(
        runner: &'a SystemRunner,
        catalog: &'a FileSystemCatalog,
        cards: CardProgram,
        mount_dir: &Path,
        scratch_dir: &Path,
    ) -> Self {
        let (mount_dir, scratch_dir) = (mount_dir.to_owned(), scratch_dir.to_owned());
        Self { runner, catalog, cards, mount_dir, scratch_dir, on_initial_state: None }
    }

    /// Calls `call` in each trial after the initial state is reached, before the workload starts.
    #[must_use]
    pub fn on_initial_state(self, call: impl Fn() + Send + 'a) -> Self {
        Self { on_initial_state: Some(Box::new(call)), ..self }
    }

    fn backing(&self, grant: &WriteGrant) -> Result<WritableBlockDevice, TrialError> {
        let system = SystemRoots::default();
        let consent = match grant {
            WriteGrant::Card { name, model } => return self.card(&system, name, model),
            WriteGrant::Named { device, name } => WriteConsent::ask(
                &system,
                self.runner,
                device,
                &ConsentMethod::Named(name.clone()),
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
    fn describe(&mut self, requirements: &Requirements) -> Result<Capabilities, TrialError> {
        let has = |name: &&String| find(name).is_some();
        Ok(Capabilities {
            kernel: kernel::release(),
            machine: std::env::consts::ARCH.to_owned(),
            lacks_devices: capability::missing_for_block_devices(),
            lacks_cards: capability::missing_for_simulated_cards(),
            programs: requirements.programs.iter().filter(has).cloned().collect(),
            kinds: requirements.kinds.iter().filter(|kind| kernel::has(kind)).cloned().collect(),
            page_bytes: page_bytes(),
            devices: list::devices(&SystemRoots::default()),
        })
    }

    fn inspect(&mut self, target: &str) -> Result<Device, TrialError> {
        let stopped = |error: &dyn UserError| TrialError::stopped(error);
        let found = match Target::parse(target).map_err(|error| stopped(&error))? {
            Target::Image(path) => Device::from_image(self.runner, &path),
            Target::Node(path) => Device::from_node(&SystemRoots::default(), self.runner, &path),
            Target::Simulated(name) => unreachable!("sim:{name} is looked up in the catalog"),
        };
        found.map_err(|error| stopped(&error))
    }

    fn check_consent(
        &mut self,
        device: &Device,
        consent_method: &ConsentMethod,
    ) -> Result<(), TrialError> {
        match WriteConsent::ask(&SystemRoots::default(), self.runner, device, consent_method) {
            Ok(_) => Ok(()),
            Err(refusal @ Refusal::NotConfirmed { .. }) => {
                Err(TrialError::NotAgreed { message: refusal.to_string(), hint: refusal.hint() })
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    fn option_findings(
        &mut self,
        filesystem: &str,
        conditions: &Conditions,
        rotational: Option<bool>,
    ) -> Result<OptionFindings, TrialError> {
        let filesystem =
            self.catalog.filesystem(filesystem).map_err(|error| TrialError::stopped(&error))?;
        let (context, cache) = (OptionProbeTools::take().rotational(rotational), Cache::of_user());
        find_out(self.runner, filesystem, conditions, &context, &cache, false)
            .map(|found| found.findings)
            .map_err(|error| TrialError::stopped(&error))
    }

    fn probe(&mut self, request: &ProbeRequest) -> Result<ProbeResult, TrialError> {
        let folder = PrivateFolder::new().map_err(|error| TrialError::Stopped {
            message: format!("cannot create a temporary directory: {error}"),
            class: ExitClass::Environment,
            hint: None,
        })?;
        let paths: BTreeMap<&String, PathBuf> = (request.files.iter().zip(0..))
            .map(|(name, number)| (name, folder.join(&number.to_string())))
            .collect();
        let args = request.args.iter().map(|arg| match paths.get(arg) {
            Some(path) => path.clone().into_os_string(),
            None => arg.into(),
        });
        let program = Program::new(self.cards.program.display().to_string())
            .arg("probe")
            .args(args.collect::<Vec<_>>())
            .args(&self.cards.catalog_args)
            .timeout(PROBE_TIMEOUT);
        let outcome = self.runner.run(&program).map_err(|error| TrialError::stopped(&error))?;
        let read = |(name, path): (&String, PathBuf)| {
            Some((name.clone(), std::fs::read_to_string(path).ok()?))
        };
        Ok(ProbeResult {
            code: outcome.code,
            stdout: outcome.stdout,
            stderr: outcome.stderr,
            files: paths.into_iter().filter_map(read).collect(),
        })
    }

    fn open<'b>(&'b mut self, request: &OpenRequest) -> Result<Box<dyn TestBed + 'b>, TrialError> {
        mount::enter_private_namespace().map_err(|error| TrialError::stopped(&error))?;
        let backing = self.backing(&request.grant)?;
        let options = LocalTestBedOptions {
            mount_dir: request.mount_dir.clone().unwrap_or_else(|| self.mount_dir.clone()),
            scratch_dir: self.scratch_dir.clone(),
            geometry_override: request.geometry_override.clone(),
            layout: request.layout.clone(),
            memory_bytes: request.memory_bytes,
        };
        let here = LocalTestBed::new(self.runner, self.catalog, backing, options)?;
        Ok(Box::new(match &self.on_initial_state {
            Some(call) => here.on_initial_state(call.as_ref()),
            None => here,
        }))
    }
}
