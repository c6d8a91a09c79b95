//! Why it cannot be found out what options do: the machine's fault, never an option's.

use std::path::PathBuf;

use flashfit_filesystem::SetupError;
use flashfit_host::ProgramError;
use flashfit_host::loop_device::LoopError;
use flashfit_host::mount::MountError;
use flashfit_user_error::{ExitClass, Hint, Task, UserError};

/// Why nothing was found out.
#[derive(Debug, thiserror::Error)]
pub enum OptionProbeError {
    /// No scratch folder or image.
    #[error("cannot make a scratch image: {}: {source}", path.display())]
    Scratch {
        /// The folder or file.
        path: PathBuf,
        source: std::io::Error,
    },
    /// No room for it.
    #[error("no space left for a scratch image in {}", path.display())]
    Full {
        /// The folder or file.
        path: PathBuf,
    },
    /// The image failed as a device does.
    #[error("the scratch image returned an error: {line}")]
    Image { line: String },
    #[error(transparent)]
    Loop(#[from] LoopError),
    /// A mount failed in a way that no option explains.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// A program cannot be run, or the user interrupts.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The file system without options is not possible.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl UserError for OptionProbeError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Scratch { .. } | Self::Full { .. } => ExitClass::Environment,
            Self::Image { .. } => ExitClass::Io,
            Self::Loop(error) => error.class(),
            Self::Mount(error) => error.class(),
            Self::Program(error) => error.class(),
            Self::Setup(error) => error.class(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Scratch { .. } | Self::Full { .. } | Self::Image { .. } => Some(
                Hint::from("name a directory with 128 MiB free: TMPDIR=/var/tmp ")
                    .and(Task::ProbeOptions),
            ),
            Self::Loop(error) => error.hint(),
            Self::Mount(error) => error.hint(),
            Self::Program(error) => error.hint(),
            Self::Setup(error) => error.hint(),
        }
    }
}
