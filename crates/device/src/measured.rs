//! What a document says of the device that was measured, so that it is recognized later.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::declared::DeclaredFacts;
use crate::describe::{Device, DeviceKind};
use crate::identity::DeviceIdentity;

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct MeasuredDevice {
    pub kind: DeviceKind,
    /// With its serial number, if it reports one.
    pub identity: DeviceIdentity,
    /// Of the partition, if one was measured.
    pub capacity_bytes: u64,
    /// Offset of the partition on its disk, if one was measured.
    pub partition_start_bytes: Option<u64>,
    pub declared: DeclaredFacts,
}

impl From<&Device> for MeasuredDevice {
    fn from(device: &Device) -> Self {
        Self {
            kind: device.kind,
            identity: device.identity.clone(),
            capacity_bytes: device.capacity.0,
            partition_start_bytes: device.partition_start.map(|start| start.0),
            declared: device.declared.clone(),
        }
    }
}
