//! Records a workload on a new file system.

use std::path::Path;

use flashfit_filesystem::Recipe;
use flashfit_host::Runner;

use crate::CrashError;
use crate::device::{CrashDevice, Disk};
use crate::log::CrashLog;
use crate::observe::{mount_with, unmount_at};
use crate::workload::{Execution, LogPosition, Operation};

/// Making a small file system takes a moment.
const MKFS_LIMIT: std::time::Duration = std::time::Duration::from_secs(120);

impl LogPosition for CrashDevice {
    fn position(&self) -> u32 {
        u32::try_from(self.disk().recorded()).expect("logs are short")
    }
}

/// What is recorded, and where.
#[derive(Clone, Copy)]
pub struct Recording<'a> {
    pub runner: &'a dyn Runner,
    pub recipe: &'a Recipe,
    /// In words, for the log.
    pub setup: &'a str,
    pub seed: u64,
    /// Where to mount.
    pub point: &'a Path,
}

/// Makes the file system on `device`, which may show anything, mounts it and carries out
/// `operations`, each with its number.
///
/// # Errors
/// When the file system cannot be made or mounted, or nothing was acknowledged.
pub fn record(
    device: &CrashDevice,
    how: &Recording<'_>,
    operations: &[(u32, Operation)],
) -> Result<CrashLog, CrashError> {
    let size = device.disk().device_bytes();
    device.drop_pages()?;
    *device.disk() = Disk::unwritten(size);
    let node = device.node();
    for program in std::iter::once(how.recipe.mkfs(node)).chain(how.recipe.tune(node)) {
        how.runner.run_checked(&program.timeout(MKFS_LIMIT))?;
    }
    device.drop_pages()?;
    let base = {
        let mut disk = device.disk();
        let base = disk.snapshot();
        disk.record();
        base
    };
    let options = how.recipe.mount_options();
    mount_with(node, how.recipe.kind(), how.point, options).map_err(|error| {
        CrashError::NotMounted { setup: how.setup.to_owned(), reason: error.to_string() }
    })?;
    let mut execution = Execution::new(how.point);
    for (number, operation) in operations {
        execution.run(*number, operation, device);
    }
    let (entries, pool) = {
        let mut disk = device.disk();
        (disk.take_recorded(), std::mem::take(&mut disk.pool))
    };
    // The blocks that the file system still shows are of no use to anyone.
    let shown = crate::device::DiskContents {
        base: std::sync::Arc::new(vec![crate::blocks::BlockId::ZERO; base.len()]),
        changed: std::collections::HashMap::new(),
    };
    unmount_at(how.point).map_err(CrashError::Unmount)?;
    device.drop_pages()?;
    device.disk().load(shown);
    let operations = execution.finish();
    if !operations.iter().any(|done| done.error.is_none() && done.operation.is_sync()) {
        return Err(CrashError::NothingAcknowledged);
    }
    Ok(CrashLog { setup: how.setup.to_owned(), seed: how.seed, base, pool, entries, operations })
}
