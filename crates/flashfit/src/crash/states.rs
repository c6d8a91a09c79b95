//! `flashfit crash states`: records workloads and checks crash states on this kernel.

use std::path::Path;
use std::time::Duration;

use flashfit_crash::campaign::{
    Campaign, CampaignFolder, CampaignLimits, CampaignPlan, MountPoints, SetupResult, StateBatch,
};
use flashfit_crash::setup::CrashSetup;
use flashfit_crash::workload::CrashWorkload;
use flashfit_filesystem::{Conditions, FileSystemCatalog};
use flashfit_user_error::ExitClass;

use super::args::StatesArgs;
use super::{folder, states_document, states_text, tools};
use crate::command_error::CommandError;
use crate::output::{self, note};

const DEFAULT_STATES: u64 = 1000;
pub fn run(args: &StatesArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let workload = CrashWorkload::parse(&args.workload)?;
    let (conditions, write_unit) = tools::device(args.card.as_deref(), catalog)?;
    let setups = setups(args, catalog, &conditions)?;
    tools::check_rights()?;
    let plan = CampaignPlan {
        setups: setups.iter().map(|setup| setup.label.clone()).collect(),
        workload,
        seed: args.seed,
        states: args.states.or(args.time.is_none().then_some(DEFAULT_STATES)),
        unit_sectors: u32::try_from(write_unit.0 / 512).expect("a write unit is small").max(1),
        flushes: args.ignore_flush.map(Into::into).unwrap_or_default(),
    };
    let dir = folder::choose(args.dir.as_deref());
    // Before any thread: the namespace is one thread's.
    let points = MountPoints::take(&[&dir, Path::new(".")])?;
    let runner = tools::runner()?;
    for setup in &setups {
        setup.check_kernel(&runner)?;
    }
    let folder = CampaignFolder::open(&dir, &plan)?;
    note(&format!("records: {}", dir.display()));
    let campaign = Campaign {
        plan: &plan,
        setups: &setups,
        folder: &folder,
        points: &points,
        runner: &runner,
    };
    let limits = CampaignLimits {
        time: args.time.map(|time| Duration::from_nanos(time.0)),
        workers: args.workers.map_or_else(processors, usize::from),
        keeps_logs: args.keep_logs,
        looks_at_all: args.no_equivalence,
    };
    let results = campaign.run(&limits, &watch)?;
    if args.json {
        output::json("crash-states", states_document::document(&plan, &setups, &results, &dir))?;
    } else {
        output::print(&states_text::text(&setups, &results, &dir, output::width()))?;
    }
    verdict(&results)
}

fn setups(
    args: &StatesArgs,
    catalog: Option<&Path>,
    conditions: &Conditions,
) -> Result<Vec<CrashSetup>, CommandError> {
    let known = FileSystemCatalog::load(catalog)?;
    let mut setups: Vec<CrashSetup> = Vec::new();
    for text in args.filesystems.iter().chain(&args.with) {
        let setup = CrashSetup::parse(text, &known, conditions)?;
        if !setups.iter().any(|other| other.label == setup.label) {
            setups.push(setup);
        }
    }
    Ok(setups)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn watch(batch: &StateBatch) {
    for broken in batch.broken.iter().take(1) {
        let first = broken.violations.first().map_or("", |violation| violation.detail.as_str());
        note(&format!("{}: {first}", broken.id));
    }
}

fn verdict(results: &[SetupResult]) -> Result<(), CommandError> {
    let broken: Vec<&str> = results
        .iter()
        .filter(|result| result.counts.broken > 0)
        .map(|result| result.label.as_str())
        .collect();
    if broken.is_empty() {
        return Ok(());
    }
    let message = format!("power cuts broke promises of {}", broken.join(", "));
    Err(CommandError::new(ExitClass::BadVerdict, message, None))
}
