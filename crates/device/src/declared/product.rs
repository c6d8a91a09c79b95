//! The product that a device names: manufacturer, name, revision and date, as separate fields.
//!
//! SD cards and eMMC chips name it in their CID, USB devices in their device descriptor
//! (Documentation/ABI/testing/sysfs-bus-usb). Limits: a USB card reader names itself, not the card
//! in it, and counterfeit cards copy all fields.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::registers::cid::Cid;
use crate::registers::csd::CsdFamily;
use crate::system::SystemRoots;

/// Any text may occur in the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DeclaredProduct {
    /// The manufacturer's number: `0x03` in a CID, `0781` of a USB vendor.
    pub manufacturer: Option<String>,
    /// OEM or application ID of a CID.
    pub oem: Option<String>,
    pub name: Option<String>,
    pub revision: Option<String>,
    /// Year and month of manufacture, such as `2018-11`.
    pub manufactured: Option<String>,
}

impl From<&Cid> for DeclaredProduct {
    fn from(cid: &Cid) -> Self {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Self {
            manufacturer: Some(format!("0x{:02x}", cid.manufacturer)),
            oem: text(&cid.oem),
            name: text(&cid.name),
            revision: text(&cid.revision),
            manufactured: cid.manufactured.map(|(year, month)| format!("{year}-{month:02}")),
        }
    }
}

impl DeclaredProduct {
    /// Decodes the CID of an SD card, or of an eMMC chip without its date: its year depends on a
    /// register that is not known here.
    pub fn of_cid(cid: &str, is_emmc: bool) -> Option<Self> {
        let family = if is_emmc { CsdFamily::Mmc } else { CsdFamily::Sd };
        let product = Self::from(&Cid::parse(family, cid, None).ok()?);
        Some(if is_emmc { Self { manufactured: None, ..product } } else { product })
    }

    /// What the USB device above a disk reports.
    pub(super) fn of_usb(system: &SystemRoots, disk: &str) -> Option<Self> {
        let device = system.block(disk).join("device").canonicalize().ok()?;
        let usb = device.ancestors().find(|folder| folder.join("idVendor").exists())?;
        let attribute = |name: &str| system.attribute(&usb.join(name));
        let name = match (attribute("idProduct"), attribute("product")) {
            (Some(number), Some(text)) => Some(format!("{number} {text}")),
            (number, text) => number.or(text),
        };
        Some(Self {
            manufacturer: attribute("idVendor"),
            oem: attribute("manufacturer"),
            name,
            revision: attribute("bcdDevice"),
            manufactured: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cid_names_the_product() {
        let card = DeclaredProduct::of_cid("035344534c3332478076543210012b00", false).unwrap();
        assert_eq!(card.manufacturer.as_deref(), Some("0x03"));
        assert_eq!((card.oem.as_deref(), card.name.as_deref()), (Some("SD"), Some("SL32G")));
        assert_eq!(card.manufactured.as_deref(), Some("2018-11"));
        let chip = DeclaredProduct::of_cid("15010038475446345201123456787400", true).unwrap();
        assert_eq!((chip.name.as_deref(), chip.manufactured), (Some("8GTF4R"), None));
        assert_eq!(DeclaredProduct::of_cid("no register", false), None);
    }

    #[test]
    fn a_usb_device_names_itself() {
        let root = tempfile::tempdir().unwrap();
        let system = SystemRoots { sys: root.path().to_owned(), ..SystemRoots::default() };
        let (usb, block) = (root.path().join("devices/usb1/1-1"), system.block("sda"));
        let disk = usb.join("1-1:1.0/host0/target0:0:0/0:0:0:0");
        for folder in [&disk, &block] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::os::unix::fs::symlink(&disk, block.join("device")).unwrap();
        assert_eq!(DeclaredProduct::of_usb(&system, "sda"), None);
        for (name, text) in [("idVendor", "0781"), ("idProduct", "5567"), ("product", "Cruzer")] {
            std::fs::write(usb.join(name), text).unwrap();
        }
        let found = DeclaredProduct::of_usb(&system, "sda").unwrap();
        assert_eq!(found.manufacturer.as_deref(), Some("0781"));
        assert_eq!(found.name.as_deref(), Some("5567 Cruzer"));
    }
}
