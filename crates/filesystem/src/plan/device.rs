//! What a plan takes of a device.

use std::path::PathBuf;

use flashfit_device::Device;
use flashfit_device::describe::DeviceKind;
use flashfit_device::identity::DeviceIdentity;

use super::document::PlannedMedium;

const LEAST_SECTOR_BYTES: u64 = 512;

impl PlannedMedium {
    /// Of a device or an image. An image is planned for as the loop device over it is, which takes
    /// discards and has a volatile cache.
    pub fn of(medium: &Device) -> Self {
        let is_image = medium.disk.is_empty();
        Self {
            path: medium.path.clone(),
            disk: medium.disk.clone(),
            kind: medium.kind,
            identity: medium.identity.clone(),
            capacity_bytes: medium.capacity.0,
            sector_bytes: medium.queue.logical_sector_bytes.max(LEAST_SECTOR_BYTES),
            partition_start_bytes: medium.partition_start.map(|start| start.0),
            discard: is_image || medium.queue.discards,
            volatile_cache: is_image || medium.queue.volatile_cache(),
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
