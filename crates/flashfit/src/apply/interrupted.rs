//! Interrupted work that a new apply continues or replaces.

use std::path::{Path, PathBuf};

use flashfit_apply::backup::default_folder;
use flashfit_apply::{Backup, keep_data};
use flashfit_device::{Device, SystemRoots};
use flashfit_report::text::plain;

use super::args::ApplyArgs;
use super::keep_earlier::absolute;
use super::unfinished::unfinished;
use crate::output::note;
use crate::state;

/// The directory for the backup, and whether it already has that of the interrupted work which the
/// same command continues.
pub fn backup_folder(args: &ApplyArgs, device: &Device) -> (PathBuf, bool) {
    let given = args.backup.as_deref();
    let found = unfinished(device).ok().flatten();
    let earlier = found.filter(|found| found.is_sure && found.stage.is_some());
    let folder = earlier.and_then(|found| found.backup).filter(|folder| Backup::is_in(folder));
    match folder.filter(|folder| given.is_none_or(|given| absolute(given) == *folder)) {
        Some(folder) => (folder, true),
        None => {
            let new = || default_folder(device, flashfit_host::calendar::unix_seconds());
            (given.map_or_else(new, Path::to_owned), false)
        }
    }
}

/// What was interrupted on the device before, and ends with an apply.
pub fn note_unfinished(device: &Device) {
    if let Ok(Some(found)) = unfinished(device) {
        note(&plain(&format!("{found}.")));
    }
    let system = SystemRoots::default();
    let found = keep_data::unfinished(&system, device, &state::records());
    if let Ok(Some(found)) = found.map(|found| found.filter(|found| !found.is_complete)) {
        let ends = if found.is_sure { " It cannot be continued after this apply." } else { "" };
        note(&plain(&format!("{found}.{ends}")));
    }
}
