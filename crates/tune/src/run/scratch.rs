//! Where job files and results are put while a trial is made: in the run directory, so that they
//! are never on the device, or in a temporary folder where fio cannot use the run directory's name.

use std::path::{Path, PathBuf};

use flashfit_bench::target::is_plain;
use flashfit_host::dir::DirHandle;
use tempfile::TempDir;

use super::RunError;

/// A name that nobody else gives a folder: it is removed with everything that is in it.
const FOLDER: &str = ".flashfit-scratch";
/// Where file systems are mounted.
pub(super) const MOUNTED: &str = "mnt";

/// Makes the folders that are only needed while trials are made, in a run directory that may come
/// from elsewhere: none of them is a link then.
pub(super) fn create_folders(dir: &Path) -> Result<(), RunError> {
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
    pub fn of(dir: &Path) -> Result<Self, RunError> {
        let own = dir.join(FOLDER);
        if std::path::absolute(&own).is_ok_and(|path| is_plain(&path)) {
            return Ok(Self { path: own, _temporary: None });
        }
        let temporary = tempfile::Builder::new().prefix("flashfit-").tempdir();
        let temporary = temporary.map_err(RunError::Scratch)?;
        Ok(Self { path: temporary.path().to_owned(), _temporary: Some(temporary) })
    }

    /// Removes what is left of it in the run directory `dir`.
    pub(super) fn tidy(dir: &Path) {
        let _ = std::fs::remove_dir_all(dir.join(FOLDER));
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}
