//! The geometry in a probe's document, for a plan or a run on the same device.

use std::path::Path;

use flashfit_device::{Bytes, DeviceKind};
use flashfit_filesystem::plan::PlannedDevice;
use flashfit_geometry::Geometry;

use crate::document::{ProbeDocument, ProbedDevice};
use crate::error::ProbeFileError;
use crate::follow_up::FirstEraseBlock;

/// What a document says about a device.
#[derive(Debug, Clone, Default)]
pub struct SavedGeometry {
    /// What was found, or else is the likeliest.
    pub geometry: Geometry,
    /// Why the document has no erase block, if it has none.
    pub no_erase_block: Option<String>,
    pub first_erase_block: Option<FirstEraseBlock>,
    /// Why another device would not be noticed, if so.
    pub doubt: Option<String>,
}

/// Reads the document at `path`, which must be of this device.
///
/// # Errors
/// If it cannot be read, or what the device reports shows that it is of another one.
pub fn read_geometry(path: &Path, device: &PlannedDevice) -> Result<SavedGeometry, ProbeFileError> {
    let document = ProbeDocument::read(path)?;
    if let Some(difference) = document.device.as_ref().and_then(|probed| other(probed, device)) {
        return Err(ProbeFileError::OtherDevice { path: path.to_owned(), difference });
    }
    let geometry = document.findings.likeliest_geometry();
    let no_erase_block =
        geometry.erase_block.is_none().then(|| document.findings.erase_block.reason.clone());
    let first_erase_block = document.first_erase_block();
    let doubt = document.device.as_ref().and_then(|probed| doubt(probed, device));
    Ok(SavedGeometry { geometry, no_erase_block, first_erase_block, doubt })
}

/// The difference between the probed device and this one, if there is one. A disk and its partition
/// are one device.
fn other(probed: &ProbedDevice, device: &PlannedDevice) -> Option<String> {
    let whole = probed.partition_start_bytes.is_none() && device.partition_start_bytes.is_none();
    if whole && probed.capacity_bytes != device.capacity_bytes {
        let (before, now) = (Bytes(probed.capacity_bytes), Bytes(device.capacity_bytes));
        return Some(format!("its size was {before} ({} bytes), not {now}", before.0));
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
    let differs = differ(&before.vendor, &now.vendor) || differ(&before.model, &now.model);
    if differs {
        return Some(format!("it was {}, not {}", before.summary(), now.summary()));
    }
    for (what, before, now) in
        [("CID", &before.cid, &now.cid), ("serial number", &before.serial, &now.serial)]
    {
        if let (Some(before), Some(now)) = (before, now) {
            if before != now {
                return Some(format!("its {what} was {before}, not {now}"));
            }
        }
    }
    None
}

fn differ(one: &Option<String>, other: &Option<String>) -> bool {
    one.as_ref().zip(other.as_ref()).is_some_and(|(one, other)| one != other)
}

/// Why another device in the place of the one that was probed would not be noticed, if so.
/// Simulated cards are described by their files.
fn doubt(probed: &ProbedDevice, device: &PlannedDevice) -> Option<String> {
    let (before, now) = (&probed.identity, &device.identity);
    let same = |one: &Option<String>, other: &Option<String>| one.is_some() && one == other;
    if device.kind == DeviceKind::Simulated {
        return None;
    }
    if probed.kind != device.kind {
        let (before, now) = (probed.kind, device.kind);
        return Some(format!("its kind was {before}, and is {now} now"));
    }
    if same(&before.cid, &now.cid) {
        return None;
    }
    if !same(&before.serial, &now.serial) {
        return Some("without a serial number, others of this size and model look the same".into());
    }
    (device.kind == DeviceKind::Usb).then(|| {
        "its serial number is that of the USB device, which a card reader has for every card".into()
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
    }

    #[test]
    fn a_device_without_a_name_of_its_own_is_in_doubt() {
        let doubt_of = |kind, serial, cid| {
            let (probed, planned) = device(kind, named(serial, cid));
            doubt(&probed, &planned)
        };
        assert_eq!(doubt_of(DeviceKind::SdCard, None, Some("c1")), None);
        assert_eq!(doubt_of(DeviceKind::Nvme, Some("1"), None), None);
        assert_eq!(doubt_of(DeviceKind::Simulated, None, None), None);
        let reader = doubt_of(DeviceKind::Usb, Some("1"), None).unwrap();
        assert!(reader.contains("a card reader has for every card"), "{reader}");
        let nothing = doubt_of(DeviceKind::Usb, None, None).unwrap();
        assert!(nothing.contains("without a serial number"), "{nothing}");
        let (probed, mut planned) = device(DeviceKind::SdCard, named(None, Some("c1")));
        planned.kind = DeviceKind::Usb;
        let text = doubt(&probed, &planned).unwrap();
        assert_eq!(text, "its kind was SD card, and is USB now");
    }
}
