//! `flashfit crash states`: records workloads and checks crash states on this kernel.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use flashfit_crash::campaign::{
    Campaign, CampaignLimits, CampaignPlan, CampaignStart, CardPlan, StateBatch, definitions,
};
use flashfit_crash::mounting::MachineKernel;
use flashfit_crash::state::{ENUMERATION, FlushFault};
use flashfit_host::path_text::to_text;
use flashfit_user_error::ExitClass;

use super::args::{IgnoreFlushArg, StatesArgs, StatesPlace};
use super::campaign_report::CampaignReport;
use super::same_command::same_command;
use super::{conditions, folder, requests, tools};
use crate::command_error::CommandError;
use crate::output::note;
use crate::rendering::crash_states::{self, Counted};

const DEFAULT_STATES: u64 = 1000;
/// Broken states of a setup that are shown while the campaign runs.
const MOST_NOTED: usize = 3;

pub fn run(args: &StatesArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let workload = match args.log.log {
        Some(_) => requests::workload(args)?,
        None => args.what.workload()?,
    };
    let is_by_card = !args.card_fault.is_empty();
    let name = args.card.as_deref().or(is_by_card.then_some(tools::DEFAULT_CARD));
    let (conditions, write_unit) = conditions::device(name, catalog)?;
    let erase_block_bytes = conditions.geometry.erase_block.as_ref().map(|block| block.bytes.0);
    let card = match name.filter(|_| is_by_card) {
        Some(name) => {
            let model = conditions::model(name, catalog)?;
            Some(CardPlan { model, faults: args.card_fault.clone() })
        }
        None => None,
    };
    let setups = tools::setups(&args.what, catalog, &conditions)?;
    tools::check_rights()?;
    let requests = requests::load(args, &setups, &workload)?;
    let dir = folder::choose(args.dir.as_deref());
    let points = tools::mount_points(&dir, args.vm_kernel.as_deref())?;
    let runner = tools::runner()?;
    if args.vm_kernel.is_some() && args.on == StatesPlace::Here {
        return Err(CommandError::new(
            ExitClass::Usage,
            "a kernel can be chosen for a virtual machine only",
            Some("add --on vm, or leave out --vm-kernel"),
        ));
    }
    let choice = tools::machine(args.vm_kernel.as_deref(), args.what.seed)?;
    let machine = match args.on {
        StatesPlace::Vm => Some(MachineKernel::find(&choice, &setups, &runner)?),
        StatesPlace::Here => None,
    };
    if let Some(machine) = &machine {
        note(&format!("virtual machine: Linux {}", machine.release()));
    } else {
        for setup in &setups {
            let checked = setup.check_kernel(&runner).map_err(CommandError::from);
            checked.map_err(|error| error.or_hint("use a kernel that has it: --on vm"))?;
        }
    }
    let plan = CampaignPlan {
        setups: setups.iter().map(|setup| setup.label.clone()).collect(),
        workload,
        seed: args.what.seed,
        states: args.states.or(args.time.is_none().then_some(DEFAULT_STATES)),
        unit_sectors: u32::try_from(write_unit.0 / 512).expect("a write unit is small").max(1),
        flushes: args.ignore_flush.map(Into::into).unwrap_or_default(),
        card,
        kernel: machine.as_ref().map(|machine| machine.release().to_owned()),
        board: None,
        requests: requests.as_ref().map(|(_, plan)| plan.clone()),
        start: CampaignStart {
            host_kernel: machine.is_none().then(tools::host_kernel),
            erase_block_bytes,
            enumeration: Some(ENUMERATION),
            time_ns: args.time.map(|time| time.0),
            max_broken: None,
            definitions: definitions(&setups),
        },
    };
    let folder = folder::open(&dir, &plan)?;
    note(&format!("records: {}", to_text(&dir)));
    let campaign = Campaign {
        plan: &plan,
        setups: &setups,
        folder: &folder,
        points: &points,
        machine: machine.as_ref(),
        requests: requests.as_ref().map(|(log, _)| log),
        runner: &runner,
    };
    let limits = CampaignLimits {
        time: args.time.map(|time| Duration::from_nanos(time.0)),
        workers: args.workers.map_or_else(processors, usize::from),
        keeps_logs: args.keep_logs,
        looks_at_all: args.no_equivalence,
    };
    let noted = Mutex::new(BTreeMap::<String, usize>::new());
    let watch = |batch: &StateBatch| {
        let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
        let noted = noted.entry(batch.setup.clone()).or_default();
        for line in crash_states::broken(batch, &setups).take(usize::from(*noted < MOST_NOTED)) {
            *noted += 1;
            note(&line);
        }
    };
    let report = CampaignReport {
        plan: &plan,
        setups: &setups,
        folder: &folder,
        counted: Counted::States,
        json: args.json,
        command: &same_command(&dir, args.dir.is_some()),
    };
    let results =
        campaign.run(&limits, &watch).map_err(|error| match requests::hint(&error, args) {
            Some(hint) => CommandError::from(error).with_hint(hint),
            None => report.ended_early(error),
        })?;
    report.show(&results, None)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl From<IgnoreFlushArg> for FlushFault {
    fn from(which: IgnoreFlushArg) -> Self {
        match which {
            IgnoreFlushArg::One => Self::One,
            IgnoreFlushArg::All => Self::All,
        }
    }
}
