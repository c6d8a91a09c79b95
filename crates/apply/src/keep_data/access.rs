//! How a device is reached: alone, through the guard, or while it is in use.
//!
//! A device in use is never opened for writing. Its mount points are opened before the user agrees
//! and compared before each step, so that no step changes another file system that was mounted in
//! the meantime.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flashfit_device::device_lock::lock_disk_in_use;
use flashfit_device::{Device, DeviceLock, SystemRoots, WriteConsent};
use flashfit_filesystem::improvement::ImprovedVolume;
use flashfit_host::mountinfo::{self, MountEntry};
use rustix::fs::{Mode, OFlags};

use crate::error::ApplyError;
use crate::fingerprint::DeviceFingerprint;
use crate::partition::tell_kernel;
use crate::steps::ApplyTools;

/// udev may take a moment to make the node of a partition.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A device whose settings may be changed.
#[derive(Debug)]
pub enum DeviceAccess {
    /// Nobody else uses it; the guard gave its consent.
    Exclusive(DeviceLock),
    InUse(PinnedDevice),
}

/// A device in use, as it was when it was shown.
#[derive(Debug)]
pub struct PinnedDevice {
    device: Device,
    fingerprint: DeviceFingerprint,
    points: Vec<PinnedPoint>,
    /// Set by [`DeviceAccess::in_use`].
    _locked_disk: Option<File>,
}

#[derive(Debug)]
struct PinnedPoint {
    point: PathBuf,
    root: File,
}

impl PinnedDevice {
    /// Opens the mount points of a device that was just looked at.
    ///
    /// # Errors
    /// When one cannot be looked at, or another file system hides it.
    pub fn open(system: &SystemRoots, device: &Device) -> Result<Self, ApplyError> {
        let mut points = Vec::new();
        for mount in &device.mounts {
            let point = mount.point.clone();
            let Ok(root) = open_point(&point) else {
                // A file system can be mounted on a file.
                continue;
            };
            let seen = mountinfo::of_open(&root).map_err(ApplyError::file(&point))?;
            if !seen.is_some_and(|entry| mount.is_seen_through(system, &entry)) {
                return Err(ApplyError::HiddenMount { point });
            }
            points.push(PinnedPoint { point, root });
        }
        let fingerprint = DeviceFingerprint::of(system, device);
        Ok(Self { device: device.clone(), fingerprint, points, _locked_disk: None })
    }

    /// Whether the device is the one that was shown.
    fn check(&self, system: &SystemRoots) -> Result<(), ApplyError> {
        let now = Device::from_sysfs(system, &self.device.path)?;
        if DeviceFingerprint::of(system, &now) == self.fingerprint {
            return Ok(());
        }
        Err(changed(&self.device.path, "it is now another device"))
    }

    /// What is mounted at a point, if it is still the file system that was there.
    pub(super) fn mount(&self, point: &Path) -> Result<MountEntry, ApplyError> {
        let gone = || changed(point, "another file system is mounted there now");
        let pinned = self.points.iter().find(|pinned| pinned.point == point).ok_or_else(gone)?;
        let seen = |root: &File| mountinfo::of_open(root).map_err(ApplyError::file(point));
        let now = open_point(point).map_err(|errno| ApplyError::file(point)(errno.into()))?;
        let before = seen(&pinned.root)?.ok_or_else(gone)?;
        // The number of a mount is not given to another one as long as its root is open.
        let entry = seen(&now)?.filter(|now| now.id == before.id && now.point == point);
        entry.ok_or_else(gone)
    }
}

impl DeviceAccess {
    /// Changes a device while it is in use. Its disk is locked until the value is dropped, so that
    /// the settings of the queue do not change during measurements on another partition.
    ///
    /// # Errors
    /// When another process has locked the disk, or it cannot be opened.
    pub fn in_use(system: &SystemRoots, pinned: PinnedDevice) -> Result<Self, ApplyError> {
        let locked = lock_disk_in_use(system, &pinned.device)?;
        Ok(Self::InUse(PinnedDevice { _locked_disk: locked, ..pinned }))
    }

    /// The device as it was shown.
    pub fn device(&self) -> &Device {
        match self {
            Self::Exclusive(lock) => lock.consent().device(),
            Self::InUse(pinned) => &pinned.device,
        }
    }

    /// The image file behind the device, if there is one.
    pub(super) fn image_file(&self) -> Option<&Path> {
        match self {
            Self::Exclusive(lock) => lock.image_file(),
            Self::InUse(_) => None,
        }
    }

    pub fn is_exclusive(&self) -> bool {
        matches!(self, Self::Exclusive(_))
    }

    /// Looks at the device again; called before each step.
    pub(super) fn check(&self, tools: &ApplyTools<'_>) -> Result<(), ApplyError> {
        match self {
            Self::Exclusive(lock) => Ok(lock.consent().check(tools.runner)?),
            Self::InUse(pinned) => pinned.check(tools.system),
        }
    }

    /// Leave to write to the place of a file system that is not mounted.
    pub(super) fn place(
        &self,
        tools: &ApplyTools<'_>,
        volume: &ImprovedVolume,
    ) -> Result<WriteConsent, ApplyError> {
        let Self::Exclusive(lock) = self else {
            let what = format!("{} is in use, so only the kernel may write to it", volume.name);
            return Err(ApplyError::NotAsPlanned { what: vec![what] });
        };
        let consent = lock.consent();
        let own_start = consent.device().partition_start.map_or(0, |start| start.0);
        if volume.start_bytes == own_start {
            return Ok(consent.clone());
        }
        let node = partition(tools, consent, volume)?;
        Ok(consent.for_partition(tools.runner, &node)?)
    }
}

/// The node of the partition that starts where the file system does.
fn partition(
    tools: &ApplyTools<'_>,
    consent: &WriteConsent,
    volume: &ImprovedVolume,
) -> Result<PathBuf, ApplyError> {
    let disk = consent.path();
    let asked = Instant::now();
    let mut was_told = false;
    loop {
        for name in tools.system.partitions_of(&consent.device().disk) {
            let node = Path::new("/dev").join(&name);
            let Ok(shown) = Device::from_sysfs(tools.system, &node) else { continue };
            if shown.partition_start.is_some_and(|start| start.0 == volume.start_bytes) {
                return Ok(node);
            }
        }
        if !was_told {
            // A kernel without support for the table's format is given each partition.
            tell_kernel(tools.runner, disk)?;
            was_told = true;
        } else if asked.elapsed() > NODE_TIMEOUT {
            let start = volume.start_bytes;
            let what = format!("{} has no partition at {start} bytes", disk.display());
            return Err(ApplyError::NotAsPlanned { what: vec![what] });
        } else {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

fn open_point(point: &Path) -> rustix::io::Result<File> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(point, flags, Mode::empty()).map(File::from)
}

fn changed(path: &Path, what: &str) -> ApplyError {
    flashfit_device::Refusal::Changed { path: path.to_owned(), what: what.to_owned() }.into()
}
