//! A block device that trials may write to: a real device, a loop device over an image, or a
//! simulated card. Loop devices and cards are detached on drop.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use flashfit_card::CardModel;
use flashfit_card_client::{CardProcess, ProcessError};
use flashfit_device::{DeviceLock, DeviceLockError, Refusal, SystemRoots, WriteConsent};
use flashfit_geometry::Geometry;
use flashfit_host::Runner;
use flashfit_target::{device_geometry, model_geometry};
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::facts::CardFacts;

#[derive(Debug, thiserror::Error)]
pub enum WritableBlockDeviceError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Locked(#[from] DeviceLockError),
    #[error(transparent)]
    Card(#[from] ProcessError),
}

impl UserError for WritableBlockDeviceError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Refused(error) => error.class(),
            Self::Locked(error) => error.class(),
            Self::Card(error) => error.class(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Refused(error) => error.hint(),
            Self::Locked(error) => error.hint(),
            Self::Card(error) => error.hint(),
        }
    }
}

#[derive(Debug)]
enum Attached {
    Device { lock: Box<DeviceLock> },
    Card { process: CardProcess, facts: Box<CardFacts> },
}

#[derive(Debug)]
pub struct WritableBlockDevice {
    consent: WriteConsent,
    geometry: Geometry,
    attached: Attached,
}

impl WritableBlockDevice {
    /// A real device, locked until drop.
    ///
    /// # Errors
    /// If it cannot be opened or another process has locked it.
    pub fn node(consent: WriteConsent) -> Result<Self, WritableBlockDeviceError> {
        Ok(Self::lock(DeviceLock::node(consent)?))
    }

    /// A loop device over the image of `consent`.
    ///
    /// # Errors
    /// If it cannot be attached or another process uses the image.
    pub fn image(
        runner: &dyn Runner,
        consent: &WriteConsent,
    ) -> Result<Self, WritableBlockDeviceError> {
        let geometry = Geometry::default();
        Ok(Self { geometry, ..Self::lock(DeviceLock::image(runner, consent)?) })
    }

    fn lock(lock: DeviceLock) -> Self {
        let consent = lock.consent().clone();
        let geometry = device_geometry(consent.device());
        Self { consent, geometry, attached: Attached::Device { lock: Box::new(lock) } }
    }

    /// A simulated card, served by a child process: `program` with `args`.
    ///
    /// # Errors
    /// If the card cannot be attached to this kernel.
    pub fn card(
        system: &SystemRoots,
        runner: &dyn Runner,
        model: &CardModel,
        program: &Path,
        args: &[OsString],
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
        Ok(Self { consent, geometry: model_geometry(model), attached })
    }

    pub fn consent(&self) -> &WriteConsent {
        &self.consent
    }

    pub fn path(&self) -> PathBuf {
        self.consent.path().to_owned()
    }

    /// The image file, if the device is an image.
    pub(crate) fn image_file(&self) -> Option<&Path> {
        match &self.attached {
            Attached::Device { lock } => lock.image_file(),
            Attached::Card { .. } => None,
        }
    }

    /// The geometry that the device or card model declares.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Set if the device is a simulated card.
    pub fn card_facts(&self) -> Option<&CardFacts> {
        match &self.attached {
            Attached::Card { facts, .. } => Some(facts),
            Attached::Device { .. } => None,
        }
    }

    /// Why the simulated card's process ended, if it did.
    pub(crate) fn card_error(&self) -> Option<ProcessError> {
        self.card_process().and_then(|card| card.counters().err())
    }

    pub(crate) fn card_process(&self) -> Option<&CardProcess> {
        match &self.attached {
            Attached::Card { process, .. } => Some(process),
            Attached::Device { .. } => None,
        }
    }
}
