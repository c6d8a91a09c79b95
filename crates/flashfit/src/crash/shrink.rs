//! `flashfit crash shrink`: the shortest workload with the same violation.

use std::path::Path;

use flashfit_crash::model::Violation;
use flashfit_crash::shrink::{ShrunkState, check_can_shrink, shrink};
use flashfit_crash::state::CrashState;
use flashfit_crash::timeline::TimelineEvent;
use flashfit_crash::workload::CrashWorkload;
use flashfit_host::program::{quote, quote_path};
use schemars::JsonSchema;
use serde::Serialize;

use super::recorded::RecordedState;
use super::recorded_args::ShrinkArgs;
use super::{folder, timeline_text};
use crate::command_error::CommandError;
use crate::output::{self, note};

#[derive(Debug, JsonSchema, Serialize)]
pub struct ShrunkDocument<'a> {
    id: &'a str,
    operations: Vec<String>,
    state: &'a CrashState,
    violations: &'a [Violation],
    timeline: &'a [TimelineEvent],
    attempts: u32,
}

pub fn run(args: &ShrinkArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    check(args)?;
    let recorded = RecordedState::open(&args.state, args.workload.as_deref(), catalog)?;
    let machine = recorded.machine()?;
    let RecordedState { points, runner, plan, found, setup, .. } = &recorded;
    let watch = |left: usize| note(&format!("{left} operations"));
    let shrunk = shrink(found, setup, plan, runner, points, machine.as_ref(), &watch)?;
    if args.state.json {
        let document = ShrunkDocument {
            id: &found.id,
            operations: names(&shrunk),
            state: &shrunk.state,
            violations: &shrunk.violations,
            timeline: &shrunk.timeline,
            attempts: shrunk.attempts,
        };
        return output::json(document);
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

/// Refuses work that cannot be shortened, before anything of it could run.
fn check(args: &ShrinkArgs) -> Result<(), CommandError> {
    let (dir, id) = (&args.state.dir, &args.state.id);
    let (folder, plan) = folder::existing(dir)?;
    drop(folder);
    let more = match plan.workload {
        CrashWorkload::Program(_) => " --workload FILE",
        _ => "",
    };
    let replay = format!("flashfit crash replay {} {}{more}", quote_path(dir), quote(id));
    let hint = format!("look at the state as it was found: {replay}");
    check_can_shrink(&plan, id).map_err(|error| CommandError::from(error).or_hint(&hint))
}

fn names(shrunk: &ShrunkState) -> Vec<String> {
    shrunk.operations.iter().map(|(_, operation)| operation.to_string()).collect()
}
