//! Where job files and results are put while a trial is made: in the run directory, so that they
//! are never on the device, or in a temporary folder where fio cannot use the run directory's name.

use std::path::{Path, PathBuf};

use flashfit_bench::target::is_plain;
use flashfit_host::dir::DirHandle;
use flashfit_user_error::ExitClass;
use tempfile::TempDir;

use crate::command_error::CommandError;

/// A name that nobody else gives a folder: it is removed with all that is in it.
const FOLDER: &str = ".flashfit-scratch";
/// Where file systems are mounted.
const MOUNTED: &str = "mnt";

/// Makes the folders that are only needed while trials are made, in a run directory that may come
/// from elsewhere: none of them is a link then.
pub fn own_folders(dir: &Path) -> Result<(), CommandError> {
    ScratchFolder::tidy(dir);
    let folder = DirHandle::open(dir)?;
    folder.create_dir(FOLDER)?;
    folder.create_dir(MOUNTED)?;
    Ok(())
}

/// A folder that is only needed while trials are made.
#[derive(Debug)]
pub struct ScratchFolder {
    path: PathBuf,
    /// Removed with the value; that in the run directory is removed with the run's other leftovers.
    _temporary: Option<TempDir>,
}

impl ScratchFolder {
    /// The folder for a run in `dir`.
    pub fn of(dir: &Path) -> Result<Self, CommandError> {
        let own = dir.join(FOLDER);
        if std::path::absolute(&own).is_ok_and(|path| is_plain(&path)) {
            return Ok(Self { path: own, _temporary: None });
        }
        let temporary =
            tempfile::Builder::new().prefix("flashfit-").tempdir().map_err(|error| {
                CommandError::new(
                    ExitClass::Environment,
                    format!("cannot make a temporary folder: {error}"),
                    Some("name a run directory without spaces and signs with --dir"),
                )
            })?;
        Ok(Self { path: temporary.path().to_owned(), _temporary: Some(temporary) })
    }

    /// Removes what is left of it in the run directory `dir`.
    pub fn tidy(dir: &Path) {
        let _ = std::fs::remove_dir_all(dir.join(FOLDER));
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
