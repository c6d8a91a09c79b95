//! Records a workload on a new file system.

use std::sync::Arc;

use flashfit_filesystem::Recipe;
use flashfit_host::Runner;

use crate::CrashError;
use crate::blocks::BlockId;
use crate::device::{CrashDevice, DiskContents, OverlayDisk};
use crate::log::{CrashLog, LogEntry};
use crate::mounting::{Mounting, Work, WorkError};
use crate::workload::LogPosition;

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
    pub mounting: &'a Mounting<'a>,
    pub work: Work<'a>,
}

/// A log, and the requests of the unmount after all work.
#[derive(Debug)]
pub struct RecordedWork {
    pub log: CrashLog,
    pub unmount: Vec<LogEntry>,
}

/// Makes the file system on `device`, which may show anything, mounts it and does the work.
///
/// # Errors
/// When the file system cannot be made or mounted, or nothing was acknowledged.
pub fn record(
    device: &CrashDevice,
    how: &WorkloadRecording<'_>,
) -> Result<RecordedWork, CrashError> {
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
    let done = how.mounting.work(how.recipe, &how.work, device);
    let operations = done.map_err(|error| match error {
        WorkError::NotMounted(reason) => {
            CrashError::NotMounted { setup: how.setup.to_owned(), reason }
        }
        WorkError::Other(error) => error,
    })?;
    let end = device.disk().recorded();
    how.mounting.unmount()?;
    device.drop_pages()?;
    let (mut entries, pool) = {
        let mut disk = device.disk();
        (disk.take_recorded(), std::mem::take(&mut disk.pool))
    };
    let unmount = entries.split_off(end);
    // What was written is in the log, so the device need not keep it.
    let zeros = Arc::new(vec![BlockId::ZERO; base.len()]);
    device.disk().load(DiskContents { base: zeros, ..DiskContents::default() });
    let operations = operations?;
    if !operations.iter().any(|done| done.error.is_none() && done.operation.is_sync()) {
        return Err(CrashError::NothingAcknowledged);
    }
    let (setup, seed) = (how.setup.to_owned(), how.work.seed);
    let log = CrashLog { setup, seed, base, pool, entries, operations };
    Ok(RecordedWork { log, unmount })
}
