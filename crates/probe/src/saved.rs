//! The geometry in a probe's document, for a plan or a run on the same device.

use std::path::Path;

use flashfit_device::Bytes;
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
}

/// Reads the document at `path`, which must be of this device.
///
/// # Errors
/// If it cannot be read, or is of another device.
pub fn read_geometry(path: &Path, device: &PlannedDevice) -> Result<SavedGeometry, ProbeFileError> {
    let document = ProbeDocument::read(path)?;
    if let Some(difference) = document.device.as_ref().and_then(|probed| other(probed, device)) {
        return Err(ProbeFileError::OtherDevice { path: path.to_owned(), difference });
    }
    let geometry = document.findings.likeliest_geometry();
    let no_erase_block =
        geometry.erase_block.is_none().then(|| document.findings.erase_block.reason.clone());
    let first_erase_block = document.first_erase_block();
    Ok(SavedGeometry { geometry, no_erase_block, first_erase_block })
}

/// The difference between the probed device and this one, if anything does. A disk and its
/// partition are one device.
fn other(probed: &ProbedDevice, device: &PlannedDevice) -> Option<String> {
    let whole = probed.partition_start_bytes.is_none() && device.partition_start_bytes.is_none();
    if whole && probed.capacity_bytes != device.capacity_bytes {
        let (before, now) = (Bytes(probed.capacity_bytes), Bytes(device.capacity_bytes));
        return Some(format!("its size was {before} ({} bytes), not {now}", before.0));
    }
    let known = |one: &Option<String>, other: &Option<String>| {
        one.as_ref().zip(other.as_ref()).is_some_and(|(one, other)| one != other)
    };
    let (before, now) = (&probed.identity, &device.identity);
    let differs = known(&before.cid, &now.cid) || known(&before.serial, &now.serial);
    differs.then(|| format!("it was {}, not {}", before.summary(), now.summary()))
}
