//! The properties of a device that a plan depends on.

use std::path::PathBuf;

use flashfit_device::Device;
use flashfit_device::describe::DeviceKind;
use flashfit_device::identity::DeviceIdentity;

use super::document::PlannedDevice;

const MIN_SECTOR_BYTES: u64 = 512;

impl PlannedDevice {
    /// Of a device or an image. An image is planned for as the loop device over it is, which takes
    /// discards and has a volatile cache.
    pub fn of(device: &Device) -> Self {
        let is_image = device.disk.is_empty();
        Self {
            path: device.path.clone(),
            disk: device.disk.clone(),
            kind: device.kind,
            identity: device.identity.clone(),
            capacity_bytes: device.capacity.0,
            sector_bytes: device.queue.logical_sector_bytes.max(MIN_SECTOR_BYTES),
            partition_start_bytes: device.partition_start.map(|start| start.0),
            discard: is_image || device.queue.discards,
            volatile_cache: is_image || device.queue.volatile_cache(),
        }
    }

    /// Of a simulated card.
    pub fn simulated(
        name: &str,
        capacity_bytes: u64,
        sector_bytes: u64,
        discard: bool,
        volatile_cache: bool,
    ) -> Self {
        Self {
            path: PathBuf::from(format!("sim:{name}")),
            disk: String::new(),
            kind: DeviceKind::Simulated,
            identity: DeviceIdentity::default(),
            capacity_bytes,
            sector_bytes,
            partition_start_bytes: None,
            discard,
            volatile_cache,
        }
    }
}
