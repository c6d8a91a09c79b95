//! What a probe found, taken up again by `flashfit plan` and `flashfit tune`.

use std::path::Path;

use flashfit_device::Bytes;
use flashfit_filesystem::plan::PlannedMedium;
use flashfit_geometry::Geometry;
use flashfit_user_error::ExitClass;

use super::document::{ProbeDocument, ProbedMedium};
use super::next::offset_remark;
use crate::command_error::CommandError;

/// The geometry in the file that the user names, where one is named; `notes` gets what there is to
/// say of it.
pub fn read(
    path: Option<&Path>,
    medium: &PlannedMedium,
    notes: &mut Vec<String>,
) -> Result<Geometry, CommandError> {
    let Some(path) = path else { return Ok(Geometry::default()) };
    let document = ProbeDocument::read(path)?;
    if let Some(other) = document.medium.as_ref().and_then(|probed| other(probed, medium)) {
        return Err(CommandError::new(
            ExitClass::Usage,
            format!("{} is of another medium: {other}", path.display()),
            Some("probe this one: flashfit probe TARGET --output FILE"),
        ));
    }
    let geometry = document.geometry();
    if geometry.erase_unit.is_none() {
        notes.push(format!(
            "the probe in {} found no erase unit: {}",
            path.display(),
            document.findings.erase_unit.reason
        ));
    }
    notes.extend(offset_remark(&document));
    Ok(geometry)
}

/// What tells the probed device from this one, if anything does. A disk and its partition are one
/// device.
fn other(probed: &ProbedMedium, medium: &PlannedMedium) -> Option<String> {
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
    differs.then(|| format!("it was {}, another card than {}", before.summary(), now.summary()))
}
