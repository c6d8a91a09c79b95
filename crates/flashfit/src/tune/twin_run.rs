//! The run on a twin: several virtual machines at once, each with its own simulated card.

use std::path::Path;
use std::time::{Duration, Instant};

use flashfit_host::SystemRunner;
use flashfit_testbed::TestBedSpec;
use flashfit_tune::run::{Catalogs, Run, RunRequest, RunResult, ScratchFolder, TrialHosts};
use flashfit_tune::{RunSpec, StoredRun, TrialRecord};

use super::args::TuneArgs;
use super::outcome;
use super::twin_ui::TwinUi;
use crate::command_error::CommandError;
use crate::test_beds::{TestBedContext, vm};

/// Makes the trials of a run on a twin, or the rest of them, in machines that are alike.
pub fn trials(
    (spec, dir): (&RunSpec, &Path),
    (time, guests): (Duration, usize),
    args: &TuneArgs,
    runner: &SystemRunner,
    earlier: Option<StoredRun>,
) -> Result<Vec<TrialRecord>, CommandError> {
    let catalogs = Catalogs::load(spec)?;
    let scratch = ScratchFolder::of(dir)?;
    let context = TestBedContext { runner, catalogs: &catalogs, dir, scratch: scratch.path() };
    let TestBedSpec::Vm(choice) = &spec.on else {
        unreachable!("a twin is tuned in a virtual machine")
    };
    let hosts = TrialHosts::Boards(vm::guests(guests, choice, spec, context)?);
    let until = Instant::now().checked_add(time);
    let request = RunRequest {
        spec,
        dir,
        catalogs: &catalogs,
        tool_version: env!("CARGO_PKG_VERSION"),
        end_requested: false,
        until,
    };
    let mut ui = TwinUi::new(args.progress, until);
    let result = match earlier {
        None => Run::start(request, hosts, &mut ui),
        Some(earlier) => Run::resume(request, hosts, earlier, &mut ui),
    };
    let RunResult { header, trials, ended } = result?;
    let ended = ended.map_err(|error| {
        let hint = "the trials on the twin are kept; repeat the command to continue";
        CommandError::from(error).with_hint(hint)
    });
    let run = outcome::FinishedRun { header: &header, trials: &trials, ended: &ended };
    if ended.is_ok() {
        outcome::write(&run, &catalogs, dir)?;
    }
    ended.map(|_| trials)
}
