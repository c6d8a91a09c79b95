//! Reads what identifies a device, so that a swapped device is noticed.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::system::SystemRoots;

/// What a device reports about itself. Any text may occur in the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DeviceIdentity {
    /// Manufacturer, if the bus reports one.
    pub vendor: Option<String>,
    pub model: Option<String>,
    pub serial: Option<String>,
    /// The card identification register (CID) of SD and MMC, in hexadecimal.
    pub cid: Option<String>,
    pub firmware: Option<String>,
    /// The kernel's disk sequence number (`diskseq`). It differs for every disk since boot, so it
    /// also tells apart disks that report nothing else.
    pub disk_sequence: Option<u64>,
}

impl DeviceIdentity {
    /// Reads the identity of the whole disk `disk`.
    pub fn read(system: &SystemRoots, disk: &str) -> Self {
        let block = system.block(disk);
        let device = block.join("device");
        let first =
            |names: &[&str]| names.iter().find_map(|name| system.attribute(&device.join(name)));
        Self {
            vendor: first(&["vendor", "manfid"]),
            model: first(&["model", "name"]),
            // A virtio disk has its serial number in the block folder itself.
            serial: first(&["serial", "wwid"])
                .or_else(|| system.attribute(&block.join("serial")))
                .or_else(|| usb_serial(system, &device)),
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

/// The serial number of the USB device above a disk; the SCSI disk of a USB stick has none.
fn usb_serial(system: &SystemRoots, device: &Path) -> Option<String> {
    let device = device.canonicalize().ok()?;
    let usb = device.ancestors().find(|folder| folder.join("idVendor").exists())?;
    system.attribute(&usb.join("serial"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stick_has_the_serial_number_of_its_usb_device() {
        let root = tempfile::tempdir().expect("a folder");
        let system = SystemRoots { sys: root.path().to_owned(), ..SystemRoots::default() };
        let (usb, block) = (root.path().join("devices/usb1/1-1"), system.block("sda"));
        let disk = usb.join("1-1:1.0/host0/target0:0:0/0:0:0:0");
        for folder in [&disk, &block] {
            std::fs::create_dir_all(folder).expect("a folder");
        }
        std::os::unix::fs::symlink(&disk, block.join("device")).expect("a link");
        std::fs::write(usb.join("serial"), "4C530001\n").expect("a file");
        assert_eq!(DeviceIdentity::read(&system, "sda").serial, None, "it is not a USB device");
        std::fs::write(usb.join("idVendor"), "0781\n").expect("a file");
        assert_eq!(DeviceIdentity::read(&system, "sda").serial.as_deref(), Some("4C530001"));
    }
}
