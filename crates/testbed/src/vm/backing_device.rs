//! What is behind a disk of a virtual machine: a simulated card that is served here over NBD, or a
//! device of this machine with leave to write to it; watched while trials are made inside.

use flashfit_card::{CardModel, Counters};
use flashfit_card_server::CardProcess;
use flashfit_device::{ConsentMethod, Device, DeviceKind, DeviceLock, SystemRoots, WriteConsent};
use flashfit_host::private_folder::PrivateFolder;
use flashfit_user_error::ExitClass;
use flashfit_vm::{Disk, DiskInterface};

use super::VmContext;
use crate::host::WriteGrant;
use crate::remote::HostMonitor;
use crate::{CardFacts, TestBedFacts, TrialError, TrialReport};

/// A disk of the machine, and what is behind it.
pub struct Attached {
    /// The disk.
    pub disk: Disk,
    /// What is behind it.
    pub behind: BackingDevice,
}

impl Attached {
    /// Takes what is to be behind a disk here.
    ///
    /// # Errors
    /// When the guard refuses, or the card cannot be served.
    pub fn new(
        means: &VmContext<'_>,
        leave: &WriteGrant,
        device: DiskInterface,
    ) -> Result<Attached, TrialError> {
        match leave {
            WriteGrant::Card { name, model } => card(means, name, model, device),
            WriteGrant::Named { shown, named } => medium(means, shown, named, device),
            WriteGrant::Attached { .. } => unreachable!("nobody attaches to a machine of ours"),
        }
    }
}

fn card(
    means: &VmContext<'_>,
    name: &str,
    model: &CardModel,
    device: DiskInterface,
) -> Result<Attached, TrialError> {
    let folder = PrivateFolder::new().map_err(no_folder)?;
    let socket = folder.join("card");
    let args = (means.card_args)(name, &socket);
    let process =
        CardProcess::start(&means.program, &args).map_err(|error| TrialError::stopped(&error))?;
    let disk = Disk {
        sector_bytes: model.sector_bytes,
        discard_bytes: model
            .discard
            .as_ref()
            .and_then(|discard| u32::try_from(discard.granularity.0).ok()),
        ..Disk::nbd(socket, device)
    };
    let facts = CardFacts {
        name: model.name.clone(),
        title: model.title.clone(),
        notes: process.notes().to_vec(),
        endurance_cycles: model.nand.endurance_cycles,
        model: Some(model.clone()),
    };
    let card = ServedCard { process, facts, before: None, _folder: folder };
    Ok(Attached { disk, behind: BackingDevice::Card(Box::new(card)) })
}

fn medium(
    means: &VmContext<'_>,
    shown: &Device,
    named: &str,
    device: DiskInterface,
) -> Result<Attached, TrialError> {
    let agreement = ConsentMethod::Named(named.to_owned());
    let consent = WriteConsent::ask(&SystemRoots::default(), means.runner, shown, &agreement)?;
    let sector_bytes =
        u32::try_from(shown.queue.logical_sector_bytes.max(512)).expect("a sector is small");
    // The machine opens what is held here, whatever its path names by then.
    let path = consent.path_for_programs();
    let held = DeviceLock::node(consent).map_err(|error| TrialError::stopped(&error))?;
    let disk = Disk { sector_bytes, ..Disk::file(path, false, device) };
    let behind = BackingDevice::Medium { shown: Box::new(shown.clone()), _held: Box::new(held) };
    Ok(Attached { disk, behind })
}

fn no_folder(error: std::io::Error) -> TrialError {
    TrialError::Stopped {
        message: format!("cannot make a temporary folder: {error}"),
        class: ExitClass::Environment,
        hint: Some(
            "make room in /tmp, or name another folder: TMPDIR=/var/tmp flashfit ...".into(),
        ),
    }
}

/// What is behind a disk.
pub enum BackingDevice {
    /// A simulated card.
    Card(Box<ServedCard>),
    /// The user's own device, locked as long as the machine has it.
    Medium { shown: Box<Device>, _held: Box<DeviceLock> },
}

/// A simulated card that is served here.
pub struct ServedCard {
    process: CardProcess,
    facts: CardFacts,
    before: Option<Counters>,
    _folder: PrivateFolder,
}

impl HostMonitor for BackingDevice {
    fn in_state(&mut self) {
        if let Self::Card(card) = self {
            card.before = card.process.counters().ok();
        }
    }

    fn ended(&mut self, report: &mut TrialReport) {
        let Self::Card(card) = self else { return };
        if let (Some(before), Ok(after)) = (card.before.take(), card.process.counters()) {
            report.counters = Some(after.since(&before));
        }
    }

    fn complete(&self, facts: &mut TestBedFacts) {
        match self {
            Self::Card(card) => {
                facts.card = Some(card.facts.clone());
                facts.medium.identity.serial = None;
            }
            Self::Medium { shown, .. } => {
                facts.medium.identity.clone_from(&shown.identity);
                facts.medium.kind = shown.kind;
                // Commands are told for the node here: the guest's name may be another disk's here.
                facts.medium.path.clone_from(&shown.path);
                facts.medium.disk.clone_from(&shown.disk);
                facts.medium.object = shown.object;
                facts.medium.backing = shown.backing;
            }
        }
        facts.medium.identity.disk_sequence = None;
    }

    fn lost(&self) -> Option<String> {
        match self {
            Self::Card(card) => card.process.counters().err().map(|error| error.to_string()),
            Self::Medium { .. } => None,
        }
    }

    fn cause(&self) -> Option<TrialError> {
        match self {
            Self::Medium { shown, .. } if shown.kind == DeviceKind::Image => {
                TrialError::without_room_below(&shown.path)
            }
            Self::Medium { .. } | Self::Card(_) => None,
        }
    }
}
