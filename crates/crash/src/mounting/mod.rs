//! The kernel that works on a device and mounts its crash states: this one, or that of a virtual
//! machine.
//!
//! File systems are made and checked by the programs of this computer in both cases.

mod device;
mod machine;

use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_filesystem::Recipe;
use flashfit_host::Runner;
use flashfit_host::kernel_log::KernelLog;

use crate::CrashError;
use crate::cuts::wire::GuestMount;
use crate::device::CrashDevice;
use crate::observe::remains::Look;
use crate::observe::{MountLook, await_free, mount_with, unmount_at};
use crate::workload::{
    CrashWorkload, Execution, LogPosition, LoggedOperation, Operation, ProgramLimit, WORK_LIMIT,
    run_program,
};

pub use device::{StateDevice, StateDevicePlan};
pub use machine::{MachineKernel, StateMachine};

/// Who mounts.
#[derive(Debug, Clone)]
pub enum Mounting<'a> {
    /// This kernel, at an empty folder.
    Here(PathBuf),
    /// The kernel of a virtual machine whose disk is the device.
    Machine(&'a StateMachine<'a>),
}

/// What is done between mounting and the last unmount.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    pub workload: &'a CrashWorkload,
    pub seed: u64,
    /// In place of the workload's own operations, each with its number.
    pub operations: Option<&'a [(u32, Operation)]>,
    /// Whether it is no longer wanted.
    pub is_over: &'a dyn Fn() -> bool,
}

impl Work<'_> {
    /// The operations; none for a program.
    fn planned(&self) -> Vec<(u32, Operation)> {
        self.operations.map_or_else(|| self.workload.operations(self.seed), <[_]>::to_vec)
    }

    fn here(&self, root: &Path, log: &dyn LogPosition) -> Result<Vec<LoggedOperation>, CrashError> {
        let (program, input) = match self.workload {
            CrashWorkload::Files | CrashWorkload::Metadata | CrashWorkload::Requests => {
                let mut execution = Execution::new(root);
                for (number, operation) in self.planned() {
                    execution.run(number, &operation, log);
                }
                return Ok(execution.finish());
            }
            CrashWorkload::Sqlite(mode) => mode.program(root, self.seed),
            CrashWorkload::Program(program) => {
                let seed = self.seed.to_string();
                (program.program(root).env("FLASHFIT_SEED", seed), String::new())
            }
        };
        let limit = ProgramLimit { time: WORK_LIMIT, is_over: self.is_over };
        run_program(&program, &input, log, limit)
    }
}

/// What is looked at.
pub struct Looking<'a> {
    pub runner: &'a dyn Runner,
    pub device: &'a CrashDevice,
    pub recipe: &'a Recipe,
    pub workload: &'a CrashWorkload,
    /// For the checking program of the workload.
    pub input: &'a str,
}

impl Mounting<'_> {
    /// Mounts the file system and does the work. It stays mounted until [`Self::unmount`], also
    /// after an error of the work.
    ///
    /// # Errors
    /// Why it was not mounted; that of the work is in the result.
    pub(crate) fn work(
        &self,
        recipe: &Recipe,
        work: &Work<'_>,
        device: &CrashDevice,
    ) -> Result<Result<Vec<LoggedOperation>, CrashError>, WorkError> {
        match self {
            Self::Here(point) => {
                await_free(device.node())?;
                mount_with(device.node(), recipe.kind(), point, recipe.mount_options())
                    .map_err(|error| WorkError::NotMounted(error.to_string()))?;
                Ok(work.here(point, device))
            }
            Self::Machine(machine) => machine.work(mount_of(recipe), work, device),
        }
    }

    /// # Errors
    /// That of the kernel.
    pub(crate) fn unmount(&self) -> Result<(), CrashError> {
        match self {
            Self::Here(point) => unmount_at(point),
            Self::Machine(machine) => machine.unmount(),
        }
    }

    /// Mounts, looks at everything, writes and unmounts. `on_mount` is called right after the
    /// mount; a machine does all at once, and does not call it.
    ///
    /// # Errors
    /// When something other than the file system fails.
    pub(crate) fn look(
        &self,
        what: &Looking<'_>,
        log: &mut KernelLog,
        on_mount: impl FnOnce(),
    ) -> Result<Look, CrashError> {
        let recipe = what.recipe;
        match self {
            Self::Here(point) => {
                let check = what.workload.check(point);
                let look = MountLook {
                    runner: what.runner,
                    node: what.device.node(),
                    kind: recipe.kind(),
                    options: recipe.mount_options(),
                    point,
                    check: check.as_ref(),
                };
                let mut recovery = Duration::ZERO;
                let view = look.view(log, what.input, |took| {
                    recovery = took;
                    on_mount();
                })?;
                Ok(Look { view, recovery })
            }
            Self::Machine(machine) => machine.look(mount_of(recipe), what.workload, what.input),
        }
    }

    /// Whether what was shown may have ended the machine that looked at it.
    pub(crate) fn is_end(&self, error: &CrashError) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Machine(machine) => machine.is_end(error),
        }
    }
}

/// Why no work was done.
pub(crate) enum WorkError {
    NotMounted(String),
    Other(CrashError),
}

impl From<CrashError> for WorkError {
    fn from(error: CrashError) -> Self {
        Self::Other(error)
    }
}

fn mount_of(recipe: &Recipe) -> GuestMount {
    GuestMount { kind: recipe.kind().to_owned(), options: recipe.mount_options().to_vec() }
}
