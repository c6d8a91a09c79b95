//! The backing device of a virtual machine's disk: a simulated card served over NBD, or a device of
//! this machine. It is monitored while trials run in the machine, and the guard is asked again
//! before each of them. Limit: what happens to it on this machine during a trial is noticed after
//! the trial.

use flashfit_card::{CardModel, Counters};
use flashfit_card_client::CardProcess;
use flashfit_device::{ConsentMethod, Device, DeviceKind, DeviceLock, SystemRoots, WriteConsent};
use flashfit_host::SystemRunner;
use flashfit_host::private_folder::PrivateFolder;
use flashfit_user_error::{ExitClass, Hint, Task};
use flashfit_vm::{Disk, DiskInterface};

use super::VmContext;
use crate::host::WriteGrant;
use crate::remote::HostMonitor;
use crate::{CardFacts, TestBedFacts, TrialError, TrialReport};

/// A disk of the machine with its backing device.
pub struct Attached {
    pub disk: Disk,
    pub backing: BackingDevice,
}

impl Attached {
    /// Locks the device or starts the card's server.
    ///
    /// # Errors
    /// If the guard refuses, or the card cannot be served.
    pub fn new(
        context: &VmContext<'_>,
        grant: &WriteGrant,
        interface: DiskInterface,
    ) -> Result<Attached, TrialError> {
        match grant {
            WriteGrant::Card { name, model } => card(context, name, model, interface),
            WriteGrant::Named { device, name } => real_device(context, device, name, interface),
            WriteGrant::Attached { .. } => unreachable!("only agents receive attached disks"),
        }
    }
}

fn card(
    context: &VmContext<'_>,
    name: &str,
    model: &CardModel,
    interface: DiskInterface,
) -> Result<Attached, TrialError> {
    let folder = PrivateFolder::new().map_err(no_folder)?;
    let socket = folder.join("card");
    let args = (context.card_args)(name, &socket);
    let process =
        CardProcess::start(&context.program, &args).map_err(|error| TrialError::stopped(&error))?;
    let disk = Disk {
        sector_bytes: model.sector_bytes,
        discard_bytes: model
            .discard
            .as_ref()
            .and_then(|discard| u32::try_from(discard.granularity.0).ok()),
        ..Disk::nbd(socket, interface)
    };
    let facts = CardFacts {
        name: model.name.clone(),
        title: model.title.clone(),
        notes: process.notes().to_vec(),
        endurance_cycles: model.nand.endurance_cycles,
        model: Some(model.clone()),
    };
    let card = ServedCard { process, facts, before: None, _folder: folder };
    Ok(Attached { disk, backing: BackingDevice::Card(Box::new(card)) })
}

fn real_device(
    context: &VmContext<'_>,
    device: &Device,
    name: &str,
    interface: DiskInterface,
) -> Result<Attached, TrialError> {
    let consent_method = ConsentMethod::Named(name.to_owned());
    let consent =
        WriteConsent::ask(&SystemRoots::default(), context.runner, device, &consent_method)?;
    let sector_bytes =
        u32::try_from(device.queue.logical_sector_bytes.max(512)).expect("a sector is small");
    let shown = Box::new(device.clone());
    // QEMU opens the locked device through this descriptor, even if its path changes.
    let path = consent.path_for_programs();
    let lock = DeviceLock::node(consent).map_err(|error| TrialError::stopped(&error))?;
    let disk = Disk { sector_bytes, ..Disk::file(path, false, interface) };
    let medium = Medium { consent: lock.consent().clone(), device: shown, _held: lock };
    let backing = BackingDevice::Medium(Box::new(medium));
    Ok(Attached { disk, backing })
}

fn no_folder(error: std::io::Error) -> TrialError {
    TrialError::Stopped {
        message: format!("cannot create a temporary directory: {error}"),
        class: ExitClass::Environment,
        hint: Some(
            Hint::from("make room in /tmp, or use another directory: TMPDIR=/var/tmp ")
                .and(Task::Any),
        ),
    }
}

pub enum BackingDevice {
    Card(Box<ServedCard>),
    Medium(Box<Medium>),
}

/// A real device, locked while the machine uses it.
pub struct Medium {
    device: Box<Device>,
    /// For checks while QEMU has the device open, too.
    consent: WriteConsent,
    _held: DeviceLock,
}

impl BackingDevice {
    /// The process that has the device open for the machine does not count as another user.
    pub fn used_by(&mut self, process: u32) {
        if let Self::Medium(medium) = self {
            medium.consent = medium.consent.shared_with(process);
        }
    }
}

/// A simulated card served by a child process.
pub struct ServedCard {
    process: CardProcess,
    facts: CardFacts,
    before: Option<Counters>,
    _folder: PrivateFolder,
}

impl HostMonitor for BackingDevice {
    fn check(&self) -> Result<(), TrialError> {
        match self {
            Self::Card(_) => Ok(()),
            // QEMU does not claim it exclusively, so the check can, as before every other step.
            Self::Medium(medium) => Ok(medium.consent.check(&SystemRunner::default())?),
        }
    }

    fn on_initial_state(&mut self) {
        if let Self::Card(card) = self {
            card.before = card.process.counters().ok();
        }
    }

    fn on_trial_end(&mut self, report: &mut TrialReport) {
        let Self::Card(card) = self else { return };
        if let (Some(before), Ok(after)) = (card.before.take(), card.process.counters()) {
            report.counters = Some(after.since(&before));
        }
    }

    fn complete_facts(&self, facts: &mut TestBedFacts) {
        match self {
            Self::Card(card) => {
                facts.card = Some(card.facts.clone());
                facts.device.identity.serial = None;
            }
            Self::Medium(medium) => {
                let device = &medium.device;
                facts.device.identity.clone_from(&device.identity);
                facts.device.kind = device.kind;
                // Reports contain commands for this machine, so they need its device names.
                facts.device.path.clone_from(&device.path);
                facts.device.disk.clone_from(&device.disk);
                facts.device.object = device.object;
                facts.device.backing = device.backing;
                facts.device.backing_offset = device.backing_offset;
            }
        }
        facts.device.identity.disk_sequence = None;
    }

    fn loss_reason(&self) -> Option<String> {
        match self {
            Self::Card(card) => card.process.counters().err().map(|error| error.to_string()),
            // What is wrong with it is a cause of failures, not a loss.
            Self::Medium(_) => None,
        }
    }

    fn failure_cause(&self) -> Option<TrialError> {
        let Self::Medium(medium) = self else { return None };
        let is_image = medium.device.kind == DeviceKind::Image;
        let full = is_image.then(|| TrialError::disk_full_under(&medium.device.path)).flatten();
        full.or_else(|| self.check().err())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Child, Command, Stdio};

    use flashfit_device::Refusal;
    use flashfit_user_error::UserError;

    use super::*;

    /// An image that `user` has open, as QEMU has.
    struct Shared {
        _folder: tempfile::TempDir,
        backing: BackingDevice,
        user: Child,
    }

    impl Shared {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("card.img");
            sparse(&path);
            let runner = SystemRunner::default();
            let device = Device::from_image(&runner, &path).unwrap();
            let name = ConsentMethod::Named("card.img".to_owned());
            let system = SystemRoots::default();
            let consent = WriteConsent::ask(&system, &runner, &device, &name).unwrap();
            let held = DeviceLock::node(consent.clone()).unwrap();
            let medium = Medium { device: Box::new(device), consent, _held: held };
            let opened = std::fs::File::options().read(true).write(true).open(&path).unwrap();
            let mut sleeping = Command::new("sleep");
            let user = sleeping.arg("60").stdout(Stdio::from(opened)).spawn().unwrap();
            Self { _folder: folder, backing: BackingDevice::Medium(Box::new(medium)), user }
        }

        fn path(&self) -> std::path::PathBuf {
            let BackingDevice::Medium(medium) = &self.backing else { unreachable!("an image") };
            medium.device.path.clone()
        }
    }

    impl Drop for Shared {
        fn drop(&mut self) {
            let _ = self.user.kill();
            let _ = self.user.wait();
        }
    }

    fn sparse(path: &Path) {
        std::fs::File::create(path).unwrap().set_len(1 << 20).unwrap();
    }

    #[test]
    fn only_the_process_of_the_machine_may_have_the_image_open() {
        let mut shared = Shared::new();
        let refused = shared.backing.check().unwrap_err();
        assert!(matches!(refused, TrialError::Refused(Refusal::InUse { .. })), "{refused}");
        assert_eq!(refused.class(), ExitClass::Refused);
        shared.backing.used_by(shared.user.id());
        shared.backing.check().unwrap();
        assert!(shared.backing.failure_cause().is_none());
    }

    #[test]
    fn an_image_that_is_replaced_is_refused_before_the_next_trial() {
        let mut shared = Shared::new();
        shared.backing.used_by(shared.user.id());
        let path = shared.path();
        std::fs::rename(&path, path.with_extension("aside")).unwrap();
        sparse(&path);
        for refused in [shared.backing.check().err(), shared.backing.failure_cause()] {
            let is_changed = matches!(refused, Some(TrialError::Refused(Refusal::Changed { .. })));
            assert!(is_changed, "{refused:?}");
        }
    }
}
