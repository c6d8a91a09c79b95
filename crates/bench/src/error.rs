//! Why there are no figures.

use std::path::PathBuf;

use flashfit_catalog::{CatalogEntryError, Origin};
use flashfit_host::ProgramError;
use flashfit_user_error::{ExitClass, UserError};

/// Why a workload could not be read or run, or why its result is not believed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The catalog has no such workload, or cannot be read.
    #[error(transparent)]
    Entry(#[from] CatalogEntryError),
    /// A workload file is wrong.
    #[error("{origin}:{line}: {reason}")]
    BadWorkload {
        /// The file.
        origin: Origin,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The plan does not suit the workload.
    #[error("{reason}")]
    BadPlan {
        /// What is wrong.
        reason: String,
        /// What would be right.
        hint: String,
    },
    /// The target is not what it should be.
    #[error("{}: {reason}", path.display())]
    BadTarget {
        /// The directory or device.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A workload that writes was to run on a bare device.
    #[error("the workload `{workload}` cannot run on the bare device {}", path.display())]
    WouldOverwrite {
        /// The workload.
        workload: String,
        /// The device.
        path: PathBuf,
    },
    /// What is mounted changed while fio ran; its figures are of another device.
    #[error("{} is no longer what it was when the trial began", path.display())]
    TargetVanished {
        /// The directory or device.
        path: PathBuf,
    },
    /// fio could not be run.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The machine did not let files be made or looked at.
    #[error("{}: {source}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no room for the data.
    #[error("the medium is full: {message}")]
    Full {
        /// fio's words.
        message: String,
    },
    /// The device, or the file system over it, returned an error.
    #[error("the medium returned an error: {message}")]
    Medium {
        /// fio's words.
        message: String,
    },
    /// fio did not get the memory it needs.
    #[error("fio ran out of memory: {message}")]
    Memory {
        /// fio's words, or how it ended.
        message: String,
    },
    /// fio would not touch the target.
    #[error("fio refused: {message}")]
    Refused {
        /// fio's words.
        message: String,
    },
    /// fio was stopped by a signal before its time.
    #[error("fio was stopped by a signal; its shortened result is not used")]
    Stopped,
    /// fio said that something went wrong.
    #[error("fio failed: {message}")]
    Failed {
        /// fio's words.
        message: String,
    },
    /// fio said that all was well, but did less than it was asked.
    #[error(
        "fio ended `{stage}` after {runtime_ns} ns and {bytes} bytes of {asked_bytes}, without an error"
    )]
    CutShort {
        /// The stage.
        stage: String,
        /// How long it ran.
        runtime_ns: u64,
        /// What it moved.
        bytes: u64,
        /// What it should have moved, its time not being up.
        asked_bytes: u64,
    },
    /// fio's result lacks what is needed.
    #[error("fio's result is not understood: {reason}")]
    BadResult {
        /// What is missing or wrong.
        reason: String,
    },
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
            Self::Medium { .. } | Self::TargetVanished { .. } | Self::CutShort { .. } => {
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
            Self::Full { .. } => "measure with less data, or on a larger partition".to_owned(),
            Self::Memory { .. } => "give the trial more memory: --memory SIZE".to_owned(),
            Self::WouldOverwrite { .. } => {
                "on a bare device only reading is measured: linear-read, random-read".to_owned()
            }
            Self::Medium { .. } | Self::TargetVanished { .. } => {
                "look at the kernel's messages: dmesg".to_owned()
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
