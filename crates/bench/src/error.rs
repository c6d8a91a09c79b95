//! Errors of reading and running workloads.

use std::path::PathBuf;

use flashfit_catalog::{CatalogEntryError, FileMistakes};
use flashfit_host::ProgramError;
use flashfit_user_error::{ExitClass, Hint, Task, UserError, UserSetting};

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error(transparent)]
    Entry(#[from] CatalogEntryError),
    /// Workloads or kinds of starts of the catalog, with all their mistakes.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    BadFiles(Vec<FileMistakes>),
    #[error("{reason}")]
    BadPlan { reason: String, hint: String },
    #[error("{}: {reason}", path.display())]
    BadTarget { path: PathBuf, reason: String },
    #[error("{}: the workload `{workload}` writes and needs a file system", path.display())]
    WouldOverwrite { workload: String, path: PathBuf },
    /// The mount changed while fio ran, so the result is that of another device.
    #[error("{}: the target was replaced during the trial", path.display())]
    TargetVanished { path: PathBuf },
    /// fio could not be run.
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("{}: {source}", path.display())]
    System { path: PathBuf, source: std::io::Error },
    #[error("the device is full: {message}")]
    Full { message: String },
    /// An error of the device or the file system on it.
    #[error("the device returned an error: {message}")]
    Device { message: String },
    #[error("fio ran out of memory: {message}")]
    Memory { message: String },
    #[error("fio refused: {message}")]
    Refused { message: String },
    #[error("fio was stopped by a signal, so its result is incomplete")]
    Stopped,
    #[error("fio failed: {message}")]
    Failed { message: String },
    /// A command of the user failed.
    #[error("the command `{command}` failed: {reason}")]
    Command { command: String, reason: String },
    /// fio reported success but did less than expected.
    #[error(
        "fio ended `{stage}` early: {bytes} of {expected_bytes} bytes in {runtime_ns} ns, without an error"
    )]
    CutShort { stage: String, runtime_ns: u64, bytes: u64, expected_bytes: u64 },
    #[error("invalid result of fio: {reason}")]
    BadResult { reason: String },
}

impl UserError for BenchError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Entry(error) => error.class(),
            Self::Program(error) => error.class(),
            Self::BadFiles(_) | Self::BadPlan { .. } | Self::BadTarget { .. } => ExitClass::Usage,
            Self::Full { .. } => ExitClass::Usage,
            Self::WouldOverwrite { .. } | Self::Refused { .. } => ExitClass::Refused,
            Self::System { .. } | Self::Memory { .. } | Self::Failed { .. } => {
                ExitClass::Environment
            }
            Self::BadResult { .. } => ExitClass::Environment,
            Self::Command { .. }
            | Self::Device { .. }
            | Self::TargetVanished { .. }
            | Self::CutShort { .. } => ExitClass::Io,
            Self::Stopped => ExitClass::Interrupted,
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::Entry(error) => return error.hint(),
            Self::Program(error) => return error.hint(),
            Self::BadPlan { hint, .. } => hint.as_str().into(),
            Self::Full { .. } => Hint::from("use less data (")
                .and(UserSetting::DataSize)
                .and(" SIZE) or a larger partition"),
            Self::Memory { .. } => Hint::from("give the trials more memory (")
                .and(UserSetting::Memory)
                .and(" SIZE); a run continues with: ")
                .and(Task::Resume)
                .and(" ")
                .and(UserSetting::Memory)
                .and(" SIZE"),
            Self::WouldOverwrite { .. } => {
                "on a bare device, use the workloads linear-read and random-read".into()
            }
            Self::Device { .. } | Self::TargetVanished { .. } => "see the kernel log: dmesg".into(),
            Self::Refused { .. } => "see what uses the target: lsblk, findmnt".into(),
            Self::BadFiles(files) => files.first()?.hint()?,
            Self::BadTarget { .. }
            | Self::System { .. }
            | Self::Stopped
            | Self::Failed { .. }
            | Self::Command { .. }
            | Self::CutShort { .. }
            | Self::BadResult { .. } => return None,
        })
    }
}
