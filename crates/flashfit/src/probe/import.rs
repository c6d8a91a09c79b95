//! Tables that flashbench printed, in place of a device.

use std::path::PathBuf;

use flashfit_geometry::flashbench::{Imported, inference};
use flashfit_host::input_file::{DOCUMENT_BYTES, read_capped};
use flashfit_twin::DeviceHints;

use super::Ended;
use super::document::{ProbeMode, ProbeSettings};
use crate::command_error::CommandError;

/// What the tables of one device say.
pub fn probe(files: &[PathBuf]) -> Result<Ended, CommandError> {
    let imported = read(files)?;
    let probed = inference::infer(&imported);
    let hints = DeviceHints::of(&imported, &probed.findings);
    Ok(Ended { tables: imported.open_units, hints, ..Ended::new(probed, None) })
}

/// All tables of the files; a warning names the file where there are several.
fn read(files: &[PathBuf]) -> Result<Imported, CommandError> {
    let mut all = Imported::default();
    for path in files {
        let shown = path.display();
        let bytes = read_capped(path, DOCUMENT_BYTES)?;
        let mut imported = Imported::read(&bytes)
            .map_err(|error| CommandError::from(error).at(&shown.to_string()))?;
        if files.len() > 1 {
            for warning in &mut imported.warnings {
                warning.reason = format!("{} ({shown})", warning.reason);
            }
        }
        all.add(imported);
    }
    Ok(all)
}

/// What was asked for.
pub fn asked(files: &[PathBuf], seed: u64) -> ProbeSettings {
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    ProbeSettings {
        target: names.join(", "),
        mode: ProbeMode::Import,
        simulated: false,
        seed,
        region: None,
        medium: None,
        declared: Default::default(),
    }
}
