//! Looks at a crash state as a user would after power returns: mounts it, reads everything, writes
//! and syncs a file, unmounts it and checks it; and where that fails or the file system needs it,
//! repairs it first and looks again.

mod mount;
mod mounted;
mod tree;

use std::time::Duration;

use flashfit_filesystem::Recipe;
use flashfit_host::kernel_log::KernelLog;
use flashfit_host::{Program, ProgramError, Runner};

use crate::CrashError;
use crate::device::{CrashDevice, DiskContents, ReadBlock};
use crate::log::LogEntry;
use crate::mounting::{Look, Looking, Mounting};
use crate::workload::CrashWorkload;

pub use mount::{mount_with, unmount_at};
pub use mounted::{MountLook, MountedView, ProgramView};
pub use tree::{ObservedNode, ObservedTree};

/// Checking a device of some hundred megabytes takes milliseconds.
pub(crate) const FSCK_LIMIT: Duration = Duration::from_secs(120);

/// How states of one setup are mounted and checked.
pub struct StateObserver<'a> {
    pub runner: &'a dyn Runner,
    pub recipe: &'a Recipe,
    /// Whether the file system is to be repaired before it is mounted.
    pub needs_fsck: bool,
    pub mounting: Mounting<'a>,
    pub workload: &'a CrashWorkload,
}

/// What was seen of one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashObservation {
    /// As the kernel recovers it.
    pub recovered: MountedView,
    /// What the checking program said afterwards; `None` if it found nothing wrong.
    pub damage: Option<String>,
    /// After a repair, where one was needed.
    pub repaired: Option<RepairedView>,
}

/// A state after a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairedView {
    /// Why the repair failed.
    pub not_repaired: Option<String>,
    pub view: MountedView,
}

/// An observation with what it cost and what it depended on.
#[derive(Debug, Clone)]
pub struct ObservedState {
    pub observation: CrashObservation,
    /// The blocks that decided it, in the order of reading.
    pub reads: Vec<ReadBlock>,
    /// From the call of mount to its return.
    pub recovery: Duration,
    /// The requests of the recovery, where they were recorded.
    pub recovery_log: Vec<LogEntry>,
}

impl StateObserver<'_> {
    /// Looks at one state. `input` is for the checking program. With `record_recovery`, the
    /// requests of the first mount are kept.
    ///
    /// # Errors
    /// When something other than the file system fails.
    pub fn observe(
        &self,
        device: &CrashDevice,
        contents: DiskContents,
        input: &str,
        record_recovery: bool,
    ) -> Result<ObservedState, CrashError> {
        let mut log = KernelLog::from_now();
        self.load(device, contents.clone())?;
        if record_recovery {
            device.disk().record();
        }
        let mut recovery_log = Vec::new();
        let Look { view: recovered, recovery } = if self.needs_fsck {
            let not_mounted = Some("it is repaired first".to_owned());
            let view = MountedView { not_mounted, ..Default::default() };
            Look { view, recovery: Duration::ZERO }
        } else {
            self.mounted(device, &mut log, input, || {
                recovery_log = device.disk().take_recorded();
            })?
        };
        let damage = match recovered.not_mounted {
            Some(_) => None,
            None => self.damage(device)?,
        };
        let mut reads = device.disk().reads().to_vec();
        let wants_repair = recovered.not_mounted.is_some() || damage.is_some();
        let mut repaired = None;
        if let Some(repair) = self.recipe.repair(device.node()).filter(|_| wants_repair) {
            self.load(device, contents)?;
            repaired = Some(self.repaired(device, &repair, input, &mut log)?);
            // What both depend on, each block once.
            let known: std::collections::HashSet<u32> = reads.iter().map(|read| read.0).collect();
            let disk = device.disk();
            reads.extend(disk.reads().iter().filter(|read| !known.contains(&read.0)));
        }
        let observation = CrashObservation { recovered, damage, repaired };
        Ok(ObservedState { observation, reads, recovery, recovery_log })
    }

    fn load(&self, device: &CrashDevice, contents: DiskContents) -> Result<(), CrashError> {
        device.drop_pages()?;
        device.disk().load(contents);
        Ok(())
    }

    fn mounted(
        &self,
        device: &CrashDevice,
        log: &mut KernelLog,
        input: &str,
        on_mount: impl FnOnce(),
    ) -> Result<Look, CrashError> {
        let what = Looking {
            runner: self.runner,
            device,
            recipe: self.recipe,
            workload: self.workload,
            input,
        };
        self.mounting.look(&what, log, on_mount)
    }

    fn damage(&self, device: &CrashDevice) -> Result<Option<String>, CrashError> {
        // The program reads through the kernel's pages, which unmounting may have left.
        device.drop_pages()?;
        let outcome = self.runner.run(&self.recipe.fsck(device.node()).timeout(FSCK_LIMIT));
        Ok(said(outcome)?.map(|text| mounted::without_name(&text, device.node())))
    }

    fn repaired(
        &self,
        device: &CrashDevice,
        repair: &Program,
        input: &str,
        log: &mut KernelLog,
    ) -> Result<RepairedView, CrashError> {
        let outcome = self.runner.run(&repair.clone().timeout(FSCK_LIMIT));
        let not_repaired =
            repair_failure(outcome)?.map(|text| mounted::without_name(&text, device.node()));
        device.drop_pages()?;
        let mut view = self.mounted(device, log, input, || {})?.view;
        if view.not_mounted.is_none() {
            if let Some(damage) = self.damage(device)? {
                view.unreadable = Some(format!("damaged even after the repair: {damage}"));
            }
        }
        Ok(RepairedView { not_repaired, view })
    }
}

/// Why a repairing program failed.
pub(crate) fn repair_failure(
    outcome: Result<flashfit_host::ProgramOutcome, ProgramError>,
) -> Result<Option<String>, CrashError> {
    match outcome {
        // Bits 0 and 1 of fsck(8): errors were corrected.
        Ok(outcome) if outcome.code.is_some_and(|code| code & !3 == 0) => Ok(None),
        other => said(other),
    }
}

/// What a checking program found; `None` if nothing.
pub(crate) fn said(
    outcome: Result<flashfit_host::ProgramOutcome, ProgramError>,
) -> Result<Option<String>, CrashError> {
    match outcome {
        Ok(outcome) if outcome.success() => Ok(None),
        Ok(outcome) => {
            let text = format!("{}\n{}", outcome.stdout, outcome.stderr);
            let lines: Vec<&str> =
                text.lines().map(str::trim).filter(|line| !line.is_empty()).take(6).collect();
            let code = outcome.code.map_or("a signal".to_owned(), |code| format!("code {code}"));
            Ok(Some(format!("{code}: {}", lines.join(" / "))))
        }
        Err(error @ ProgramError::TimedOut { .. }) => Ok(Some(error.to_string())),
        Err(error) => Err(error.into()),
    }
}
