//! What `flashfit crash cuts` shows while it runs, and in the end.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use flashfit_crash::campaign::{CampaignPlan, SetupResult, StateBatch};
use flashfit_crash::setup::CrashSetup;

use super::cuts_args::CutsArgs;
use super::states_text::Counted;
use super::{states_document, states_text, tools};
use crate::command_error::CommandError;
use crate::output::{self, note};

const INTERVAL: Duration = Duration::from_secs(30);

/// Counts power cuts.
pub struct CutProgress {
    count: Cell<u64>,
    noted: Cell<Instant>,
}

impl CutProgress {
    pub fn new() -> Self {
        Self { count: Cell::new(0), noted: Cell::new(Instant::now()) }
    }

    pub fn show(&self, batch: &StateBatch) {
        self.count.set(self.count.get() + 1);
        for broken in batch.broken.iter().filter(|_| batch.counts.broken > 0) {
            let first = broken.violations.first().map_or("", |it| it.detail.as_str());
            note(&format!("{}: {first}", broken.id));
        }
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
    dir: &Path,
) -> Result<(), CommandError> {
    if args.json {
        let document = states_document::document(plan, setups, results, dir);
        output::json(states_document::CutsDocument(document))?;
    } else {
        let text = states_text::text(setups, results, dir, Counted::Cuts, output::width());
        output::print(&text)?;
    }
    tools::verdict(results)
}
