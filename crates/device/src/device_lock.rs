//! A consented device taken as a block device for as long as work on it lasts: the user's own node,
//! or a loop device over an image.

use std::fs::File;
use std::path::{Path, PathBuf};

use flashfit_host::Runner;
use flashfit_host::loop_device::{LoopDevice, LoopError, LoopOptions};
use flashfit_user_error::{ExitClass, UserError};

use crate::describe::DeviceKind;
use crate::guard::WriteConsent;
use crate::refusal::Refusal;

/// Why a device cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum DeviceLockError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Loop(#[from] LoopError),
}

impl UserError for DeviceLockError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Refused(error) => error.class(),
            Self::Loop(error) => error.class(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(error) => error.hint(),
            Self::Loop(error) => error.hint(),
        }
    }
}

#[derive(Debug)]
enum Attached {
    /// Open and locked: another flashfit then sees that the device is taken, also between two
    /// steps, and udev leaves it alone (systemd's block device locking).
    Node { _locked: File },
    /// Detached by the kernel when the value goes.
    Image { _device: LoopDevice, _locked: File, image: PathBuf },
}

/// A block device that may be written to, taken until the value goes.
#[derive(Debug)]
pub struct DeviceLock {
    consent: WriteConsent,
    attached: Attached,
}

impl DeviceLock {
    /// Takes the consented device.
    ///
    /// # Errors
    /// When it cannot be opened, another process has locked it, or no loop device can be had.
    pub fn take(runner: &dyn Runner, consent: WriteConsent) -> Result<Self, DeviceLockError> {
        match consent.medium().kind {
            DeviceKind::Image => Self::image(runner, &consent),
            _ => Self::node(consent),
        }
    }

    /// Takes the user's own device.
    ///
    /// # Errors
    /// When it cannot be opened, or another process has locked it.
    pub fn node(consent: WriteConsent) -> Result<Self, DeviceLockError> {
        let locked = lock(&consent)?;
        Ok(Self { consent, attached: Attached::Node { _locked: locked } })
    }

    /// Takes an image, as a loop device.
    ///
    /// # Errors
    /// When it cannot be attached or is used by someone else.
    pub fn image(runner: &dyn Runner, consent: &WriteConsent) -> Result<Self, DeviceLockError> {
        // Two that looked at the same time would each attach it.
        let locked = lock(consent)?;
        consent.check(runner)?;
        let image = consent.path().to_owned();
        let device =
            LoopDevice::attach_file(consent.target().file(), &image, LoopOptions::default())?;
        let consent = consent.through_loop(runner, device.node())?;
        let attached = Attached::Image { _device: device, _locked: locked, image };
        Ok(Self { consent, attached })
    }

    /// The image behind the loop device, where it is one.
    pub fn image_file(&self) -> Option<&Path> {
        match &self.attached {
            Attached::Image { image, .. } => Some(image),
            Attached::Node { .. } => None,
        }
    }

    /// Leave to write to the block device.
    pub fn consent(&self) -> &WriteConsent {
        &self.consent
    }
}

/// Locks the held device. The descriptor is the consent's own, so that an image is not opened once
/// more.
fn lock(consent: &WriteConsent) -> Result<File, Refusal> {
    let path = || consent.path().to_owned();
    let file = consent.target().file().try_clone();
    let file = file.map_err(|source| Refusal::Open { path: path(), source })?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| Refusal::Busy { path: path() })?;
    Ok(file)
}
