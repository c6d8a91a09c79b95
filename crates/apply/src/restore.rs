//! Writing back what was saved. What lay between the two ends of the device and was overwritten
//! does not come back with it.

use std::path::Path;

use flashfit_device::WriteConsent;
use flashfit_host::calendar;
use flashfit_host::{Program, Runner};

use crate::backup::Backup;
use crate::error::ApplyError;
use crate::fingerprint::DeviceFingerprint;
use crate::journal::{ApplyJournal, ApplyStage, BackupPointer};
use crate::marker::{self, ApplyMarker, GAP, LENGTH};
use crate::partition;
use crate::region;
use crate::steps::{ApplyEvent, ApplyTools, WrittenPart};
use crate::sysfs_queue::SysfsQueue;

/// Writes a backup to the device that it was made from, and reads it back from the device itself.
/// The marker's place comes last, so that a device that is restored only in part is reported as
/// unfinished.
/// `restore_command` is the command that does this again.
///
/// # Errors
/// See [`ApplyError`]; the same call again begins again.
pub fn restore(
    tools: &ApplyTools<'_>,
    consent: &WriteConsent,
    backup: &Backup,
    has_queue: bool,
    restore_command: &str,
) -> Result<(), ApplyError> {
    fits(tools, consent, backup)?;
    let pieces = backup.contents()?;
    let folder = std::path::absolute(backup.folder()).map_err(ApplyError::file(backup.folder()))?;
    let mut journal = match ApplyJournal::read(&folder)? {
        Some(journal) => journal,
        None => {
            let device = DeviceFingerprint::of(tools.system, consent.device());
            ApplyJournal::new(device, Vec::new(), restore_command, restore_command)
        }
    };
    journal.set_device(DeviceFingerprint::of(tools.system, consent.device()));
    restore_command.clone_into(&mut journal.restore_command);
    tools.records.put(&BackupPointer { device: journal.device.clone(), backup: folder.clone() })?;
    tools.records.end_improvements(&journal.device)?;
    let mut step = |stage| -> Result<(), ApplyError> {
        journal.begin(&folder, stage)?;
        (tools.on_event)(&ApplyEvent::StageStarted(stage));
        Ok(())
    };
    step(ApplyStage::Restoring)?;
    mark(tools, consent, &folder)?;
    for (offset, bytes) in order(&pieces) {
        if tools.interrupt.is_raised() {
            return Err(ApplyError::Interrupted);
        }
        (tools.on_event)(&ApplyEvent::Writing(WrittenPart::Saved));
        region::write(tools.runner, consent, offset, bytes)?;
    }
    compare(consent, &pieces)?;
    reread(tools.runner, consent);
    step(ApplyStage::Restored)?;
    if has_queue {
        if let Some(before) = &journal.scheduler_before {
            SysfsQueue::of(tools.system, consent.device()).set(before)?;
        }
    }
    tools.records.remove(&journal.device)
}

/// Whether a backup is of the consented device.
///
/// # Errors
/// [`ApplyError::OtherDevice`].
pub fn fits(
    tools: &ApplyTools<'_>,
    consent: &WriteConsent,
    backup: &Backup,
) -> Result<(), ApplyError> {
    let now = DeviceFingerprint::of(tools.system, consent.device());
    match backup.manifest().device.difference(&now) {
        Some(what) => Err(ApplyError::OtherDevice { folder: backup.folder().to_owned(), what }),
        None => Ok(()),
    }
}

fn mark(tools: &ApplyTools<'_>, consent: &WriteConsent, folder: &Path) -> Result<(), ApplyError> {
    if GAP + LENGTH as u64 > consent.device().capacity.0 {
        return Ok(());
    }
    let marker = ApplyMarker {
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        backup: Some(folder.to_owned()),
        unix_s: calendar::unix_seconds(),
    };
    (tools.on_event)(&ApplyEvent::Writing(WrittenPart::Marker));
    marker::put(tools.runner, consent, GAP, &marker)
}

/// The pieces, cut so that the place of the marker is a separate part, and the last.
fn order(pieces: &[(u64, Vec<u8>)]) -> Vec<(u64, &[u8])> {
    let (from, to) = marker::gap();
    let mut parts = Vec::new();
    let mut last = None;
    for (offset, bytes) in pieces.iter().rev() {
        if *offset > 0 || bytes.len() < to {
            parts.push((*offset, bytes.as_slice()));
            continue;
        }
        parts.push((to as u64, &bytes[to..]));
        parts.push((0, &bytes[..from]));
        last = Some((GAP, &bytes[from..to]));
    }
    parts.into_iter().chain(last).filter(|(_, bytes)| !bytes.is_empty()).collect()
}

fn compare(consent: &WriteConsent, pieces: &[(u64, Vec<u8>)]) -> Result<(), ApplyError> {
    let Some(offset) = region::differing(consent, pieces)? else { return Ok(()) };
    let what = vec![format!("at {offset} it does not read back as written")];
    Err(ApplyError::NotAsPlanned { what })
}

/// Makes the kernel show the partitions that exist now. Where it cannot, it does when the device is
/// put in again.
fn reread(runner: &dyn Runner, consent: &WriteConsent) {
    let program = Program::new("blockdev").arg("--rereadpt").arg(consent.path());
    let is_read = runner.run(&program).is_ok_and(|outcome| outcome.code == Some(0));
    if consent.device().partition_start.is_some() {
        return;
    }
    // A kernel without support for the table's format has read it and shows no partition.
    let shows_none = match is_read {
        true => partition::deletion(consent).is_none(),
        false => partition::forget_all(runner, consent).is_ok(),
    };
    if shows_none {
        // It fails where there is no table now.
        let _ = partition::tell_kernel(runner, consent.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_markers_place_is_written_last() {
        let pieces = [(0, vec![1; 100_000]), (500_000, vec![2; 10])];
        let parts: Vec<(u64, usize)> =
            order(&pieces).into_iter().map(|(offset, bytes)| (offset, bytes.len())).collect();
        assert_eq!(parts, [(500_000, 10), (28_672, 71_328), (0, 24_576), (24_576, 4096)]);
        assert_eq!(order(&[(0, vec![1; 1000])]).len(), 1, "no room for a marker");
    }
}
