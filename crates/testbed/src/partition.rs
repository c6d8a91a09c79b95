//! Writes the partition table for trials.

use flashfit_apply::ApplyError;
use flashfit_apply::partition::{self, NewPartition};
use flashfit_device::{Bytes, WriteConsent};
use flashfit_filesystem::{LayoutPlan, PartitionLayout};
use flashfit_host::Runner;

use crate::error::TrialError;

/// Writes the partition table of the layout and returns the consent for the target of the file
/// systems: the partition, or the device itself.
///
/// # Errors
/// If the guard refuses, sfdisk fails, or the kernel does not show the partition.
pub fn make(
    runner: &dyn Runner,
    consent: &WriteConsent,
    plan: &LayoutPlan,
) -> Result<WriteConsent, TrialError> {
    let shown = |error: ApplyError| -> TrialError {
        match error {
            ApplyError::Refused(refusal) => refusal.into(),
            ApplyError::NotAsPlanned { what } => TrialError::Device {
                what: format!("was partitioned, but not as planned: {}", what.join("; ")),
            },
            other => TrialError::stopped(&other),
        }
    };
    let sector_bytes = consent.device().queue.logical_sector_bytes;
    let sfdisk = plan.partitioning(consent.path(), sector_bytes, None);
    let (Some(sfdisk), PartitionLayout::Partition { start_bytes, size_bytes, .. }) =
        (sfdisk, plan.layout)
    else {
        partition::forget_all(runner, consent).map_err(shown)?;
        return Ok(consent.clone());
    };
    let partition = NewPartition {
        sfdisk,
        node: plan.layout.node(consent.path()),
        start: Bytes(start_bytes),
        size: Bytes(size_bytes),
    };
    partition::make(runner, consent, &partition).map_err(shown)
}
