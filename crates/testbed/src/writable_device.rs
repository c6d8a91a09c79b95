//! The block device behind a target: the user's own, a loop device over an image, or a simulated
//! card. Whatever was attached for it is detached when the value goes.

use std::path::{Path, PathBuf};

use flashfit_card::CardModel;
use flashfit_card_server::{CardProcess, ProcessError};
use flashfit_device::{
    Bytes, Device, DeviceLock, DeviceLockError, Refusal, SystemRoots, WriteConsent,
};
use flashfit_geometry::{Geometry, QuantitySource, Sourced};
use flashfit_host::Runner;
use flashfit_user_error::{ExitClass, UserError};

use crate::facts::CardFacts;

/// Why there is no device.
#[derive(Debug, thiserror::Error)]
pub enum WritableBlockDeviceError {
    /// The guard refuses.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It cannot be taken.
    #[error(transparent)]
    Held(#[from] DeviceLockError),
    /// No simulated card.
    #[error(transparent)]
    Card(#[from] ProcessError),
}

impl UserError for WritableBlockDeviceError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Refused(error) => error.class(),
            Self::Held(error) => error.class(),
            Self::Card(error) => error.class(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(error) => error.hint(),
            Self::Held(error) => error.hint(),
            Self::Card(error) => error.hint(),
        }
    }
}

#[derive(Debug)]
enum Attached {
    Medium { held: Box<DeviceLock> },
    Card { process: CardProcess, facts: Box<CardFacts> },
}

/// A block device that may be written to.
#[derive(Debug)]
pub struct WritableBlockDevice {
    consent: WriteConsent,
    geometry: Geometry,
    attached: Attached,
}

impl WritableBlockDevice {
    /// The user's own device, held until the value goes.
    ///
    /// # Errors
    /// When it cannot be opened, or another process has locked it.
    pub fn node(consent: WriteConsent) -> Result<Self, WritableBlockDeviceError> {
        Ok(Self::held(DeviceLock::node(consent)?))
    }

    /// A loop device over the consented image.
    ///
    /// # Errors
    /// When it cannot be attached or is used by someone else.
    pub fn image(
        runner: &dyn Runner,
        consent: &WriteConsent,
    ) -> Result<Self, WritableBlockDeviceError> {
        let geometry = Geometry::default();
        Ok(Self { geometry, ..Self::held(DeviceLock::image(runner, consent)?) })
    }

    fn held(held: DeviceLock) -> Self {
        let consent = held.consent().clone();
        let geometry = declared(consent.device());
        Self { consent, geometry, attached: Attached::Medium { held: Box::new(held) } }
    }

    /// A simulated card, served by a process of its own: `program` with `args` becomes the server.
    ///
    /// # Errors
    /// When the card cannot be attached to this kernel.
    pub fn card(
        system: &SystemRoots,
        runner: &dyn Runner,
        model: &CardModel,
        program: &Path,
        args: &[String],
    ) -> Result<Self, WritableBlockDeviceError> {
        let process = CardProcess::start(program, args)?;
        let consent =
            WriteConsent::for_simulated_card(system, runner, process.device(), process.id())?;
        let facts = CardFacts {
            name: model.name.clone(),
            title: model.title.clone(),
            notes: process.notes().to_vec(),
            endurance_cycles: model.nand.endurance_cycles,
            model: Some(model.clone()),
        };
        let attached = Attached::Card { process, facts: Box::new(facts) };
        Ok(Self { consent, geometry: modelled(model), attached })
    }

    /// Leave to write to it.
    pub fn consent(&self) -> &WriteConsent {
        &self.consent
    }

    /// Its node.
    pub fn path(&self) -> PathBuf {
        self.consent.path().to_owned()
    }

    /// The image behind it, where it is one.
    pub(crate) fn image_file(&self) -> Option<&Path> {
        match &self.attached {
            Attached::Medium { held } => held.image_file(),
            Attached::Card { .. } => None,
        }
    }

    /// What it or its model says of how it is built.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The simulated card, where it is one.
    pub fn card_facts(&self) -> Option<&CardFacts> {
        match &self.attached {
            Attached::Card { facts, .. } => Some(facts),
            Attached::Medium { .. } => None,
        }
    }

    /// How the simulated card's process was lost, where it is one and has ended.
    pub(crate) fn lost(&self) -> Option<ProcessError> {
        self.card_process().and_then(|card| card.counters().err())
    }

    /// The simulated card's process, where it is one.
    pub(crate) fn card_process(&self) -> Option<&CardProcess> {
        match &self.attached {
            Attached::Card { process, .. } => Some(process),
            Attached::Medium { .. } => None,
        }
    }
}

/// What a device declares of its geometry.
pub fn declared(medium: &Device) -> Geometry {
    let erase_unit = medium.declared_erase_block.as_ref().map(|declared| {
        Sourced::new(declared.bytes, QuantitySource::Declared(declared.source.clone()))
    });
    Geometry { erase_unit, write_unit: None }
}

/// What a card model states of its geometry.
pub fn modelled(model: &CardModel) -> Geometry {
    let known = |bytes| Some(Sourced::new(Bytes(bytes), QuantitySource::Modelled));
    Geometry {
        erase_unit: known(model.erase_unit_bytes()),
        write_unit: known(model.write_unit_bytes()),
    }
}
