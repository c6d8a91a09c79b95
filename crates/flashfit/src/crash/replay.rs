//! `flashfit crash replay`: one state of a campaign, looked at again.

use std::path::{Path, PathBuf};

use flashfit_crash::model::Violation;
use flashfit_crash::replay::{ReplayedState, replay};
use flashfit_crash::state::CrashState;
use flashfit_crash::timeline::TimelineEvent;
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
}

pub fn run(args: &ReplayArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let recorded = RecordedState::open(&args.state, catalog)?;
    let machine = recorded.machine()?;
    let RecordedState { points, runner, plan, found, setup, .. } = &recorded;
    let image = args.keep_image.then(|| image_path(&args.state.dir, &args.state.id));
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
        };
        return output::json(document);
    }
    output::print(&text(&seen, as_recorded))
}

fn text(seen: &ReplayedState, as_recorded: Option<bool>) -> String {
    let mut text = timeline_text::events(&seen.timeline);
    text.push('\n');
    text.push_str(&timeline_text::violations(&seen.violations, output::width()));
    if as_recorded == Some(false) {
        text.push_str("The campaign found something else.\n");
    }
    if let Some(image) = &seen.image {
        text.push_str(&format!("image after the power cut: {}\n", image.display()));
    }
    text
}

fn image_path(dir: &Path, id: &str) -> PathBuf {
    dir.join(format!("{}.img", id.replace(['/', ':', '+'], "-")))
}
