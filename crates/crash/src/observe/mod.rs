//! Looks at a crash state as a user would after power returns: mounts it, reads everything, writes
//! and syncs a file, unmounts it and checks it; and where that fails or the file system needs it,
//! repairs it first and looks again.

mod fullness;
mod mount;
mod mounted;
pub(crate) mod remains;
mod tree;

use std::collections::HashSet;
use std::time::Duration;

use flashfit_filesystem::Recipe;
use flashfit_host::kernel_log::KernelLog;
use flashfit_host::{ProgramError, Runner};

use crate::CrashError;
use crate::device::{CrashDevice, DiskContents, ReadBlock};
use crate::log::LogEntry;
use crate::mounting::{Looking, Mounting};
use crate::workload::CrashWorkload;
use remains::{Look, Remains, ShownToMachine, look_in_machine};

pub use mount::{await_free, mount_with, unmount_at};
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
        device.drop_pages()?;
        device.disk().load(contents.clone());
        if record_recovery {
            device.disk().record();
        }
        let mut state = ShownState {
            observer: self,
            device,
            contents,
            kernel_log: KernelLog::from_now(),
            is_repaired: false,
            records_recovery: record_recovery,
            recovery_log: Vec::new(),
            reads: Vec::new(),
        };
        let (observation, recovery) = remains::observe(&mut state, self.needs_fsck, input)?;
        state.keep_reads();
        let ShownState { reads, recovery_log, .. } = state;
        Ok(ObservedState { observation, reads, recovery, recovery_log })
    }
}

/// A state that the device shows.
struct ShownState<'a> {
    observer: &'a StateObserver<'a>,
    device: &'a CrashDevice,
    contents: DiskContents,
    kernel_log: KernelLog,
    /// Whether the device shows what a repair made of the contents.
    is_repaired: bool,
    /// Whether the requests of the next mount are kept.
    records_recovery: bool,
    recovery_log: Vec<LogEntry>,
    /// Of what was shown before a repair.
    reads: Vec<ReadBlock>,
}

impl ShownState<'_> {
    /// What was read of what is shown, each block once.
    fn keep_reads(&mut self) {
        let known: HashSet<u32> = self.reads.iter().map(|read| read.0).collect();
        let disk = self.device.disk();
        self.reads.extend(disk.reads().iter().filter(|read| !known.contains(&read.0)));
    }

    fn without_name(&self, text: &str) -> String {
        mounted::without_name(text, self.device.node())
    }
}

impl ShownToMachine for ShownState<'_> {
    fn look_once(&mut self, input: &str) -> Result<Look, CrashError> {
        let StateObserver { runner, recipe, workload, .. } = *self.observer;
        let what = Looking { runner, device: self.device, recipe, workload, input };
        let records = std::mem::take(&mut self.records_recovery);
        self.observer.mounting.look(&what, &mut self.kernel_log, || {
            if records {
                self.recovery_log = self.device.disk().take_recorded();
            }
        })
    }

    fn is_end(&self, error: &CrashError) -> bool {
        self.observer.mounting.is_end(error)
    }

    fn show_again(&mut self) -> Result<(), CrashError> {
        if self.is_repaired {
            return self.repair().map(drop);
        }
        self.keep_reads();
        self.device.drop_pages()?;
        self.device.disk().load(self.contents.clone());
        Ok(())
    }
}

impl Remains for ShownState<'_> {
    fn look(&mut self, input: &str) -> Result<Look, CrashError> {
        look_in_machine(self, input)
    }

    fn damage(&mut self) -> Result<Option<String>, CrashError> {
        // The program reads through the kernel's pages, which unmounting may have left.
        self.device.drop_pages()?;
        let fsck = self.observer.recipe.fsck(self.device.node()).timeout(FSCK_LIMIT);
        Ok(said(self.observer.runner.run(&fsck))?.map(|text| self.without_name(&text)))
    }

    fn repair(&mut self) -> Result<Option<Option<String>>, CrashError> {
        let Some(repair) = self.observer.recipe.repair(self.device.node()) else {
            return Ok(None);
        };
        self.keep_reads();
        self.device.drop_pages()?;
        self.device.disk().load(self.contents.clone());
        let outcome = self.observer.runner.run(&repair.timeout(FSCK_LIMIT));
        let not_repaired = repair_failure(outcome)?.map(|text| self.without_name(&text));
        self.device.drop_pages()?;
        self.is_repaired = true;
        Ok(Some(not_repaired))
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
            Ok(Some(match lines[..] {
                [] => format!("{code}, without a message"),
                _ => format!("{code}: {}", lines.join(" / ")),
            }))
        }
        Err(error @ ProgramError::TimedOut { .. }) => Ok(Some(error.to_string())),
        Err(error) => Err(error.into()),
    }
}
