//! What `flashfit crash cuts` shows while it runs, and in the end.

use std::cell::Cell;
use std::time::{Duration, Instant};

use flashfit_crash::campaign::{CampaignFolder, CampaignPlan, SetupResult, StateBatch};
use flashfit_crash::setup::CrashSetup;
use flashfit_device::MeasuredDevice;

use super::cuts_args::CutsArgs;
use super::states_document;
use super::verdict;
use crate::command_error::CommandError;
use crate::output::{self, note};
use crate::rendering::crash_states::{self, Counted};

const INTERVAL: Duration = Duration::from_secs(30);

/// Where the power was cut.
#[derive(Debug)]
pub struct CutMachine {
    pub device: Option<MeasuredDevice>,
    pub kernel: Option<String>,
}

/// Counts power cuts.
pub struct CutProgress<'a> {
    setups: &'a [CrashSetup],
    count: Cell<u64>,
    noted: Cell<Instant>,
}

impl<'a> CutProgress<'a> {
    pub fn new(setups: &'a [CrashSetup]) -> Self {
        Self { setups, count: Cell::new(0), noted: Cell::new(Instant::now()) }
    }

    pub fn show(&self, batch: &StateBatch) {
        self.count.set(self.count.get() + 1);
        crash_states::broken(batch, self.setups).for_each(|line| note(&line));
        if self.noted.get().elapsed() >= INTERVAL {
            self.noted.set(Instant::now());
            note(&format!("{} power cuts", self.count.get()));
        }
    }
}

/// Prints the results; an error where a promise was broken.
pub fn report(
    args: &CutsArgs,
    plan: &CampaignPlan,
    setups: &[CrashSetup],
    results: &[SetupResult],
    folder: &CampaignFolder,
    machine: &CutMachine,
) -> Result<(), CommandError> {
    if let Err(error) = verdict::check_something_checked(results, Counted::Cuts) {
        folder.abandon_without_records();
        return Err(error);
    }
    let dir = folder.path();
    if args.json {
        let document = states_document::document(plan, setups, results, dir, Some(machine));
        output::json(states_document::CutsDocument(document))?;
    } else {
        let text = crash_states::text(plan, setups, results, dir, Counted::Cuts, output::width());
        output::print(&text)?;
    }
    verdict::verdict(results, Counted::Cuts)
}
