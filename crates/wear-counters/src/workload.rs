//! A command that writes to a device of this machine, for [`crate::measure()`].
//!
//! Before each reading everything that was written is sent to the devices (sync(2)). The device
//! must be the same object with the same identity as at first.

use std::time::Duration;

use flashfit_device::identity::DeviceIdentity;
use flashfit_device::{Bytes, Device, DeviceError};
use flashfit_host::{Program, ProgramError, SystemRunner};

use crate::measure::{MeasureError, MeasuredWorkload};
use crate::reading::{WearReading, WearSources};

/// A command and the device that it writes to.
pub struct CommandOnDevice<'a> {
    pub sources: &'a WearSources<'a>,
    pub device: Device,
    /// Size of the whole disk.
    pub capacity: Bytes,
    pub command: Program,
    pub runner: &'a SystemRunner,
    /// How long the device is left alone after a run, so that its own work is counted.
    pub settle: Duration,
}

impl CommandOnDevice<'_> {
    /// The device as it is now, if it is still the same.
    fn same_device(&self) -> Result<Device, MeasureError> {
        let device = self.device.path.display().to_string();
        let now = match Device::from_sysfs(self.sources.system, &self.device.path) {
            Ok(now) => now,
            Err(DeviceError::Unknown { .. } | DeviceError::Empty { .. }) => {
                return Err(MeasureError::Vanished { device });
            }
            Err(_) => return Err(MeasureError::Replaced { device }),
        };
        let is_same_object = match (&self.device.object, &now.object) {
            (Some(old), Some(new)) => old.is_same(new),
            (old, new) => old.is_none() && new.is_none(),
        };
        let same = |device: &Device| -> (DeviceIdentity, Bytes) {
            (device.identity.clone(), device.capacity)
        };
        if !is_same_object || same(&now) != same(&self.device) {
            return Err(MeasureError::Replaced { device });
        }
        Ok(Device { mounts: now.mounts, ..self.device.clone() })
    }
}

impl MeasuredWorkload for CommandOnDevice<'_> {
    fn read(&mut self) -> Result<WearReading, MeasureError> {
        rustix::fs::sync();
        let device = self.same_device()?;
        let reading = self.sources.read(&device);
        // It may have gone while it was asked.
        self.same_device()?;
        Ok(reading)
    }

    fn run(&mut self) -> Result<(), MeasureError> {
        use flashfit_host::Runner;
        let outcome = self.runner.run(&self.command)?;
        if !outcome.success() {
            let how = match (outcome.code, outcome.signal) {
                (Some(code), _) => format!("exit code {code}"),
                (None, Some(signal)) => format!("signal {signal}"),
                (None, None) => "an unknown status".to_owned(),
            };
            return Err(MeasureError::CommandFailed { how });
        }
        rustix::fs::sync();
        if self.runner.interrupt().sleep(self.settle) {
            let during = "the time in which the device comes to rest".to_owned();
            return Err(ProgramError::Interrupted { during }.into());
        }
        Ok(())
    }

    fn capacity(&self) -> Bytes {
        self.capacity
    }
}
