//! Takes changes back, the last one first.

use flashfit_device::SystemRoots;

use crate::error::ApplyError;
use crate::fingerprint::DeviceFingerprint;
use crate::journal::UnfinishedRecords;
use crate::steps::{ApplyEvent, ApplyTools, WrittenPart};

use super::journal::{ImprovementJournal, JournalStep, StepState};
use super::{DeviceAccess, Improved, interrupted};

impl ImprovementJournal {
    /// Whether taking it back writes to the device itself, which must not be in use then.
    pub fn restore_needs_exclusive(&self) -> bool {
        self.steps.iter().any(|step| is_left(step) && step.step.needs_exclusive())
    }

    /// Why `device` is not the one of this journal; `None` if it is.
    pub fn difference(
        &self,
        system: &SystemRoots,
        device: &flashfit_device::Device,
    ) -> Option<String> {
        self.device.difference(&DeviceFingerprint::of(system, device))
    }

    /// Whether `device` is another image file than that of this journal, or only one of them is an
    /// image file. A copy is another file.
    pub fn is_other_file(&self, system: &SystemRoots, device: &flashfit_device::Device) -> bool {
        self.device.is_other_file(&DeviceFingerprint::of(system, device))
    }

    /// Ends changes that have no step left.
    ///
    /// # Errors
    /// When the journal or the record cannot be written.
    pub fn end(mut self, records: &UnfinishedRecords) -> Result<(), ApplyError> {
        self.is_finished = true;
        self.write()?;
        records.improvements().remove(&self.device)
    }

    /// The changes that are to be taken back, the last one first.
    pub fn left(&self) -> impl Iterator<Item = &JournalStep> {
        self.steps.iter().rev().filter(|step| is_left(step))
    }
}

fn is_left(step: &JournalStep) -> bool {
    matches!(step.state, StepState::Begun | StepState::Done) && step.step.can_be_taken_back()
}

/// Takes the changes of a journal back. Interrupted, the same call continues.
///
/// # Errors
/// See [`ApplyError`].
pub fn restore(
    tools: &ApplyTools<'_>,
    access: &DeviceAccess,
    mut journal: ImprovementJournal,
    restore_command: &str,
) -> Result<Improved, ApplyError> {
    if let Some(what) = journal.difference(tools.system, access.device()) {
        return Err(ApplyError::OtherDevice { folder: journal.folder, what });
    }
    for step in journal.left() {
        step.step.expect_same(tools, access)?;
    }
    journal.device = DeviceFingerprint::of(tools.system, access.device());
    restore_command.clone_into(&mut journal.restore_command);
    journal.is_restoring = true;
    journal.is_finished = false;
    journal.remember(tools)?;
    journal.write()?;
    let mut notes = Vec::new();
    for index in (0..journal.steps.len()).rev() {
        if !is_left(&journal.steps[index]) {
            continue;
        }
        interrupted(tools)?;
        let was_begun = journal.steps[index].state == StepState::Begun;
        let step = journal.steps[index].step.clone();
        (tools.on_event)(&ApplyEvent::Running(format!("taking back: {step}")));
        access.check(tools)?;
        let mut begin = || journal.set(index, StepState::Begun);
        notes.extend(step.take_back(tools, access, was_begun, &mut begin)?);
        journal.set(index, StepState::Restored)?;
        (tools.on_event)(&ApplyEvent::Writing(WrittenPart::Journal));
    }
    journal.finish(tools)?;
    Ok(Improved { folder: journal.folder.clone(), steps: journal.steps, notes })
}
