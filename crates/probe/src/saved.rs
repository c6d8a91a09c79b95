//! The geometry in a probe's document, for a plan or a run on the same device.

use std::path::{Path, PathBuf};

use flashfit_device::{Bytes, DeviceKind};
use flashfit_filesystem::plan::PlannedDevice;
use flashfit_geometry::Geometry;

use crate::document::{ProbeDocument, ProbedDevice};
use crate::error::ProbeFileError;
use crate::follow_up::FirstEraseBlock;
use crate::tested_capacity::TestedCapacity;

/// What a document says about a device.
#[derive(Debug, Clone, Default)]
pub struct SavedGeometry {
    /// What was found, or else is the likeliest.
    pub geometry: Geometry,
    /// Why the document has no erase block, if it has none.
    pub no_erase_block: Option<String>,
    pub first_erase_block: Option<FirstEraseBlock>,
    /// What its test of the capacity found. A device that lost data must not be used.
    pub capacity: TestedCapacity,
    /// Why another device would not be noticed, if so.
    pub doubt: Option<Doubt>,
}

/// Why a document may be of another device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    pub reason: String,
    /// Whether another probe of this device leaves no doubt, because it has a name of its own.
    pub ends_with_probe: bool,
}

/// A document whose device is not known yet: it may be that of another machine.
#[derive(Debug, Clone)]
pub struct SavedProbe {
    pub path: PathBuf,
    document: ProbeDocument,
}

impl SavedProbe {
    /// # Errors
    /// If it cannot be read.
    pub fn read(path: &Path) -> Result<Self, ProbeFileError> {
        Ok(Self { path: path.to_owned(), document: ProbeDocument::read(path)? })
    }

    /// What was found, or else is the likeliest.
    pub fn geometry(&self) -> Geometry {
        self.document.likeliest_geometry()
    }

    /// What it says about `device`.
    ///
    /// # Errors
    /// If what the device reports shows that the document is of another one.
    pub fn of(&self, device: &PlannedDevice) -> Result<SavedGeometry, ProbeFileError> {
        let Self { path, document } = self;
        if let Some(difference) = document.device.as_ref().and_then(|probed| other(probed, device))
        {
            return Err(ProbeFileError::OtherDevice { path: path.clone(), difference });
        }
        let geometry = self.geometry();
        let no_erase_block =
            geometry.erase_block.is_none().then(|| document.findings.erase_block.reason.clone());
        let first_erase_block = document.first_erase_block();
        let doubt = document.device.as_ref().and_then(|probed| doubt(probed, device));
        let doubt = doubt.or_else(|| other_card(document, device));
        let capacity = document.tested_capacity();
        Ok(SavedGeometry { geometry, no_erase_block, first_erase_block, capacity, doubt })
    }
}

/// The difference between the probed device and this one, if there is one. A disk and its partition
/// are one device.
fn other(probed: &ProbedDevice, device: &PlannedDevice) -> Option<String> {
    let whole = probed.partition_start_bytes.is_none() && device.partition_start_bytes.is_none();
    if whole && probed.capacity_bytes != device.capacity_bytes {
        let (before, now) = (Bytes(probed.capacity_bytes), Bytes(device.capacity_bytes));
        return Some(format!("its size was {before} ({} bytes), not {now}", before.0));
    }
    if let Some((before, now)) = differ(&probed.identity.cid, &device.identity.cid) {
        return Some(format!("its CID was {before}, not {now}"));
    }
    // A card in a reader has the names of the reader.
    if probed.kind != device.kind {
        return None;
    }
    if probed.sector_bytes != device.sector_bytes {
        let (before, now) = (probed.sector_bytes, device.sector_bytes);
        return Some(format!("its sectors had {before} bytes, not {now}"));
    }
    let (before, now) = (&probed.identity, &device.identity);
    let named = differ(&before.vendor, &now.vendor).or(differ(&before.model, &now.model));
    if named.is_some() {
        return Some(format!("it was {}, not {}", before.summary(), now.summary()));
    }
    let (before, now) = differ(&before.serial, &now.serial)?;
    Some(format!("its serial number was {before}, not {now}"))
}

/// Both, if they are known and differ.
fn differ<'a>(
    before: &'a Option<String>,
    now: &'a Option<String>,
) -> Option<(&'a String, &'a String)> {
    before.as_ref().zip(now.as_ref()).filter(|(before, now)| before != now)
}

/// Why another device in the place of the one that was probed would not be noticed, if so.
/// Simulated cards are described by their files, and image files say nothing of a device.
fn doubt(probed: &ProbedDevice, device: &PlannedDevice) -> Option<Doubt> {
    let (before, now) = (&probed.identity, &device.identity);
    let same = |one: &Option<String>, other: &Option<String>| one.is_some() && one == other;
    let has_own_name =
        now.cid.is_some() || (device.kind != DeviceKind::Usb && now.serial.is_some());
    let because =
        |reason: &str| Some(Doubt { reason: reason.to_owned(), ends_with_probe: has_own_name });
    if device.kind == DeviceKind::Simulated || same(&before.cid, &now.cid) {
        return None;
    }
    if probed.kind != device.kind {
        let (before, now) = (probed.kind, device.kind);
        return because(&format!("its kind was {before}, and is {now} now"));
    }
    if device.kind == DeviceKind::Image {
        return None;
    }
    if !same(&before.serial, &now.serial) {
        return because("without a serial number, others of this size and model look the same");
    }
    if device.kind == DeviceKind::Usb {
        return because(
            "its serial number is that of the USB device, which a card reader has for every card",
        );
    }
    None
}

/// A simulated card that was named otherwise; the same file can have several paths.
fn other_card(document: &ProbeDocument, device: &PlannedDevice) -> Option<Doubt> {
    let now = device.path.display().to_string();
    let is_other =
        document.simulated && device.kind == DeviceKind::Simulated && document.target != now;
    is_other.then(|| Doubt {
        reason: format!("it was {}, and this is {now}", document.target),
        ends_with_probe: true,
    })
}

#[cfg(test)]
mod tests {
    use flashfit_device::identity::DeviceIdentity;

    use super::*;

    /// A probed device and the same one now.
    fn device(kind: DeviceKind, identity: DeviceIdentity) -> (ProbedDevice, PlannedDevice) {
        let simulated = PlannedDevice::simulated("x", 1 << 30, 512, false, false);
        let planned = PlannedDevice { kind, identity: identity.clone(), ..simulated };
        let probed = ProbedDevice {
            kind,
            identity,
            capacity_bytes: 1 << 30,
            sector_bytes: 512,
            partition_start_bytes: None,
        };
        (probed, planned)
    }

    fn named(serial: Option<&str>, cid: Option<&str>) -> DeviceIdentity {
        DeviceIdentity {
            model: Some("SL16G".to_owned()),
            serial: serial.map(str::to_owned),
            cid: cid.map(str::to_owned),
            ..DeviceIdentity::default()
        }
    }

    #[test]
    fn what_a_device_reports_shows_another_one() {
        let (probed, same) = device(DeviceKind::SdCard, named(Some("1"), Some("c1")));
        assert_eq!(other(&probed, &same), None);
        let changed = |change: &dyn Fn(&mut PlannedDevice)| {
            let mut device = same.clone();
            change(&mut device);
            other(&probed, &device).unwrap_or_default()
        };
        assert!(changed(&|device| device.capacity_bytes += 512).contains("its size was 1 GiB"));
        assert!(changed(&|device| device.sector_bytes = 4096).contains("had 512 bytes, not 4096"));
        let model = changed(&|device| device.identity.model = Some("SU08G".to_owned()));
        assert_eq!(model, "it was SL16G, not SU08G");
        let cid = changed(&|device| device.identity.cid = Some("c2".to_owned()));
        assert_eq!(cid, "its CID was c1, not c2");
        let serial = changed(&|device| device.identity.serial = Some("2".to_owned()));
        assert_eq!(serial, "its serial number was 1, not 2");
        let in_reader = |device: &mut PlannedDevice| {
            device.kind = DeviceKind::Usb;
            device.identity = DeviceIdentity { model: Some("Reader".into()), ..named(None, None) };
        };
        assert_eq!(changed(&in_reader), "", "a card is the same one in a reader");
        let cid = changed(&|device| {
            device.kind = DeviceKind::Emmc;
            device.identity.cid = Some("c2".to_owned());
        });
        assert_eq!(cid, "its CID was c1, not c2", "an eMMC chip is another device");
    }

    #[test]
    fn a_device_without_a_name_of_its_own_is_in_doubt() {
        let doubt_of = |kind, serial, cid| {
            let (probed, planned) = device(kind, named(serial, cid));
            doubt(&probed, &planned).map(|doubt| (doubt.reason, doubt.ends_with_probe))
        };
        assert_eq!(doubt_of(DeviceKind::SdCard, None, Some("c1")), None);
        assert_eq!(doubt_of(DeviceKind::Nvme, Some("1"), None), None);
        assert_eq!(doubt_of(DeviceKind::Simulated, None, None), None);
        assert_eq!(doubt_of(DeviceKind::Image, None, None), None);
        let (reader, ends_with_probe) = doubt_of(DeviceKind::Usb, Some("1"), None).unwrap();
        assert!(reader.contains("a card reader has for every card"), "{reader}");
        assert!(!ends_with_probe, "another probe says no more");
        let (nothing, _) = doubt_of(DeviceKind::Usb, None, None).unwrap();
        assert!(nothing.contains("without a serial number"), "{nothing}");
        let (probed, mut planned) = device(DeviceKind::SdCard, named(None, Some("c1")));
        planned.kind = DeviceKind::Usb;
        planned.identity.cid = None;
        let found = doubt(&probed, &planned).unwrap();
        assert_eq!(found.reason, "its kind was SD card, and is USB now");
        let (probed, mut planned) = device(DeviceKind::Usb, named(None, None));
        planned.kind = DeviceKind::SdCard;
        planned.identity.cid = Some("c1".to_owned());
        assert!(doubt(&probed, &planned).unwrap().ends_with_probe);
    }
}
