//! Why a run cannot begin, or ended early.

use flashfit_catalog::CatalogEntryError;
use flashfit_device::{Bytes, Target};
use flashfit_filesystem::{
    Durability, FileSystemCatalogError, LayoutError, PlanError, Scheduler, SetupError,
};
use flashfit_host::ProgramError;
use flashfit_host::dir::DirError;
use flashfit_target::InspectError;
use flashfit_testbed::{TestBedSpec, TrialError};
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::problem::ProblemError;
use crate::run_dir::RunDirError;
use crate::session::TuneError;

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Trial(#[from] TrialError),
    #[error(transparent)]
    Dir(#[from] RunDirError),
    #[error(transparent)]
    Folder(#[from] DirError),
    #[error(transparent)]
    Tune(#[from] TuneError),
    #[error(transparent)]
    Problem(#[from] ProblemError),
    #[error(transparent)]
    CatalogEntry(#[from] CatalogEntryError),
    #[error(transparent)]
    FileSystems(#[from] FileSystemCatalogError),
    #[error(transparent)]
    Workloads(#[from] flashfit_bench::BenchError),
    #[error(transparent)]
    Inspect(#[from] InspectError),
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("{0}")]
    Start(flashfit_device::units::BadSize),
    #[error("{target} is a partition, which is left where it is")]
    PartitionStart { target: Target },
    #[error(
        "the run was begun on another device: {before} of {capacity}{}",
        other_file(*is_other_file)
    )]
    OtherDevice { before: String, capacity: Bytes, is_other_file: bool },
    #[error("{filesystem} would be made with other numbers than in the trials of this run")]
    OtherNumbers { filesystem: String },
    #[error("trials cannot be made {}: {reason}", on.whereabouts())]
    NoTrialsThere { on: TestBedSpec, reason: String },
    #[error("the kernel does not offer the scheduler {wanted} for this device")]
    NoScheduler { wanted: Scheduler, offered: Vec<Scheduler> },
    #[error("{filesystem} cannot be used here: {reason}")]
    Unusable { filesystem: String, reason: UnusableReason },
    #[error("none of the file systems can be used here: {}", notes.join("; "))]
    NoFileSystem { notes: Vec<String> },
    #[error("{filesystem} {option} cannot be tried: {reason}")]
    UntriableOption { filesystem: String, option: String, reason: String },
    #[error("{filesystem} {option} cannot be tried: {reason}")]
    OptionWithoutEffect { filesystem: String, option: String, reason: String },
    #[error(
        "{} `{durability}` at a power cut, and only `{allow}` is allowed",
        always(filesystem, options)
    )]
    TooRisky {
        filesystem: String,
        /// Those that are always on.
        options: Vec<String>,
        durability: Durability,
        allow: Durability,
    },
    #[error("cannot make a temporary folder: {0}")]
    Scratch(std::io::Error),
    #[error("{board}: {error}")]
    OnBoard { board: String, error: Box<RunError> },
    #[error(
        "{board} has Linux {kernel} on {machine}, the run has {run_kernel} on {run_machine}; such \
         figures cannot be compared"
    )]
    OtherKernel {
        board: String,
        kernel: String,
        machine: String,
        run_kernel: String,
        run_machine: String,
    },
    /// Nobody agreed to lose the data on these devices, `(board, device)`.
    #[error("{message}")]
    NotAgreed { message: String, missing: Vec<(String, String)> },
    #[error(transparent)]
    Catalog(#[from] RecordedCatalogError),
}

fn always(filesystem: &str, options: &[String]) -> String {
    match options {
        [] => format!("{filesystem} is"),
        options => format!("the options always on of {filesystem}, {}, are", options.join(", ")),
    }
}

/// Why a file system cannot be tried.
#[derive(Debug, thiserror::Error)]
pub enum UnusableReason {
    #[error("it can be planned and not tried: {0}")]
    PlanOnly(String),
    #[error(transparent)]
    Program(ProgramError),
    #[error("the kernel {kernel} has no {kind}")]
    Kernel { kernel: String, kind: String },
    #[error("{0}")]
    Pages(String),
    #[error("it needs {least}, and there are {room}")]
    TooSmall { least: Bytes, room: Bytes },
}

/// Why a recorded run cannot be read with the catalog that is in use: a definition says which
/// programs run as root, and a run directory can be anybody's.
#[derive(Debug, thiserror::Error)]
pub enum RecordedCatalogError {
    #[error(transparent)]
    Entry(#[from] CatalogEntryError),
    #[error(
        "the run used the built-in catalog, and the catalog that is in use now \
         has other definitions of its file systems or workloads"
    )]
    NeedsBuiltIn,
    #[error(
        "the run used a catalog of its user's, {}, and a run directory alone does not decide which \
         programs run",
        folder.display()
    )]
    NeedsCatalog { folder: std::path::PathBuf },
    #[error(
        "the run used other definitions of its file systems or workloads than the catalog that is in \
         use now"
    )]
    OtherDefinitions,
}

fn other_file(is_other_file: bool) -> &'static str {
    if is_other_file { ", on another file than this one" } else { "" }
}

impl RunError {
    pub(super) fn on_board(self, board: &str) -> Self {
        Self::OnBoard { board: board.to_owned(), error: Box::new(self) }
    }

    fn cause(&self) -> Option<&dyn UserError> {
        Some(match self {
            Self::Trial(error) => error,
            Self::Dir(error) => error,
            Self::Folder(error) => error,
            Self::Tune(error) => error,
            Self::Problem(error) => error,
            Self::CatalogEntry(error) => error,
            Self::FileSystems(error) => error,
            Self::Workloads(error) => error,
            Self::Inspect(error) => error,
            Self::Layout(error) => error,
            Self::Plan(error) => error,
            Self::Setup(error) => error,
            Self::Program(error) => error,
            Self::Unusable { reason: UnusableReason::Program(error), .. } => error,
            Self::OnBoard { error, .. } => error.as_ref(),
            Self::Catalog(error) => error,
            _ => return None,
        })
    }
}

impl UserError for RunError {
    fn class(&self) -> ExitClass {
        if let Some(cause) = self.cause() {
            return cause.class();
        }
        match self {
            Self::OtherDevice { .. } | Self::OtherNumbers { .. } | Self::NotAgreed { .. } => {
                ExitClass::Refused
            }
            Self::NoTrialsThere { .. }
            | Self::NoScheduler { .. }
            | Self::Unusable {
                reason: UnusableReason::Kernel { .. } | UnusableReason::Pages(_),
                ..
            }
            | Self::NoFileSystem { .. }
            | Self::Scratch(_)
            | Self::OtherKernel { .. } => ExitClass::Environment,
            _ => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<Hint> {
        self.cause().and_then(UserError::hint)
    }
}

impl UserError for RecordedCatalogError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Entry(error) => error.class(),
            Self::NeedsBuiltIn | Self::NeedsCatalog { .. } | Self::OtherDefinitions => {
                ExitClass::Usage
            }
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Entry(error) => error.hint(),
            Self::NeedsBuiltIn | Self::NeedsCatalog { .. } | Self::OtherDefinitions => None,
        }
    }
}
