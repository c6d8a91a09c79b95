//! `flashfit crash cuts`: cuts the power of a virtual machine or a board again and again.

use std::path::{Path, PathBuf};

use flashfit_crash::campaign::{CampaignPlan, CardPlan};
use flashfit_crash::cuts::{CutCampaign, CutEvent, MachineChoice, guest, kernel};
use flashfit_crash::setup::CrashSetup;
use flashfit_crash::state::FlushFault;
use flashfit_host::SystemRunner;
use flashfit_host::path_text::to_text;
use flashfit_testbed::TestBedSpec;
use flashfit_user_error::ExitClass;

use super::campaign_report::CampaignReport;
use super::cuts_args::CutsArgs;
use super::cuts_report::{CutMachine, CutProgress};
use super::same_command::same_command;
use super::{board, conditions, cuts_resumed, folder, tools};
use crate::command_error::CommandError;
use crate::output::note;
use crate::rendering::crash_states::Counted;

const DEFAULT_CUTS: u64 = 100;

pub fn run(args: &CutsArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    if !matches!(args.on, TestBedSpec::Vm(_)) {
        cuts_resumed::check_not_resumed(args)?;
        return board::run(args, catalog);
    }
    if args.board.power_off.is_some() {
        let message = "the power of a virtual machine needs no command";
        let hint = "for a board, add --on ssh:HOST";
        return Err(CommandError::new(ExitClass::Usage, message, Some(hint)));
    }
    let runner = tools::runner()?;
    let choice = tools::machine(args.vm_kernel.as_deref(), args.what.seed)?;
    let (dir, plan, setups) = match &args.resume {
        Some(dir) => cuts_resumed::resumed(dir, catalog, &choice, &runner)?,
        None => begun(args, catalog, &choice, &runner)?,
    };
    let folder = folder::open(&dir, &plan)?;
    note(&format!("records: {}", to_text(&dir)));
    let card = plan.card.as_ref().expect("a campaign of power cuts has a card");
    let campaign = CutCampaign {
        plan: &plan,
        card,
        setups: &setups,
        folder: &folder,
        runner: &runner,
        choice,
    };
    let progress = CutProgress::new(&setups);
    let machine = CutMachine { device: None, kernel: plan.kernel.clone() };
    let watch = |event: &CutEvent<'_>| match event {
        CutEvent::Booted(facts) => {
            let (release, how) = (&facts.kernel_release, facts.accelerator.name());
            note(&format!("virtual machine: Linux {release}, QEMU {} ({how})", facts.qemu));
        }
        CutEvent::Cut(batch) => progress.show(batch),
    };
    let limits = match &args.resume {
        Some(_) => args.limits_to_continue(&plan.start),
        None => args.limits(),
    };
    let report = CampaignReport {
        plan: &plan,
        setups: &setups,
        folder: &folder,
        counted: Counted::Cuts,
        json: args.json,
        command: &same_command(&dir, args.dir.is_some() || args.resume.is_some()),
    };
    let results = campaign.run(&limits, &watch).map_err(|error| report.ended_early(error))?;
    report.show(&results, Some(&machine))
}

/// Works in the virtual machine, for the program outside.
pub fn serve() -> Result<(), CommandError> {
    let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
    guest::serve(input, output, &SystemRunner::default()).map_err(|error| {
        CommandError::new(ExitClass::Io, format!("the channel of the machine: {error}"), None)
    })
}

pub type BegunCampaign = (PathBuf, CampaignPlan, Vec<CrashSetup>);

fn begun(
    args: &CutsArgs,
    catalog: Option<&Path>,
    choice: &MachineChoice<'_>,
    runner: &SystemRunner,
) -> Result<BegunCampaign, CommandError> {
    let workload = args.what.workload()?;
    let name = args.card.as_deref().unwrap_or(tools::DEFAULT_CARD);
    let (conditions, _) = conditions::device(Some(name), catalog)?;
    let setups = tools::setups(&args.what, catalog, &conditions)?;
    let card =
        CardPlan { model: conditions::model(name, catalog)?, faults: args.card_fault.clone() };
    let plan = CampaignPlan {
        setups: setups.iter().map(|setup| setup.label.clone()).collect(),
        workload,
        seed: args.what.seed,
        states: args.cuts.or(args.time.is_none().then_some(DEFAULT_CUTS)),
        unit_sectors: 8,
        flushes: FlushFault::None,
        card: Some(card),
        kernel: Some(kernel(choice, &setups, runner)?.release),
        board: None,
        requests: None,
        start: args.start(&setups),
    };
    Ok((folder::choose(args.dir.as_deref()), plan, setups))
}
