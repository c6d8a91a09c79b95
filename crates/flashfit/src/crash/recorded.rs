//! A state of a recorded campaign, with what it needs to be made again.

use std::path::Path;

use flashfit_crash::campaign::{CampaignPlan, MountPoints};
use flashfit_crash::cuts::MachineChoice;
use flashfit_crash::mounting::MachineKernel;
use flashfit_crash::replay::FoundState;
use flashfit_crash::setup::CrashSetup;
use flashfit_filesystem::FileSystemCatalog;
use flashfit_host::SystemRunner;

use super::recorded_args::RecordedStateArgs;
use super::{conditions, folder, tools};
use crate::command_error::CommandError;
use crate::output::note;

pub struct RecordedState<'a> {
    pub points: MountPoints,
    pub runner: SystemRunner,
    pub plan: CampaignPlan,
    pub found: FoundState,
    pub setup: CrashSetup,
    choice: MachineChoice<'a>,
}

impl<'a> RecordedState<'a> {
    /// Finds the state and checks that it can be made again on this machine.
    /// `workload` is the file that the user names of it.
    pub fn open(
        args: &'a RecordedStateArgs,
        workload: Option<&str>,
        catalog: Option<&Path>,
    ) -> Result<Self, CommandError> {
        tools::check_rights()?;
        let points = tools::mount_points(&args.dir, args.vm_kernel.as_deref())?;
        let runner = tools::runner()?;
        let (folder, plan) = folder::existing(&args.dir)?;
        tools::check_workload(&plan, workload)?;
        let found = FoundState::find(&folder, &plan, &args.id)?;
        let known = FileSystemCatalog::load(catalog)?;
        let setup = CrashSetup::parse(&found.setup, &known, &conditions::of_plan(&plan))?;
        plan.check_commands(&setup, &args.dir)?;
        if plan.kernel.is_none() {
            setup.check_kernel(&runner)?;
        }
        if let Some(began) = plan.start.host_kernel.as_ref() {
            let now = tools::host_kernel();
            if *began != now {
                note(&format!("the campaign began with Linux {began}, and this is {now}"));
            }
        }
        let choice = tools::machine(args.vm_kernel.as_deref(), plan.seed)?;
        Ok(Self { points, runner, plan, found, setup, choice })
    }

    /// The kernel of the campaign, if it was that of a virtual machine.
    pub fn machine(&self) -> Result<Option<MachineKernel<'_>>, CommandError> {
        let Some(release) = &self.plan.kernel else { return Ok(None) };
        let setups = std::slice::from_ref(&self.setup);
        let machine = MachineKernel::find(&self.choice, setups, &self.runner)?;
        tools::check_release(machine.release(), release)?;
        Ok(Some(machine))
    }
}
