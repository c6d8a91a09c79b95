//! Locks a device for the duration of a job, as a block device: the user's own node, or a loop
//! device over an image.
//!
//! A partition is locked together with its whole disk: the I/O scheduler and the other settings of
//! the queue belong to the disk, and work on one partition disturbs measurements on another.

use std::fs::File;
use std::path::{Path, PathBuf};

use flashfit_host::Runner;
use flashfit_host::loop_device::{LoopDevice, LoopError, LoopOptions};
use flashfit_user_error::{ExitClass, Hint, UserError};
use rustix::fs::{FlockOperation, OFlags, major, minor};

use crate::describe::{Device, DeviceKind};
use crate::guard::{WriteConsent, retry_while_transient};
use crate::object::TargetFile;
use crate::refusal::Refusal;
use crate::system::SystemRoots;

/// Why a device cannot be locked.
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

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Refused(error) => error.hint(),
            Self::Loop(error) => error.hint(),
        }
    }
}

#[derive(Debug)]
enum Attached {
    /// Locked with flock(2), so that other flashfit processes wait between two steps and udev
    /// does not probe the device (systemd's block device locking).
    Node { _locked: File, _disk: Option<File> },
    /// The kernel detaches the loop device when the value is dropped.
    Image { _device: LoopDevice, _locked: File, image: PathBuf },
}

/// A block device that may be written to, locked until the value is dropped.
#[derive(Debug)]
pub struct DeviceLock {
    consent: WriteConsent,
    attached: Attached,
}

impl DeviceLock {
    /// Locks the device that the user consented to.
    ///
    /// # Errors
    /// When it cannot be opened, another process has locked it, or no loop device is available.
    pub fn acquire(runner: &dyn Runner, consent: WriteConsent) -> Result<Self, DeviceLockError> {
        match consent.device().kind {
            DeviceKind::Image => Self::image(runner, &consent),
            _ => Self::node(consent),
        }
    }

    /// Locks a device node.
    ///
    /// # Errors
    /// When it cannot be opened, or another process has locked it or its disk.
    pub fn node(consent: WriteConsent) -> Result<Self, DeviceLockError> {
        let disk = lock_disk_of_partition(&consent)?;
        let locked = lock(&consent)?;
        Ok(Self { consent, attached: Attached::Node { _locked: locked, _disk: disk } })
    }

    /// Locks an image and attaches it to a loop device.
    ///
    /// # Errors
    /// When it cannot be attached, or another process uses it.
    pub fn image(runner: &dyn Runner, consent: &WriteConsent) -> Result<Self, DeviceLockError> {
        // The lock comes first: otherwise two processes could both attach the image.
        let locked = lock(consent)?;
        consent.check(runner)?;
        let image = consent.path().to_owned();
        let device =
            LoopDevice::attach_file(consent.target().file(), &image, LoopOptions::default())?;
        let consent = consent.through_loop(runner, device.node())?;
        let attached = Attached::Image { _device: device, _locked: locked, image };
        Ok(Self { consent, attached })
    }

    /// The image file behind the loop device, if there is one.
    pub fn image_file(&self) -> Option<&Path> {
        match &self.attached {
            Attached::Image { image, .. } => Some(image),
            Attached::Node { .. } => None,
        }
    }

    pub fn consent(&self) -> &WriteConsent {
        &self.consent
    }
}

/// Locks the disk of a device that is in use, whose settings are changed: the settings of the queue
/// belong to the disk, and another process may measure on another partition. Nothing is locked for
/// an image. The lock ends with the file.
///
/// # Errors
/// When the disk cannot be opened, or another process has locked it.
pub fn lock_disk_in_use(system: &SystemRoots, device: &Device) -> Result<Option<File>, Refusal> {
    match device.kind {
        DeviceKind::Image => Ok(None),
        _ => lock_disk(system, device).map(Some),
    }
}

/// Locks the device through a duplicate of the consent's descriptor: opening the image again would
/// count as another user.
fn lock(consent: &WriteConsent) -> Result<File, Refusal> {
    let path = || consent.path().to_owned();
    let file = consent.target().file().try_clone();
    let file = file.map_err(|source| Refusal::Open { path: path(), source })?;
    lock_exclusively(file, || Refusal::Busy { path: path() })
}

/// Locks the disk if the target is one of its partitions. Other flashfit processes also see that it
/// is open, before they ask their users.
fn lock_disk_of_partition(consent: &WriteConsent) -> Result<Option<File>, Refusal> {
    let device = consent.device();
    if device.partition_start.is_none() {
        return Ok(None);
    }
    lock_disk(consent.system(), device).map(Some)
}

fn lock_disk(system: &SystemRoots, device: &Device) -> Result<File, Refusal> {
    // A `/` in the name of a node is a `!` in sysfs.
    let node = Path::new("/dev").join(device.disk.replace('!', "/"));
    let open = |source| Refusal::Open { path: node.clone(), source };
    let disk = TargetFile::open(&node).map_err(open)?;
    let number = disk.id().node;
    if system.name_of((major(number), minor(number))).as_ref() != Some(&device.disk) {
        return Err(Refusal::changed(&node, "it is another disk than before"));
    }
    let file = disk.reopen(OFlags::RDONLY).map_err(open)?;
    let locked = || Refusal::DiskLocked { path: device.path.clone(), disk: node.clone() };
    lock_exclusively(file, locked)
}

/// The loop device of a process that was just killed has the image's descriptor, and its lock, for
/// moments after the kernel no longer shows that it is attached.
fn lock_exclusively(file: File, locked: impl Fn() -> Refusal) -> Result<File, Refusal> {
    retry_while_transient(|| {
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| locked())
    })?;
    Ok(file)
}
