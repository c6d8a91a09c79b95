//! The part of a device that is probed, and a device as it was shown on another machine.

use std::ops::Range;

use flashfit_device::identity::DeviceIdentity;
use flashfit_device::{Bytes, Device, ObjectId};
use serde::{Deserialize, Serialize};

/// A part of a device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceRegion {
    pub start: Bytes,
    pub length: Bytes,
}

impl DeviceRegion {
    pub fn range(self) -> Range<u64> {
        self.start.0..self.start.0 + self.length.0
    }
}

/// What identifies a device that was shown elsewhere. The guard compares it with the device here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedDevice {
    object: Option<ObjectId>,
    identity: DeviceIdentity,
    capacity: Bytes,
}

impl ExpectedDevice {
    pub fn of(device: &Device) -> Self {
        let Device { object, identity, capacity, .. } = device;
        Self { object: *object, identity: identity.clone(), capacity: *capacity }
    }

    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }

    /// Parses what [`ExpectedDevice::text`] returned.
    ///
    /// # Errors
    /// If it is something else.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_slice(text.as_bytes()).map_err(|error| error.to_string())
    }

    /// The device here, as if it had been shown as the other one was.
    pub fn over(&self, here: &Device) -> Device {
        let Self { object, identity, capacity } = self.clone();
        Device { object, identity, capacity, ..here.clone() }
    }
}
