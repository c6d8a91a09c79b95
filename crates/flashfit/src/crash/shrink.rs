//! `flashfit crash shrink`: the shortest workload with the same violation.

use std::path::Path;

use flashfit_crash::model::Violation;
use flashfit_crash::shrink::{ShrunkState, shrink};
use flashfit_crash::state::CrashState;
use flashfit_crash::timeline::TimelineEvent;
use schemars::JsonSchema;
use serde::Serialize;

use super::recorded::RecordedState;
use super::recorded_args::ShrinkArgs;
use super::timeline_text;
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
    let recorded = RecordedState::open(&args.state, catalog)?;
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

fn names(shrunk: &ShrunkState) -> Vec<String> {
    shrunk.operations.iter().map(|(_, operation)| operation.to_string()).collect()
}
