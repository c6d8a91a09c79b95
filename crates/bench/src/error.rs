//! Errors of reading and running workloads.

use std::path::PathBuf;

use flashfit_catalog::{CatalogEntryError, Origin};
use flashfit_host::ProgramError;
use flashfit_user_error::{ExitClass, UserError};

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error(transparent)]
    Entry(#[from] CatalogEntryError),
    #[error("{origin}:{line}: {reason}")]
    BadWorkload { origin: Origin, line: usize, reason: String },
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
            Self::BadWorkload { .. } | Self::BadPlan { .. } | Self::BadTarget { .. } => {
                ExitClass::Usage
            }
            Self::Full { .. } => ExitClass::Usage,
            Self::WouldOverwrite { .. } | Self::Refused { .. } => ExitClass::Refused,
            Self::System { .. } | Self::Memory { .. } | Self::Failed { .. } => {
                ExitClass::Environment
            }
            Self::BadResult { .. } => ExitClass::Environment,
            Self::Device { .. } | Self::TargetVanished { .. } | Self::CutShort { .. } => {
                ExitClass::Io
            }
            Self::Stopped => ExitClass::Interrupted,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Entry(error) => return error.hint(),
            Self::Program(error) => return error.hint(),
            Self::BadPlan { hint, .. } => hint.clone(),
            Self::Full { .. } => {
                "use less data (--data-size SIZE) or a larger partition".to_owned()
            }
            Self::Memory { .. } => "give the trial more memory: --memory SIZE".to_owned(),
            Self::WouldOverwrite { .. } => {
                "on a bare device, use the workloads linear-read and random-read".to_owned()
            }
            Self::Device { .. } | Self::TargetVanished { .. } => {
                "see the kernel log: dmesg".to_owned()
            }
            Self::Refused { .. } => "see what uses the target: lsblk, findmnt".to_owned(),
            Self::BadWorkload { .. }
            | Self::BadTarget { .. }
            | Self::System { .. }
            | Self::Stopped
            | Self::Failed { .. }
            | Self::CutShort { .. }
            | Self::BadResult { .. } => return None,
        })
    }
}
