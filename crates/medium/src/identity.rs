//! Who a medium is, as far as it tells: enough to notice that another one is in the slot.

use serde::{Deserialize, Serialize};

use crate::system::System;

/// What a device says of itself. All text is the device's own and may hold anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Manufacturer, where the bus has such a field.
    pub vendor: Option<String>,
    /// Product name.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// The card identification register of SD and MMC, in hexadecimal.
    pub cid: Option<String>,
    /// Firmware revision.
    pub firmware: Option<String>,
    /// The kernel's count of disks seen since boot (`diskseq`): another disk in the same slot has
    /// another one, even when it says nothing of itself.
    pub disk_sequence: Option<u64>,
}

impl Identity {
    /// Reads it for the whole disk `disk`.
    pub fn read(system: &System, disk: &str) -> Self {
        let block = system.block(disk);
        let device = block.join("device");
        let first =
            |names: &[&str]| names.iter().find_map(|name| system.attribute(&device.join(name)));
        Self {
            vendor: first(&["vendor", "manfid"]),
            model: first(&["model", "name"]),
            // A virtual disk has its serial number beside its queue.
            serial: first(&["serial", "wwid"])
                .or_else(|| system.attribute(&block.join("serial")))
                .filter(|serial| !serial.is_empty()),
            cid: first(&["cid"]),
            firmware: first(&["firmware_rev", "fwrev", "rev"]),
            disk_sequence: system.number(&block.join("diskseq")),
        }
    }

    /// Vendor and model in one line, for people.
    pub fn summary(&self) -> String {
        let parts: Vec<&str> =
            [&self.vendor, &self.model].into_iter().flatten().map(String::as_str).collect();
        if parts.is_empty() { "unnamed".to_owned() } else { parts.join(" ") }
    }
}
