//! A probe's document as `flashfit plan` and `flashfit tune` use it.

use std::path::Path;

use flashfit_filesystem::plan::PlannedDevice;
use flashfit_geometry::Geometry;
use flashfit_probe::{FirstEraseBlock, read_geometry};

use crate::command_error::CommandError;

/// The geometry in the file that the user names, if any; `notes` gets remarks about it.
pub fn read(
    path: Option<&Path>,
    device: &PlannedDevice,
    notes: &mut Vec<String>,
) -> Result<Geometry, CommandError> {
    let Some(path) = path else { return Ok(Geometry::default()) };
    let saved = read_geometry(path, device)?;
    if let Some(reason) = saved.no_erase_block {
        notes.push(format!("the probe in {} found no erase block: {reason}", path.display()));
    }
    notes.extend(saved.first_erase_block.map(first_erase_block));
    Ok(saved.geometry)
}

/// Erase blocks that do not start with the device ask for a partition that starts with one of them.
pub fn first_erase_block(first: FirstEraseBlock) -> String {
    let FirstEraseBlock { offset, partition_start } = first;
    format!(
        "the first erase block starts at {offset} bytes, not where the device starts: start a \
         partition there or whole erase blocks later, as with --start {partition_start}"
    )
}
