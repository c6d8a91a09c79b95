//! Changes of a device that keep its files: mount options, queue, superblock, discards.
//!
//! What is unmounted is written to through the guard, as a plan is ([`DeviceAccess::Exclusive`]).
//! What is in use gets only what the kernel changes in use ([`DeviceAccess::InUse`]): options of a
//! mount, the queue, discards, and files of the system. Each step is in a journal before it begins,
//! with what was there before, so the same call continues, and [`restore`] takes the steps back.
//! Both first compare the UUIDs of the file systems that they would write to.
//! Limits: a discard cannot be taken back, and loses nothing; an option that the kernel does not
//! change back in use returns at the next mount.

mod access;
mod fstab;
mod journal;
mod mounts;
mod plan;
mod restoring;
mod step;
mod superblock;
mod system_files;

use std::path::PathBuf;

use flashfit_host::Runner;

use crate::error::ApplyError;
use crate::steps::{ApplyEvent, ApplyTools, WrittenPart};

pub use access::{DeviceAccess, PinnedDevice};
pub use journal::{
    ChangeRequest, ImprovementJournal, JournalStep, StepState, UnfinishedImprovement, unfinished,
};
pub use plan::{ImprovementNote, ImprovementPlan, PlanContext, SkippedImprovement};
pub use restoring::restore;
pub use step::ImprovementStep;

/// What is to be done, and where.
pub struct ImproveRequest<'a> {
    pub access: &'a DeviceAccess,
    /// Where the journal is kept.
    pub folder: PathBuf,
    /// The steps, or those of the interrupted call that this one continues.
    pub steps: Vec<ImprovementStep>,
    /// What the steps follow from.
    pub asked: ChangeRequest,
    pub resume_command: String,
    pub restore_command: String,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Improved {
    pub folder: PathBuf,
    pub steps: Vec<JournalStep>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Makes the changes, or continues with those that an interruption left.
///
/// # Errors
/// See [`ApplyError`]. What was begun is then in the journal.
pub fn improve(
    tools: &ApplyTools<'_>,
    request: &ImproveRequest<'_>,
) -> Result<Improved, ApplyError> {
    let mut journal = ImprovementJournal::begin(tools, request)?;
    let mut notes = Vec::new();
    for index in 0..journal.steps.len() {
        if journal.steps[index].state == StepState::Done {
            continue;
        }
        interrupted(tools)?;
        let was_begun = journal.steps[index].state == StepState::Begun;
        let step = journal.steps[index].step.clone();
        (tools.on_event)(&ApplyEvent::Running(step.to_string()));
        request.access.check(tools)?;
        let mut begin = || journal.set(index, StepState::Begun);
        notes.extend(step.make(tools, request.access, was_begun, &mut begin)?);
        journal.set(index, StepState::Done)?;
        (tools.on_event)(&ApplyEvent::Writing(WrittenPart::Journal));
    }
    journal.finish(tools)?;
    Ok(Improved { folder: journal.folder.clone(), steps: journal.steps, notes })
}

fn interrupted(tools: &ApplyTools<'_>) -> Result<(), ApplyError> {
    if tools.interrupt.is_raised() { Err(ApplyError::Interrupted) } else { Ok(()) }
}

/// The words of mount options that the kernel shows for a mount.
fn shown_words(entry: &flashfit_host::mountinfo::MountEntry) -> Vec<String> {
    let words = entry.options.split(',').chain(entry.super_options.split(','));
    let mut found: Vec<String> = Vec::new();
    for word in words.filter(|word| !word.is_empty()) {
        if !found.iter().any(|known| known == word) {
            found.push(word.to_owned());
        }
    }
    found
}

/// Runs a program whose exit code is looked at by the caller.
fn run_any(
    runner: &dyn Runner,
    program: &flashfit_host::Program,
) -> Result<flashfit_host::ProgramOutcome, ApplyError> {
    Ok(runner.run(program)?)
}
