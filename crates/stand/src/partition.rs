//! Making the layout true: the partition table, and the partition's node.

use std::path::Path;
use std::time::{Duration, Instant};

use flashfit_filesystem::LayoutPlan;
use flashfit_host::{Program, Runner};
use flashfit_medium::WriteConsent;

use crate::error::TrialError;

/// udev may take a moment to make the node.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);

/// Writes the partition table that the layout asks for and returns leave to write to where the file
/// system goes: the partition, or the medium itself.
///
/// # Errors
/// When the guard refuses, sfdisk fails, or the kernel does not show the partition.
pub fn make(
    runner: &dyn Runner,
    consent: &WriteConsent,
    plan: &LayoutPlan,
) -> Result<WriteConsent, TrialError> {
    let sector_bytes = consent.medium().queue.logical_sector_bytes;
    let Some(sfdisk) = plan.layout.partitioning(consent.path(), sector_bytes) else {
        return Ok(consent.clone());
    };
    consent.check(runner)?;
    runner.run_checked(&sfdisk)?;
    let node = plan.layout.node(consent.path());
    if !node.exists() {
        // A kernel without support for the table's format is told each partition.
        let tell = Program::new("partx").arg("--update").arg(consent.path().display().to_string());
        runner.run_checked(&tell)?;
    }
    wait_for(&node)?;
    Ok(consent.for_partition(runner, &node)?)
}

fn wait_for(node: &Path) -> Result<(), TrialError> {
    let asked = Instant::now();
    while !node.exists() {
        if asked.elapsed() > NODE_TIMEOUT {
            return Err(TrialError::Medium {
                what: format!("was partitioned, but {} did not appear", node.display()),
            });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
