//! A probe's document as `flashfit plan` and `flashfit tune` use it.

use std::path::Path;

use flashfit_device::Bytes;
use flashfit_filesystem::plan::{PlannedDevice, check_given_sizes};
use flashfit_geometry::{Geometry, Sourced};
use flashfit_host::program::quote_path;
use flashfit_probe::{Doubt, FirstEraseBlock, read_geometry};

use crate::command_error::CommandError;

/// The geometry in the file that the user names, if any; `notes` gets remarks about it.
pub fn read(
    path: Option<&Path>,
    device: &PlannedDevice,
    notes: &mut Vec<String>,
) -> Result<Geometry, CommandError> {
    let Some(path) = path else { return Ok(Geometry::default()) };
    let (geometry, doubt) = read_with_doubt(path, device, notes)?;
    notes.extend(doubt.map(|Doubt { reason, ends_with_probe }| {
        let (file, target) = (quote_path(path), quote_path(&device.path));
        let command = format!(". To be sure: flashfit probe {target} --output {file}");
        format!("{reason}{}", if ends_with_probe { &command } else { "" })
    }));
    Ok(geometry)
}

/// The same, and why it may be of another device, as a sentence without a period.
pub fn read_with_doubt(
    path: &Path,
    device: &PlannedDevice,
    notes: &mut Vec<String>,
) -> Result<(Geometry, Option<Doubt>), CommandError> {
    let saved = read_geometry(path, device)?;
    let sizes = &saved.geometry;
    let bytes = |known: &Option<Sourced>| known.as_ref().map(|known| known.bytes);
    let capacity = Bytes(device.capacity_bytes);
    check_given_sizes(
        bytes(&sizes.erase_block),
        bytes(&sizes.write_unit),
        device.sector_bytes,
        capacity,
    )
    .map_err(|error| {
        let hint = "probe this device: flashfit probe TARGET --output FILE";
        CommandError::from(error).at(&path.display().to_string()).with_hint(hint)
    })?;
    if let Some(reason) = saved.no_erase_block {
        notes.push(format!("the probe in {} found no erase block: {reason}", path.display()));
    }
    notes.extend(saved.first_erase_block.map(first_erase_block));
    let doubt = saved.doubt.map(|Doubt { reason, ends_with_probe }| {
        let reason = format!("the probe in {} may be of another device: {reason}", path.display());
        Doubt { reason, ends_with_probe }
    });
    Ok((saved.geometry, doubt))
}

/// Erase blocks that do not start with the disk ask for a partition that starts with one of them.
pub fn first_erase_block(first: FirstEraseBlock) -> String {
    let FirstEraseBlock { offset } = first;
    format!(
        "the first erase block starts {offset} bytes after the start of the disk: a partition is \
         aligned if it starts there or whole erase blocks later"
    )
}
