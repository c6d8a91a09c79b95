//! Looks at a crash state as a user would after power returns: mounts it, reads everything, writes
//! and syncs a file, unmounts it and checks it; and where that fails or the file system needs it,
//! repairs it first and looks again.

mod mount;
mod tree;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flashfit_filesystem::Recipe;
use flashfit_host::kernel_log::KernelLog;
use flashfit_host::{Program, ProgramError, Runner};

use crate::CrashError;
use crate::device::{CrashDevice, DiskContents, ReadBlock};
use crate::log::LogEntry;

pub use mount::{mount_with, unmount_at};
pub use tree::{ObservedNode, ObservedTree};

/// Checking a device of some hundred megabytes takes milliseconds.
const FSCK_LIMIT: Duration = Duration::from_secs(120);
/// A check that takes longer hangs.
const CHECK_LIMIT: Duration = Duration::from_secs(60);
const PROBE_NAME: &str = "written-after-the-power-cut";

/// How states of one setup are mounted and checked.
pub struct StateObserver<'a> {
    pub runner: &'a dyn Runner,
    pub recipe: &'a Recipe,
    /// Whether the file system is to be repaired before it is mounted.
    pub needs_fsck: bool,
    pub point: PathBuf,
    /// Looks at what is mounted instead of reading the workload's own files.
    pub check: Option<Program>,
}

/// What a checking program said about what is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramView {
    pub code: Option<i32>,
    pub output: String,
    /// The last line of its error output.
    pub error: String,
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

/// What was seen of a mounted file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountedView {
    /// Why it was not mounted.
    pub not_mounted: Option<String>,
    /// Why it could not be read as a whole.
    pub unreadable: Option<String>,
    pub tree: Option<ObservedTree>,
    pub program: Option<ProgramView>,
    /// Why a new file could not be written and synced.
    pub not_writable: Option<String>,
    /// Errors in the kernel log.
    pub kernel_errors: Vec<String>,
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
        let mut recovery = Duration::ZERO;
        let mut recovery_log = Vec::new();
        let recovered = if self.needs_fsck {
            MountedView {
                not_mounted: Some("it is repaired first".to_owned()),
                ..Default::default()
            }
        } else {
            self.mounted(device, &mut log, input, |time| {
                recovery = time;
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
        on_mount: impl FnOnce(Duration),
    ) -> Result<MountedView, CrashError> {
        let mut view = MountedView::default();
        let start = Instant::now();
        let options = self.recipe.mount_options();
        let mounted = mount_with(device.node(), self.recipe.kind(), &self.point, options);
        on_mount(start.elapsed());
        match mounted {
            Err(error) => view.not_mounted = Some(error.to_string()),
            Ok(()) => {
                match &self.check {
                    Some(check) => view.program = Some(self.program_view(check, input)?),
                    None => match ObservedTree::read(&self.point) {
                        Ok(tree) => view.tree = Some(tree),
                        Err(error) => view.unreadable = Some(error.to_string()),
                    },
                }
                view.not_writable = probe(&self.point).err().map(|error| error.to_string());
                unmount_at(&self.point).map_err(CrashError::Unmount)?;
            }
        }
        view.kernel_errors = errors(&log.take(), device.node());
        Ok(view)
    }

    fn program_view(&self, check: &Program, input: &str) -> Result<ProgramView, CrashError> {
        let program = check.clone().stdin(input).timeout(CHECK_LIMIT);
        match self.runner.run(&program) {
            Ok(outcome) => Ok(ProgramView {
                code: outcome.code,
                output: outcome.stdout,
                error: outcome.stderr.lines().last().unwrap_or_default().to_owned(),
            }),
            Err(error @ ProgramError::TimedOut { .. }) => {
                Ok(ProgramView { code: None, output: String::new(), error: error.to_string() })
            }
            Err(error) => Err(error.into()),
        }
    }

    fn damage(&self, device: &CrashDevice) -> Result<Option<String>, CrashError> {
        // The program reads through the kernel's pages, which unmounting may have left.
        device.drop_pages()?;
        let outcome = self.runner.run(&self.recipe.fsck(device.node()).timeout(FSCK_LIMIT));
        Ok(said(outcome)?.map(|text| without_name(&text, device.node())))
    }

    fn repaired(
        &self,
        device: &CrashDevice,
        repair: &Program,
        input: &str,
        log: &mut KernelLog,
    ) -> Result<RepairedView, CrashError> {
        let outcome = self.runner.run(&repair.clone().timeout(FSCK_LIMIT));
        let not_repaired = match outcome {
            // Bits 0 and 1 of fsck(8): errors were corrected.
            Ok(outcome) if outcome.code.is_some_and(|code| code & !3 == 0) => None,
            other => said(other)?.map(|text| without_name(&text, device.node())),
        };
        device.drop_pages()?;
        let mut view = self.mounted(device, log, input, |_| {})?;
        if view.not_mounted.is_none() {
            if let Some(damage) = self.damage(device)? {
                view.unreadable = Some(format!("damaged even after the repair: {damage}"));
            }
        }
        Ok(RepairedView { not_repaired, view })
    }
}

/// What a checking program found; `None` if nothing.
fn said(
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

/// Writes, syncs and removes a file.
fn probe(root: &Path) -> std::io::Result<()> {
    let path = root.join(PROBE_NAME);
    let mut file = std::fs::File::create(&path)?;
    file.write_all(&[0x5a; 4096])?;
    file.sync_all()?;
    std::fs::remove_file(path)
}

/// A message that is the same on every device: which loop device was free is chance.
fn without_name(text: &str, node: &Path) -> String {
    let name = node.file_name().unwrap_or_default().to_string_lossy().into_owned();
    text.replace(&node.display().to_string(), "DEVICE").replace(&name, "DEVICE")
}

/// The lines of the kernel log that report errors of this device.
fn errors(lines: &[String], node: &Path) -> Vec<String> {
    const ERRORS: [&str; 7] =
        ["error", "corrupt", "critical", "warning", "bug:", "call trace", "shutdown"];
    let name = node.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_error = |line: &&String| {
        let lower = line.to_ascii_lowercase();
        let about = lower.contains(&name);
        // ext4 writes that it has nothing against errors: "errors=remount-ro" and the like.
        let says = ERRORS.iter().any(|word| lower.contains(word)) && !lower.contains("errors=");
        about && says && !lower.contains("warning: mounting")
    };
    lines.iter().filter(is_error).map(|line| without_name(line, node)).collect()
}
