//! Where this machine remembers what it left unfinished.

use std::path::PathBuf;

use flashfit_apply::UnfinishedRecords;

/// The variable that names another folder.
pub const VARIABLE: &str = "FLASHFIT_STATE_DIR";
/// The folder unless one is named.
pub const USUAL: &str = "/var/lib/flashfit";

/// The records of unfinished devices.
pub fn records() -> UnfinishedRecords {
    let named = crate::environment::value(VARIABLE);
    UnfinishedRecords::in_folder(&named.map_or_else(|| PathBuf::from(USUAL), PathBuf::from))
}
