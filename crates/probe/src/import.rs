//! Tables that flashbench printed, in place of a device.

use std::path::PathBuf;

use flashfit_geometry::flashbench::{Imported, inference};
use flashfit_host::input_file::{DOCUMENT_BYTES, read_capped};
use flashfit_twin::DeviceHints;

use crate::document::{ProbeMode, ProbeSettings};
use crate::error::ProbeRunError;
use crate::run::ProbeOutcome;
use crate::twin::TwinMeasurements;

/// Infers the geometry of one device from the tables in these files.
///
/// # Errors
/// If a file cannot be read, or has no usable table.
pub fn import(
    files: &[PathBuf],
    seed: u64,
) -> Result<(ProbeSettings, ProbeOutcome), ProbeRunError> {
    let imported = read(files)?;
    let probed = inference::infer(&imported);
    let hints = DeviceHints::from_findings(&imported, &probed.findings);
    let tables = imported.open_erase_blocks;
    let twin = TwinMeasurements { tables, hints, ..TwinMeasurements::default() };
    Ok((settings(files, seed), ProbeOutcome { probed, twin, failure: None }))
}

/// All tables of the files, each once; a warning names the file where there are several.
fn read(files: &[PathBuf]) -> Result<Imported, ProbeRunError> {
    let mut all = Imported::default();
    for path in files {
        let shown = path.display();
        let bytes = read_capped(path, DOCUMENT_BYTES)?;
        let mut imported = Imported::read(&bytes)
            .map_err(|error| ProbeRunError::Import { path: path.clone(), error })?;
        if files.len() > 1 {
            for warning in &mut imported.warnings {
                warning.reason = format!("{} ({shown})", warning.reason);
            }
        }
        all.add(imported);
    }
    all.drop_repeated();
    Ok(all)
}

fn settings(files: &[PathBuf], seed: u64) -> ProbeSettings {
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    ProbeSettings {
        target: names.join(", "),
        mode: ProbeMode::Import,
        simulated: false,
        seed,
        region: None,
        device: None,
        declared: Default::default(),
        created_unix_s: None,
    }
}
