//! The backing device of a virtual machine's disk: a simulated card served over NBD, or a device of
//! this machine. It is monitored while trials run in the machine.

use flashfit_card::{CardModel, Counters};
use flashfit_card_client::CardProcess;
use flashfit_device::{ConsentMethod, Device, DeviceKind, DeviceLock, SystemRoots, WriteConsent};
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
    // QEMU opens the locked device through this descriptor, even if its path changes.
    let path = consent.path_for_programs();
    let lock = DeviceLock::node(consent).map_err(|error| TrialError::stopped(&error))?;
    let disk = Disk { sector_bytes, ..Disk::file(path, false, interface) };
    let backing = BackingDevice::Medium { device: Box::new(device.clone()), _held: Box::new(lock) };
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
    /// A real device, locked while the machine uses it.
    Medium {
        device: Box<Device>,
        _held: Box<DeviceLock>,
    },
}

/// A simulated card served by a child process.
pub struct ServedCard {
    process: CardProcess,
    facts: CardFacts,
    before: Option<Counters>,
    _folder: PrivateFolder,
}

impl HostMonitor for BackingDevice {
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
            Self::Medium { device, .. } => {
                facts.device.identity.clone_from(&device.identity);
                facts.device.kind = device.kind;
                // Reports contain commands for this machine, so they need its device names.
                facts.device.path.clone_from(&device.path);
                facts.device.disk.clone_from(&device.disk);
                facts.device.object = device.object;
                facts.device.backing = device.backing;
            }
        }
        facts.device.identity.disk_sequence = None;
    }

    fn loss_reason(&self) -> Option<String> {
        match self {
            Self::Card(card) => card.process.counters().err().map(|error| error.to_string()),
            Self::Medium { .. } => None,
        }
    }

    fn failure_cause(&self) -> Option<TrialError> {
        match self {
            Self::Medium { device, .. } if device.kind == DeviceKind::Image => {
                TrialError::disk_full_under(&device.path)
            }
            Self::Medium { .. } | Self::Card(_) => None,
        }
    }
}
