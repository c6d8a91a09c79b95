//! `flashfit crash replay`: one state of a campaign, looked at again.

use std::path::{Path, PathBuf};

use flashfit_crash::model::Violation;
use flashfit_crash::replay::{ReplayedState, replay};
use flashfit_crash::state::CrashState;
use flashfit_crash::timeline::TimelineEvent;
use flashfit_host::path_text::to_text;
use schemars::JsonSchema;
use serde::Serialize;

use super::recorded::RecordedState;
use super::recorded_args::ReplayArgs;
use super::timeline_text;
use crate::command_error::CommandError;
use crate::output;

#[derive(Debug, JsonSchema, Serialize)]
pub struct ReplayedDocument<'a> {
    id: &'a str,
    state: &'a CrashState,
    violations: &'a [Violation],
    /// Whether the campaign found the same; null if it has no record of this state.
    as_recorded: Option<bool>,
    timeline: &'a [TimelineEvent],
    image: Option<&'a Path>,
    /// The requests in the format of dm-log-writes.
    dm_log: Option<&'a Path>,
}

pub fn run(args: &ReplayArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let recorded = RecordedState::open(&args.state, args.workload.as_deref(), catalog)?;
    let machine = recorded.machine()?;
    let RecordedState { points, runner, plan, found, setup, .. } = &recorded;
    let file = |kind| file_path(&args.state.dir, &args.state.id, kind);
    let dm_log = args.dm_log.then(|| file("dm-log"));
    if let Some(path) = &dm_log {
        found.export_dm_log(path)?;
    }
    let image = args.keep_image.then(|| file("img"));
    let seen = replay(found, setup, plan, runner, points, machine.as_ref(), image.as_deref())?;
    let as_recorded = found.recorded.as_ref().map(|recorded| *recorded == seen.violations);
    if args.state.json {
        let document = ReplayedDocument {
            id: &found.id,
            state: &found.state,
            violations: &seen.violations,
            as_recorded,
            timeline: &seen.timeline,
            image: seen.image.as_deref(),
            dm_log: dm_log.as_deref(),
        };
        return output::json(document);
    }
    output::print(&text(&seen, as_recorded, dm_log.as_deref()))
}

fn text(seen: &ReplayedState, as_recorded: Option<bool>, dm_log: Option<&Path>) -> String {
    let mut text = timeline_text::events(&seen.timeline);
    text.push('\n');
    text.push_str(&timeline_text::violations(&seen.violations, output::width()));
    if as_recorded == Some(false) {
        text.push_str("The campaign found something else.\n");
    }
    if let Some(image) = &seen.image {
        text.push_str(&format!("image after the power cut: {}\n", to_text(image)));
    }
    if let Some(log) = dm_log {
        text.push_str(&format!("requests in the format of dm-log-writes: {}\n", to_text(log)));
    }
    text
}

fn file_path(dir: &Path, id: &str, kind: &str) -> PathBuf {
    dir.join(format!("{}.{kind}", id.replace(['/', ':', '+'], "-")))
}
