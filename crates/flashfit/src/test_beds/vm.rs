//! A virtual machine as a place for trials.

use flashfit_host::interrupt::Interrupt;
use flashfit_testbed::vm::{VmContext, VmHost};
use flashfit_testbed::{TrialError, VmChoice};
use flashfit_tune::RunSpec;
use flashfit_tune::run::{BoardLock, LockedBoard};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::commands::card_server;
use crate::test_beds::{BUILD, TestBedContext, local};

/// A machine that starts when it is first needed.
pub fn place<'a>(
    choice: &VmChoice,
    spec: &RunSpec,
    means: TestBedContext<'a>,
) -> Result<VmHost<'a>, CommandError> {
    let catalog = spec.catalog_dir.clone();
    let program = std::env::current_exe().map_err(|error| {
        let message = format!("cannot find this program's own file: {error}");
        CommandError::new(ExitClass::Environment, message, None)
    })?;
    let means = VmContext {
        runner: means.runner,
        catalog: &means.catalogs.filesystems,
        local: local(spec, means),
        program,
        card_args: Box::new(move |name, socket| {
            let mut args = card_server::args(name, catalog.as_deref());
            let mut nbd = std::ffi::OsString::from("--nbd=");
            nbd.push(socket);
            args.push(nbd);
            args
        }),
        version: BUILD.to_owned(),
        catalog_dir: spec.catalog_dir.clone(),
        seed: spec.seed,
        memory_bytes: spec.memory.0,
        data_bytes: spec.data_size.0,
        fill_hundredths: spec.state.fill_hundredths,
    };
    Ok(VmHost::new(means, choice.clone()))
}

/// Several machines that are alike, each with the same simulated card. They have one name, so that
/// their results need no comparison.
pub fn guests<'a>(
    count: usize,
    choice: &VmChoice,
    spec: &RunSpec,
    means: TestBedContext<'a>,
) -> Result<Vec<LockedBoard<'a>>, CommandError> {
    let guest = |_| {
        Ok(LockedBoard {
            name: "guest".to_owned(),
            host: Box::new(place(choice, spec, means)?),
            lock: Box::new(GuestLock(means.runner.interrupt().clone())),
        })
    };
    (0..count).map(guest).collect()
}

/// Nobody else uses a guest, which ends with the run.
struct GuestLock(Interrupt);

impl BoardLock for GuestLock {
    fn still_ours(&mut self) -> Result<(), TrialError> {
        match self.0.is_raised() {
            true => Err(TrialError::Stopped {
                message: "interrupted".to_owned(),
                class: ExitClass::Interrupted,
                hint: None,
            }),
            false => Ok(()),
        }
    }

    fn power_off(&mut self) {}
}
