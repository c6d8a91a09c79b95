//! The geometry in a probe's document, for a plan or a run on the same device.

use std::path::Path;

use flashfit_device::Bytes;
use flashfit_filesystem::plan::PlannedDevice;
use flashfit_geometry::Geometry;

use crate::document::{ProbeDocument, ProbedMedium};
use crate::error::ProbeFileError;
use crate::follow_up::FirstEraseBlock;

/// What a document says about a device.
#[derive(Debug, Clone, Default)]
pub struct SavedGeometry {
    pub geometry: Geometry,
    /// Why the document has no erase block, if it has none.
    pub no_erase_unit: Option<String>,
    pub first_erase_block: Option<FirstEraseBlock>,
}

/// Reads the document at `path`, which must be of this device.
///
/// # Errors
/// If it cannot be read, or is of another device.
pub fn read_geometry(path: &Path, medium: &PlannedDevice) -> Result<SavedGeometry, ProbeFileError> {
    let document = ProbeDocument::read(path)?;
    if let Some(difference) = document.medium.as_ref().and_then(|probed| other(probed, medium)) {
        return Err(ProbeFileError::OtherDevice { path: path.to_owned(), difference });
    }
    let geometry = document.geometry();
    let no_erase_unit =
        geometry.erase_unit.is_none().then(|| document.findings.erase_unit.reason.clone());
    let first_erase_block = document.first_erase_block();
    Ok(SavedGeometry { geometry, no_erase_unit, first_erase_block })
}

/// What tells the probed device from this one, if anything does. A disk and its partition are one
/// device.
fn other(probed: &ProbedMedium, medium: &PlannedDevice) -> Option<String> {
    let whole = probed.partition_start_bytes.is_none() && medium.partition_start_bytes.is_none();
    if whole && probed.capacity_bytes != medium.capacity_bytes {
        let (before, now) = (Bytes(probed.capacity_bytes), Bytes(medium.capacity_bytes));
        return Some(format!("its size was {before} ({} bytes), not {now}", before.0));
    }
    let known = |one: &Option<String>, other: &Option<String>| {
        one.as_ref().zip(other.as_ref()).is_some_and(|(one, other)| one != other)
    };
    let (before, now) = (&probed.identity, &medium.identity);
    let differs = known(&before.cid, &now.cid) || known(&before.serial, &now.serial);
    differs.then(|| format!("it was {}, not {}", before.summary(), now.summary()))
}
