//! Changes that keep the files of a device, in words: what will be changed, what has to wait, and
//! what was changed.

use std::path::Path;

use flashfit_apply::keep_data::{
    Improved, ImprovementNote, ImprovementPlan, ImprovementStep, JournalStep, SkippedImprovement,
    UnfinishedImprovement,
};
use flashfit_device::Device;
use flashfit_filesystem::Improvement;
use flashfit_host::path_text;
use flashfit_report::text::{plain, wrap};
use schemars::JsonSchema;
use serde::Serialize;

use crate::command_error::CommandError;
use crate::output;

#[derive(JsonSchema, Serialize)]
pub struct WouldImprove<'a> {
    target: String,
    /// Whether somebody uses the device, so that nothing is written to it directly.
    is_in_use: bool,
    improvements: &'a [Improvement],
    steps: &'a [ImprovementStep],
    skipped: &'a [SkippedImprovement],
    notes: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
pub struct ImprovedDocument<'a> {
    target: String,
    /// The directory with the journal; null if there was nothing to change.
    backup: Option<String>,
    /// The command that takes it back; null if there was nothing to change.
    undo: Option<&'a str>,
    steps: &'a [JournalStep],
    skipped: &'a [SkippedImprovement],
    /// Whether files of the running system were changed, which the next start uses.
    restart_needed: bool,
    notes: Vec<String>,
}

/// The programs that the steps run.
pub fn programs(plan: &ImprovementPlan) -> Vec<&str> {
    let mut names = vec!["blkid"];
    for step in &plan.steps {
        names.extend(match step {
            ImprovementStep::Superblock { .. } => vec!["tune2fs", "e2fsck", "dumpe2fs"],
            ImprovementStep::TryOptions { .. } | ImprovementStep::Remount { .. } => vec!["mount"],
            ImprovementStep::Trim { .. } => vec!["fstrim"],
            ImprovementStep::Queue { .. } | ImprovementStep::SystemFile { .. } => vec![],
        });
    }
    names
}

/// What a user sees before agreeing.
pub fn announcement(
    device: &Device,
    plan: &ImprovementPlan,
    earlier: Option<&UnfinishedImprovement>,
    folder: &Path,
) -> String {
    let name = path_text::to_text(&device.path);
    let mut lines = Vec::new();
    if let Some(earlier) = earlier {
        lines.push(format!("Continuing: {earlier}."));
    }
    if plan.steps.is_empty() {
        lines.push(format!("Nothing is to be changed on {name}."));
    } else {
        lines.push(format!("What will be changed on {name}. All files are kept."));
    }
    for step in &plan.steps {
        lines.push(format!("  {step}"));
        lines.extend(details(step).into_iter().map(|line| format!("      {line}")));
    }
    let reasons = plan.improvements.iter().filter(|_| earlier.is_none() && !plan.steps.is_empty());
    let mut reasons: Vec<&str> = reasons.map(Improvement::why).collect();
    reasons.dedup();
    if !reasons.is_empty() {
        lines.push("Because:".to_owned());
        lines.extend(reasons.into_iter().flat_map(indented));
    }
    if !plan.skipped.is_empty() {
        lines.push("Not now:".to_owned());
    }
    for skipped in &plan.skipped {
        lines.push(format!("  {}", skipped.improvement.command_line()));
        lines.extend(indented(&format!("  {}", skipped.reason)));
    }
    lines.extend(notes(plan));
    for improvement in plan.improvements.iter().filter(|one| !one.risk().is_empty()) {
        lines.push(format!("warning: {}: {}", improvement.command_line(), improvement.risk()));
    }
    if !plan.steps.is_empty() {
        lines.push(format!("What was there before is recorded in {}.", path_text::to_text(folder)));
    }
    plain_lines(&lines)
}

fn notes(plan: &ImprovementPlan) -> impl Iterator<Item = String> + '_ {
    let lines = |note: &ImprovementNote| {
        let line = note.line.as_ref().map(|line| format!("  {line}"));
        [format!("note: {}", note.text)].into_iter().chain(line)
    };
    plan.notes.iter().flat_map(lines)
}

fn indented(text: &str) -> Vec<String> {
    let width = output::width().saturating_sub(4);
    let indent = if text.starts_with("  ") { "      " } else { "  " };
    wrap(text.trim(), width).into_iter().map(|line| format!("{indent}{line}")).collect()
}

/// The lines of a file that change.
fn details(step: &ImprovementStep) -> Vec<String> {
    let ImprovementStep::SystemFile { before, after, .. } = step else { return Vec::new() };
    let before: Vec<&str> = before.as_deref().unwrap_or_default().lines().collect();
    let after: Vec<&str> = after.lines().collect();
    let removed = before.iter().filter(|line| !after.contains(line));
    let added = after.iter().filter(|line| !before.contains(line));
    removed.map(|line| format!("- {line}")).chain(added.map(|line| format!("+ {line}"))).collect()
}

/// A dry run, or a device with nothing to change.
pub fn not_done(
    json: bool,
    device: &Device,
    is_exclusive: bool,
    plan: &ImprovementPlan,
    what: &str,
) -> Result<(), CommandError> {
    if json {
        return output::json(WouldImprove {
            target: path_text::to_text(&device.path),
            is_in_use: !is_exclusive,
            improvements: &plan.improvements,
            steps: &plan.steps,
            skipped: &plan.skipped,
            notes: plan.notes.iter().map(ToString::to_string).collect(),
        });
    }
    output::print_with_commands(&format!("{what}\nNothing was changed."))
}

/// A device with nothing to change, in a document of what was changed.
pub fn nothing_to_do(device: &Device, plan: &ImprovementPlan) -> Result<(), CommandError> {
    output::json(ImprovedDocument {
        target: path_text::to_text(&device.path),
        backup: None,
        undo: None,
        steps: &[],
        skipped: &plan.skipped,
        restart_needed: false,
        notes: plan.notes.iter().map(ToString::to_string).collect(),
    })
}

/// What was changed, and how to take it back.
pub fn done(
    json: bool,
    device: &Device,
    plan: &ImprovementPlan,
    improved: &Improved,
    undo: &str,
) -> Result<(), CommandError> {
    if json {
        return output::json(document(device, plan, improved, undo));
    }
    let mut lines = vec![format!("Changed on {}:", path_text::to_text(&device.path))];
    lines.extend(improved.steps.iter().map(|step| format!("  {}", step.step)));
    lines.extend(notes(plan));
    lines.extend(improved.notes.iter().map(|note| format!("note: {note}")));
    if plan.changes_own_system {
        let restart = "Restart the machine when it suits you: the changed files of the system \
                       take effect then. What could be changed in use is in effect already.";
        lines.extend(wrap(restart, output::width()));
    }
    lines.push("To take it back (discarded blocks stay discarded; they were free):".to_owned());
    lines.push(format!("  {undo}"));
    output::print_with_commands(&plain_lines(&lines))
}

fn document<'a>(
    device: &Device,
    plan: &'a ImprovementPlan,
    improved: &'a Improved,
    undo: &'a str,
) -> ImprovedDocument<'a> {
    ImprovedDocument {
        target: path_text::to_text(&device.path),
        backup: Some(path_text::to_text(&improved.folder)),
        undo: Some(undo),
        steps: &improved.steps,
        skipped: &plan.skipped,
        restart_needed: plan.changes_own_system,
        notes: plan
            .notes
            .iter()
            .map(ToString::to_string)
            .chain(improved.notes.iter().cloned())
            .collect(),
    }
}

fn plain_lines(lines: &[String]) -> String {
    lines.iter().map(|line| plain(line)).collect::<Vec<_>>().join("\n")
}
