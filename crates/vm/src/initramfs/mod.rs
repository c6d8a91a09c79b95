//! Builds the guest's initramfs: init script, busybox, the program to run, and the requested
//! programs and kernel modules with their dependencies.
//!
//! It is not compressed, because decompression on an emulated processor takes longer than copying.
//! Limit: all of it stays in the guest's memory.

mod contents;
mod kept;

use std::io::{BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use flashfit_host::Runner;

pub(crate) use contents::boot_modules;

use crate::VmError;
use crate::options::VmOptions;

#[derive(Debug)]
pub(crate) struct Initramfs {
    pub file: PathBuf,
    pub bytes: u64,
    /// Requested programs that the host lacks.
    pub lacking_programs: Vec<String>,
    /// Requested modules that the kernel lacks.
    pub lacking_modules: Vec<String>,
}

/// Finds the initramfs in the cache, or builds it. `scratch` is used without a cache directory.
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
    // If several machines start at once, the first builds it and the others find it in the cache.
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
        // The cache is full, so it is not kept.
        Err(VmError::File { source, .. })
            if source.kind() == ErrorKind::StorageFull && folder != scratch =>
        {
            keep(scratch)
        }
        made => made,
    }
}
