//! Making the layout true: the partition table, and the partition's node.

use std::path::Path;
use std::time::{Duration, Instant};

use flashfit_filesystem::{Layout, LayoutPlan};
use flashfit_host::{Program, Runner};
use flashfit_medium::{Bytes, Medium, System, WriteConsent};

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
    if !is_as_planned(&node, &plan.layout) {
        // A kernel without support for the table's format is told each partition; it may still
        // show one of an earlier table.
        let tell = Program::new("partx").arg("--update").arg(consent.path().display().to_string());
        runner.run_checked(&tell)?;
    }
    wait_for(&node, &plan.layout)?;
    Ok(consent.for_partition(runner, &node)?)
}

/// Whether the kernel shows the partition where it was planned, and as large.
fn is_as_planned(node: &Path, layout: &Layout) -> bool {
    let Ok(shown) = Medium::at_a_glance(&System::default(), node) else { return false };
    match layout {
        Layout::WholeMedium => true,
        Layout::Partition { start_bytes, size_bytes } => {
            shown.partition_start == Some(Bytes(*start_bytes))
                && shown.capacity == Bytes(*size_bytes)
        }
    }
}

fn wait_for(node: &Path, layout: &Layout) -> Result<(), TrialError> {
    let asked = Instant::now();
    while !is_as_planned(node, layout) {
        if asked.elapsed() > NODE_TIMEOUT {
            return Err(TrialError::Medium {
                what: format!("was partitioned, but {} did not appear as planned", node.display()),
            });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
