//! Records a workload on a new file system.

use std::path::Path;
use std::sync::Arc;

use flashfit_filesystem::Recipe;
use flashfit_host::Runner;

use crate::CrashError;
use crate::blocks::BlockId;
use crate::device::{CrashDevice, DiskContents, OverlayDisk};
use crate::log::CrashLog;
use crate::observe::{mount_with, unmount_at};
use crate::workload::{
    CrashWorkload, Execution, LogPosition, LoggedOperation, Operation, run_program,
};

/// Making a small file system takes a moment.
const MKFS_LIMIT: std::time::Duration = std::time::Duration::from_secs(120);

impl LogPosition for CrashDevice {
    fn position(&self) -> u32 {
        u32::try_from(self.disk().recorded()).expect("logs are short")
    }
}

/// What is recorded, and where.
#[derive(Clone, Copy)]
pub struct WorkloadRecording<'a> {
    pub runner: &'a dyn Runner,
    pub recipe: &'a Recipe,
    /// In words, for the log.
    pub setup: &'a str,
    pub seed: u64,
    pub point: &'a Path,
}

/// Makes the file system on `device`, which may show anything, mounts it and does the work.
///
/// # Errors
/// When the file system cannot be made or mounted, or nothing was acknowledged.
pub fn record(
    device: &CrashDevice,
    how: &WorkloadRecording<'_>,
    workload: &CrashWorkload,
) -> Result<CrashLog, CrashError> {
    record_with(device, how, |root| match workload {
        CrashWorkload::Files | CrashWorkload::Metadata => {
            Ok(execute(root, &workload.operations(how.seed), device))
        }
        CrashWorkload::Sqlite(mode) => {
            let (program, input) = mode.program(root, how.seed);
            run_program(&program, &input, device)
        }
        CrashWorkload::Program(program) => {
            let seed = how.seed.to_string();
            run_program(&program.program(root).env("FLASHFIT_SEED", seed), "", device)
        }
    })
}

/// The same with these operations, each with its number.
///
/// # Errors
/// See [`record`].
pub fn record_operations(
    device: &CrashDevice,
    how: &WorkloadRecording<'_>,
    operations: &[(u32, Operation)],
) -> Result<CrashLog, CrashError> {
    record_with(device, how, |root| Ok(execute(root, operations, device)))
}

fn execute(
    root: &Path,
    operations: &[(u32, Operation)],
    device: &CrashDevice,
) -> Vec<LoggedOperation> {
    let mut execution = Execution::new(root);
    for (number, operation) in operations {
        execution.run(*number, operation, device);
    }
    execution.finish()
}

fn record_with(
    device: &CrashDevice,
    how: &WorkloadRecording<'_>,
    work: impl FnOnce(&Path) -> Result<Vec<LoggedOperation>, CrashError>,
) -> Result<CrashLog, CrashError> {
    let size = device.disk().device_bytes();
    device.drop_pages()?;
    *device.disk() = OverlayDisk::unwritten(size);
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
    let operations = work(how.point);
    let (entries, pool) = {
        let mut disk = device.disk();
        (disk.take_recorded(), std::mem::take(&mut disk.pool))
    };
    unmount_at(how.point).map_err(CrashError::Unmount)?;
    device.drop_pages()?;
    // What was written is in the log, so the device need not keep it.
    let zeros = Arc::new(vec![BlockId::ZERO; base.len()]);
    device.disk().load(DiskContents { base: zeros, ..DiskContents::default() });
    let operations = operations?;
    if !operations.iter().any(|done| done.error.is_none() && done.operation.is_sync()) {
        return Err(CrashError::NothingAcknowledged);
    }
    Ok(CrashLog { setup: how.setup.to_owned(), seed: how.seed, base, pool, entries, operations })
}
