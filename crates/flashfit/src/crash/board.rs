//! `flashfit crash cuts --on ssh:HOST|lab:TAGS`: cuts the power of a board again and again.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use flashfit_crash::board::{
    BoardCampaign, BoardEvent, BoardTarget, BoardTimes, partition_for, program,
};
use flashfit_crash::campaign::{BoardPlan, CampaignPlan};
use flashfit_crash::state::FlushFault;
use flashfit_device::MeasuredDevice;
use flashfit_filesystem::Conditions;
use flashfit_host::SystemRunner;
use flashfit_host::path_text::to_text;
use flashfit_user_error::ExitClass;

use super::board_start::awake;
use super::campaign_report::CampaignReport;
use super::cuts_args::CutsArgs;
use super::cuts_report::{CutMachine, CutProgress};
use super::same_command::same_command;
use super::{folder, tools};
use crate::command_error::CommandError;
use crate::consent;
use crate::output::note;
use crate::rendering::crash_states::Counted;
use crate::test_beds::switched;

/// A board takes a minute for a power cut.
const DEFAULT_CUTS: u64 = 20;

pub fn run(args: &CutsArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let Some(target) = args.card.as_deref().filter(|it| it.starts_with('/')) else {
        let message = "the device on the board is missing";
        let hint = format!("name it: flashfit crash cuts /dev/mmcblk0 --on {}", args.on);
        return Err(CommandError::new(ExitClass::Usage, message, Some(&hint)));
    };
    if !args.card_fault.is_empty() || args.vm_kernel.is_some() {
        let message = "--card-fault and --vm-kernel are for virtual machines";
        return Err(CommandError::new(ExitClass::Usage, message, None));
    }
    let runner = tools::runner()?;
    let times = BoardTimes {
        off: Duration::from_nanos(args.board.off_time.0),
        start: Duration::from_nanos(args.board.start_time.0),
    };
    let switched = switched::open(args, &runner)?;
    let board = switched.board();
    let mut host = awake(&board, &runner, catalog, times.start)?;
    let device = host.inspect(target)?;
    let conditions = Conditions {
        discard: device.queue.discards,
        volatile_cache: device.queue.volatile_cache(),
        ..Conditions::default()
    };
    let setups = tools::setups(&args.what, catalog, &conditions)?;
    let plan = CampaignPlan {
        setups: setups.iter().map(|setup| setup.label.clone()).collect(),
        workload: args.what.workload()?,
        seed: args.what.seed,
        states: args.cuts.or(args.time.is_none().then_some(DEFAULT_CUTS)),
        unit_sectors: 8,
        flushes: FlushFault::None,
        card: None,
        kernel: None,
        board: Some(BoardPlan {
            place: switched.place(),
            ..BoardPlan::new(args.on.to_string(), target, &device)
        }),
        requests: None,
        start: args.start(&setups),
    };
    let partition = partition_for(&device, &setups)?;
    note(&format!(
        "each power cut makes a file system on {} and works on it for some seconds; it is checked, \
         and repaired, by the board",
        match partition {
            Some(partition) => format!("a partition of {}", partition.size()),
            None => to_text(&device.path),
        }
    ));
    let mut guard = |given: &_| host.check_consent(&device, given);
    let name = consent::agreed(&device, switched.agreed(), &mut guard)
        .map_err(|error| switched.error(error, &device))?;
    drop(host);
    let dir = folder::choose(args.dir.as_deref());
    let folder = folder::open(&dir, &plan)?;
    note(&format!("records: {}", to_text(&dir)));
    let measured = MeasuredDevice::from(&device);
    let campaign = BoardCampaign {
        plan: &plan,
        setups: &setups,
        folder: &folder,
        runner: &runner,
        link: &board,
        switch: board.switch.clone(),
        target: &BoardTarget { device, name, partition },
        times,
    };
    let progress = CutProgress::new(&setups);
    let kernel = RefCell::new(None);
    let watch = |event: &BoardEvent<'_>| match event {
        BoardEvent::Reached(facts) => {
            note(&format!("board: Linux {}", facts.kernel));
            kernel.replace(Some(facts.kernel.clone()));
        }
        BoardEvent::Cut(batch) => progress.show(batch),
    };
    let report = CampaignReport {
        plan: &plan,
        setups: &setups,
        folder: &folder,
        counted: Counted::Cuts,
        json: args.json,
        command: &same_command(&dir, args.dir.is_some()),
    };
    let results =
        campaign.run(&args.limits(), &watch).map_err(|error| report.ended_early(error))?;
    let machine = CutMachine { device: Some(measured), kernel: kernel.take() };
    report.show(&results, Some(&machine))
}

/// Works on the board, for the program on the other machine.
pub fn serve() -> Result<(), CommandError> {
    let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
    program::serve(input, output, &SystemRunner::default()).map_err(|error| {
        CommandError::new(ExitClass::Io, format!("the channel of the board: {error}"), None)
    })
}
