//! `flashfit crash shrink`: the shortest workload with the same violation.

use std::path::Path;

use flashfit_crash::campaign::{CampaignFolder, MountPoints};
use flashfit_crash::model::Violation;
use flashfit_crash::replay::FoundState;
use flashfit_crash::setup::CrashSetup;
use flashfit_crash::shrink::{ShrunkState, shrink};
use flashfit_crash::state::CrashState;
use flashfit_crash::timeline::TimelineEvent;
use flashfit_filesystem::FileSystemCatalog;
use serde::Serialize;

use super::args::ShrinkArgs;
use super::{timeline_text, tools};
use crate::command_error::CommandError;
use crate::output::{self, note};

#[derive(Debug, Serialize)]
struct Document<'a> {
    id: &'a str,
    operations: Vec<String>,
    state: &'a CrashState,
    violations: &'a [Violation],
    timeline: &'a [TimelineEvent],
    attempts: u32,
}

pub fn run(args: &ShrinkArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    tools::check_rights()?;
    let points = MountPoints::take(&[&args.state.dir, Path::new(".")])?;
    let runner = tools::runner()?;
    let (folder, plan) = CampaignFolder::existing(&args.state.dir)?;
    tools::check_workload(&plan, args.state.workload.as_deref())?;
    let found = FoundState::find(&folder, &plan, &args.state.id)?;
    let (conditions, _) = tools::device(None, catalog)?;
    let known = FileSystemCatalog::load(catalog)?;
    let setup = CrashSetup::parse(&found.setup, &known, &conditions)?;
    setup.check_kernel(&runner)?;
    let watch = |left: usize| note(&format!("{left} operations"));
    let shrunk = shrink(&found, &setup, &plan, &runner, &points, &watch)?;
    if args.state.json {
        let document = Document {
            id: &found.id,
            operations: names(&shrunk),
            state: &shrunk.state,
            violations: &shrunk.violations,
            timeline: &shrunk.timeline,
            attempts: shrunk.attempts,
        };
        return output::json("crash-shrink", document);
    }
    let mut text = format!("{} operations show it:\n", shrunk.operations.len());
    for name in names(&shrunk) {
        text.push_str(&format!("  {name}\n"));
    }
    text.push('\n');
    text.push_str(&timeline_text::events(&shrunk.timeline));
    text.push('\n');
    text.push_str(&timeline_text::violations(&shrunk.violations, output::width()));
    output::print(&text)
}

fn names(shrunk: &ShrunkState) -> Vec<String> {
    shrunk.operations.iter().map(|(_, operation)| operation.to_string()).collect()
}
