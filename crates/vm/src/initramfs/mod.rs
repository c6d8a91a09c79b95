//! The guest's first file system: the start script, busybox, the program to run, and what was
//! asked for of the host's programs and the kernel's modules, with all that these need.
//!
//! Not compressed: the emulated processor would take longer to unpack it than the host to hand it
//! over. Limits: all of it stays in the guest's memory.

mod contents;
mod kept;

use std::io::{BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use flashfit_host::Runner;

pub(crate) use contents::boot_modules;

use crate::VmError;
use crate::options::VmOptions;

/// A file that the kernel unpacks at its start.
#[derive(Debug)]
pub(crate) struct Initramfs {
    /// The archive.
    pub file: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Programs that the host does not have.
    pub lacking_programs: Vec<String>,
    /// Modules that the kernel does not have.
    pub lacking_modules: Vec<String>,
}

/// Finds it built, or builds it; `scratch` is where it is put when the user has no cache folder.
pub(crate) fn make(
    options: &VmOptions,
    scratch: &Path,
    runner: &dyn Runner,
) -> Result<Initramfs, VmError> {
    let folder = crate::cache_folder::cache_folder()
        .map(|cache| cache.join("initramfs"))
        .filter(|folder| std::fs::create_dir_all(folder).is_ok())
        .unwrap_or_else(|| scratch.to_owned());
    let request = contents::request(options);
    // Of machines that are started at once the first builds, and the others find it built.
    static ONE_BUILDS: Mutex<()> = Mutex::new(());
    let _one = ONE_BUILDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = kept::find(&folder, &request) {
        return Ok(found);
    }
    let contents = contents::gather(options, runner)?;
    let keep = |folder: &Path| {
        kept::keep(folder, &request, &contents, |tree, file| {
            tree.archive(BufWriter::with_capacity(1 << 20, file)).map(|_| ())
        })
    };
    match keep(&folder) {
        // For this once it need not be kept.
        Err(VmError::File { source, .. })
            if source.kind() == ErrorKind::StorageFull && folder != scratch =>
        {
            keep(scratch)
        }
        made => made,
    }
}
