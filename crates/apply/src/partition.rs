//! Making a partition table true: sfdisk is run, and the kernel shows what was planned.

use std::path::Path;
use std::time::{Duration, Instant};

use flashfit_device::{Bytes, Device, SystemRoots, WriteConsent};
use flashfit_host::{Program, Runner};

use crate::error::ApplyError;

/// udev may take a moment to make the node.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A partition to be made.
#[derive(Debug, Clone)]
pub struct NewPartition {
    pub sfdisk: Program,
    /// The node that it will have.
    pub node: std::path::PathBuf,
    /// Where it starts on the device.
    pub start: Bytes,
    /// How large it is.
    pub size: Bytes,
}

/// Writes the partition table and returns leave to write to the partition.
///
/// # Errors
/// When the guard refuses, sfdisk fails, or the kernel does not show the partition as planned.
pub fn make(
    runner: &dyn Runner,
    consent: &WriteConsent,
    partition: &NewPartition,
) -> Result<WriteConsent, ApplyError> {
    consent.check(runner)?;
    consent.run(runner, &partition.sfdisk)?;
    if !is_as_planned(partition) {
        // A kernel without support for the table's format gets each partition by ioctl. It may
        // still show those of an earlier table, and adds none that overlaps one of them.
        forget_all(runner, consent)?;
        tell_kernel(runner, consent.path())?;
    }
    wait_for(partition)?;
    Ok(consent.for_partition(runner, &partition.node)?)
}

/// Leave to write to a partition that is there already.
///
/// # Errors
/// When the kernel does not show it as planned, or the guard refuses.
pub fn find(
    runner: &dyn Runner,
    consent: &WriteConsent,
    partition: &NewPartition,
) -> Result<WriteConsent, ApplyError> {
    if !is_as_planned(partition) {
        tell_kernel(runner, consent.path())?;
    }
    wait_for(partition)?;
    Ok(consent.for_partition(runner, &partition.node)?)
}

/// Makes the kernel forget the partitions of a table that was removed from a whole device. The
/// kernel itself does not: it reads a table only while nobody has the device open.
///
/// # Errors
/// When the guard refuses, or partitions are still shown.
pub fn forget_all(runner: &dyn Runner, consent: &WriteConsent) -> Result<(), ApplyError> {
    let Some(delete) = deletion(consent) else { return Ok(()) };
    consent.check(runner)?;
    // partx(8) takes no descriptor: it finds the partitions by the name of the device.
    consent.surrounded(|| runner.run_checked(&delete).map_err(ApplyError::from))?;
    let asked = Instant::now();
    loop {
        let left = SystemRoots::default().partitions_of(&consent.device().disk);
        if left.is_empty() {
            return Ok(());
        }
        if asked.elapsed() > NODE_TIMEOUT {
            let names = left.join(", ");
            let what = format!("the kernel still shows the former partitions {names}");
            return Err(ApplyError::NotAsPlanned { what: vec![what] });
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The program that [`forget_all`] runs; `None` where the kernel shows no partition of the device.
pub(crate) fn deletion(consent: &WriteConsent) -> Option<Program> {
    let Device { disk, partition_start, .. } = consent.device();
    let is_divided =
        partition_start.is_none() && !SystemRoots::default().partitions_of(disk).is_empty();
    is_divided.then(|| Program::new("partx").arg("--delete").arg(consent.path()))
}

/// Makes the kernel show the partitions that the table on `disk` has.
pub(crate) fn tell_kernel(runner: &dyn Runner, disk: &Path) -> Result<(), ApplyError> {
    let tell = Program::new("partx").arg("--update").arg(disk);
    runner.run_checked(&tell)?;
    Ok(())
}

/// Whether the kernel shows the partition where it was planned, and as large.
fn is_as_planned(partition: &NewPartition) -> bool {
    let shown = Device::from_sysfs(&SystemRoots::default(), &partition.node);
    shown.is_ok_and(|shown| {
        shown.partition_start == Some(partition.start) && shown.capacity == partition.size
    })
}

/// What is there instead of the partition.
fn what_is_there(partition: &NewPartition) -> String {
    match Device::from_sysfs(&SystemRoots::default(), &partition.node) {
        Ok(Device { partition_start: Some(start), capacity, .. }) => {
            format!("it is at {} bytes with {} bytes", start.0, capacity.0)
        }
        Ok(_) => "it is no partition".to_owned(),
        Err(_) if partition.node.is_file() => "a regular file has its name; remove it".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn wait_for(partition: &NewPartition) -> Result<(), ApplyError> {
    let asked = Instant::now();
    while !is_as_planned(partition) {
        if asked.elapsed() > NODE_TIMEOUT {
            let NewPartition { node, start, size, .. } = partition;
            return Err(ApplyError::NotAsPlanned {
                what: vec![format!(
                    "the kernel does not show {} at {} bytes with {} bytes: {}",
                    node.display(),
                    start.0,
                    size.0,
                    what_is_there(partition)
                )],
            });
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}
