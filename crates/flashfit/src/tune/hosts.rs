//! The places where a run makes its trials, by what the user chose.

use std::time::Duration;

use flashfit_host::SystemRunner;
use flashfit_target::{InspectedTarget, SIMULATED};
use flashfit_testbed::{TestBedSpec, VmChoice};
use flashfit_tune::RunSpec;
use flashfit_tune::run::{Catalogs, RunResult, ScratchFolder, TrialHosts};
use flashfit_user_error::ExitClass;

use super::args::TuneArgs;
use super::resolved::ResolvedSpec;
use crate::command_error::CommandError;
use crate::consent;
use crate::output::warn;
use crate::test_beds::lab::{self, BoardAccess};
use crate::test_beds::{self, TestBedContext, vm};

/// Calls `run` with the one place, or all free boards, of a run; releases them afterwards.
pub fn with_hosts(
    args: &TuneArgs,
    ResolvedSpec { spec, dir, .. }: &ResolvedSpec,
    catalogs: &Catalogs,
    runner: &SystemRunner,
    run: impl FnOnce(TrialHosts<'_>) -> Result<Option<RunResult>, CommandError>,
) -> Result<Option<RunResult>, CommandError> {
    let TestBedSpec::Lab { tags } = &spec.on else {
        // A killed run may still be detaching the device of the one that continues it.
        if !args.dry_run && args.resume.is_none() {
            refuse_early(spec)?;
        }
        let scratch = ScratchFolder::of(dir)?;
        let context = TestBedContext { runner, catalogs, dir, scratch: scratch.path() };
        if let Some((choice, count)) = guests(args, spec)? {
            let guests = vm::guests(count, choice, spec, context)?;
            return run(TrialHosts::Boards(guests));
        }
        let mut host = test_beds::place(spec, context)?;
        return run(TrialHosts::One(host.as_mut()));
    };
    let lab = lab::open(runner)?;
    let result = (|| {
        let wait = args.stand.lab_wait.unwrap_or(lab::USUAL_WAIT);
        let leases = lab::lock(&lab, &tags.parse()?, Duration::from_nanos(wait.0))?;
        let access = BoardAccess { dry_run: args.dry_run, runner, spec, dir };
        run(TrialHosts::Boards(lab::reach(leases, access)?))
    })();
    if let Err(error) = lab.close() {
        warn(&format!("{error}; the next start releases what is still locked"));
    }
    result
}

/// Refuses a device of this machine before the test bed is prepared: that may fail for want of
/// root or of a kernel for a virtual machine, which would not help.
fn refuse_early(spec: &RunSpec) -> Result<(), CommandError> {
    if !matches!(spec.on, TestBedSpec::Here | TestBedSpec::Vm(_)) {
        return Ok(());
    }
    let catalog = spec.catalog_dir.as_deref();
    let target = InspectedTarget::inspect(&spec.target, &SystemRunner::default(), catalog)?;
    Ok(target.device().map_or(Ok(()), consent::refuse_early)?)
}

/// Several virtual machines for the trials of a simulated card, if they were asked for. With a
/// twin, they are for its trials.
fn guests<'a>(
    args: &TuneArgs,
    spec: &'a RunSpec,
) -> Result<Option<(&'a VmChoice, usize)>, CommandError> {
    let has_twin = args.twin.twin.is_some() || args.twin.twin_first;
    let Some(count) = args.stand.vm_guests.filter(|_| !has_twin) else { return Ok(None) };
    match &spec.on {
        TestBedSpec::Vm(choice)
            if choice.speed_mips.is_some() && spec.target.starts_with(SIMULATED) =>
        {
            Ok(Some((choice, count as usize)))
        }
        _ => Err(CommandError::new(
            ExitClass::Usage,
            "several virtual machines at once need a simulated card with counted instructions",
            Some("flashfit tune sim:NAME --on vm --vm-speed-mips 1000 --vm-guests 2"),
        )),
    }
}
