//! Which changes were made (`improvement.json`), each with what was there before, and a record on
//! this machine of those that were interrupted.

use std::path::{Path, PathBuf};

use flashfit_device::{Device, SystemRoots};
use flashfit_filesystem::Improvement;
use flashfit_host::calendar::unix_seconds;
use flashfit_host::dir::DirHandle;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ApplyError;
use crate::fingerprint::DeviceFingerprint;
use crate::install::{FSTAB, RULES};
use crate::journal::{BackupPointer, UnfinishedRecords, opened, read_json, write_json};
use crate::steps::{ApplyEvent, ApplyTools};

use super::{ImproveRequest, ImprovementPlan, ImprovementStep};

const FILE: &str = "improvement.json";
const DRAFT: &str = "improvement.json.part";
const SCHEMA: &str = "flashfit.improvement";
const SCHEMA_VERSION: u32 = 1;

/// How far a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepState {
    Planned,
    Begun,
    Done,
    Restored,
}

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct JournalStep {
    pub state: StepState,
    #[serde(flatten)]
    pub step: ImprovementStep,
}

/// What was asked for when changes were begun.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRequest {
    /// The settings that the user named, in the words of the caller.
    pub words: Vec<String>,
    /// The system whose files change.
    #[serde(with = "flashfit_host::path_text::document")]
    pub root: PathBuf,
    /// The changes that the steps make, with their risks.
    pub improvements: Vec<Improvement>,
}

/// The contents of `improvement.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImprovementJournal {
    pub schema: String,
    pub schema_version: u32,
    pub started_unix_s: u64,
    pub device: DeviceFingerprint,
    pub resume_command: String,
    pub restore_command: String,
    /// Journals of earlier versions lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<ChangeRequest>,
    /// Whether the steps are being taken back.
    pub is_restoring: bool,
    pub is_finished: bool,
    pub steps: Vec<JournalStep>,
    #[serde(skip)]
    pub(super) folder: PathBuf,
}

impl ImprovementJournal {
    /// The journal in a folder; `None` where there is none.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    pub fn read(folder: &Path) -> Result<Option<Self>, ApplyError> {
        let Some(dir) = opened(folder)? else { return Ok(None) };
        let Some(mut journal) = read_json::<Self>(&dir, FILE)? else { return Ok(None) };
        if journal.schema != SCHEMA || journal.schema_version != SCHEMA_VERSION {
            let reason = format!("a format of version {}", journal.schema_version);
            return Err(ApplyError::Damaged { path: folder.join(FILE), reason });
        }
        if let Some(reason) = journal.steps.iter().find_map(|step| step.step.problem()) {
            let reason = reason.to_owned();
            return Err(ApplyError::Damaged { path: folder.join(FILE), reason });
        }
        journal.folder = std::path::absolute(folder).map_err(ApplyError::file(folder))?;
        Ok(Some(journal))
    }

    /// A new journal in an empty folder, or the one there of an interrupted call.
    pub(super) fn begin(
        tools: &ApplyTools<'_>,
        request: &ImproveRequest<'_>,
    ) -> Result<Self, ApplyError> {
        let folder =
            std::path::absolute(&request.folder).map_err(ApplyError::file(&request.folder))?;
        let device = DeviceFingerprint::of(tools.system, request.access.device());
        let mut journal = match Self::read(&folder)? {
            Some(found) => {
                if let Some(what) = found.device.difference(&device) {
                    return Err(ApplyError::OtherDevice { folder, what });
                }
                if found.device.is_other_file(&device) {
                    let what = "it is another file of the same size, or not a file".to_owned();
                    return Err(ApplyError::OtherDevice { folder, what });
                }
                // One without a record here, such as one that was brought from another machine.
                let words = &request.asked.words;
                let differs = |asked: &ChangeRequest| !words.is_empty() && *words != asked.words;
                let is_other = found.asked.as_ref().is_some_and(differs);
                if found.is_finished || found.is_restoring || is_other {
                    return Err(ApplyError::Occupied { path: folder });
                }
                for left in found.steps.iter().filter(|step| step.state != StepState::Done) {
                    left.step.expect_same(tools, request.access)?;
                }
                (tools.on_event)(&ApplyEvent::Resumed { backup: folder.clone() });
                found
            }
            None => {
                let dir = DirHandle::create(&folder, 0o700)?;
                // A kill while the journal was first written leaves a draft of it.
                if dir.names()?.iter().any(|name| name != DRAFT) {
                    return Err(ApplyError::Occupied { path: folder });
                }
                let planned = |step: &ImprovementStep| JournalStep {
                    state: StepState::Planned,
                    step: step.clone(),
                };
                Self {
                    schema: SCHEMA.to_owned(),
                    schema_version: SCHEMA_VERSION,
                    started_unix_s: unix_seconds(),
                    device: device.clone(),
                    resume_command: String::new(),
                    restore_command: String::new(),
                    asked: Some(request.asked.clone()),
                    is_restoring: false,
                    is_finished: false,
                    steps: request.steps.iter().map(planned).collect(),
                    folder,
                }
            }
        };
        journal.device = device;
        journal.resume_command.clone_from(&request.resume_command);
        journal.restore_command.clone_from(&request.restore_command);
        // A record without a journal means nothing; a journal without a record would be forgotten.
        journal.remember(tools)?;
        journal.write()?;
        Ok(journal)
    }

    /// Whether no step is left, also where the journal does not say yet that it is finished.
    pub(super) fn is_complete(&self) -> bool {
        match self.is_restoring {
            true => self.left().next().is_none(),
            false => self.steps.iter().all(|step| step.state == StepState::Done),
        }
    }

    /// The changes that are still to be made.
    pub fn rest(&self) -> ImprovementPlan {
        let left = self.steps.iter().filter(|step| step.state != StepState::Done);
        let own = [FSTAB, RULES].map(|file| Path::new("/").join(file));
        let changes_own = |step: &JournalStep| match &step.step {
            ImprovementStep::SystemFile { path, .. } => own.contains(path),
            _ => false,
        };
        ImprovementPlan {
            steps: left.map(|step| step.step.clone()).collect(),
            skipped: Vec::new(),
            notes: Vec::new(),
            improvements: self.asked.clone().unwrap_or_default().improvements,
            changes_own_system: self.steps.iter().any(changes_own),
        }
    }

    /// Makes this machine remember it until it is finished.
    pub(super) fn remember(&self, tools: &ApplyTools<'_>) -> Result<(), ApplyError> {
        let pointer = BackupPointer { device: self.device.clone(), backup: self.folder.clone() };
        tools.records.improvements().put(&pointer)
    }

    pub(super) fn set(&mut self, index: usize, state: StepState) -> Result<(), ApplyError> {
        self.steps[index].state = state;
        self.write()
    }

    pub(super) fn finish(&mut self, tools: &ApplyTools<'_>) -> Result<(), ApplyError> {
        self.is_finished = true;
        self.write()?;
        tools.records.improvements().remove(&self.device)
    }

    pub(super) fn write(&self) -> Result<(), ApplyError> {
        write_json(&DirHandle::open(&self.folder)?, FILE, self)
    }
}

/// Changes that were interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedImprovement {
    pub folder: PathBuf,
    pub is_restoring: bool,
    /// Whether it is surely this device, and not another card in the same reader.
    pub is_sure: bool,
    /// How many of the steps are made.
    pub done: usize,
    pub all: usize,
    /// Whether no step is left: it was interrupted before its journal said so.
    pub is_complete: bool,
    pub resume_command: String,
    pub restore_command: String,
}

impl std::fmt::Display for UnfinishedImprovement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { done, all, .. } = self;
        let what = if self.is_restoring { "restore of changes" } else { "change" };
        write!(f, "an interrupted {what} that keeps the files: {done} of {all} steps are made")?;
        write!(f, "; its journal is in {}", self.folder.display())?;
        if self.is_sure {
            return Ok(());
        }
        f.write_str("; it may be of another device with the same identity")
    }
}

/// Looks whether changes of this device were interrupted on this machine.
///
/// # Errors
/// When a file of ours cannot be read.
pub fn unfinished(
    system: &SystemRoots,
    device: &Device,
    records: &UnfinishedRecords,
) -> Result<Option<UnfinishedImprovement>, ApplyError> {
    let who = DeviceFingerprint::of(system, device);
    let Some(pointer) = records.improvements().find(&who)? else { return Ok(None) };
    let Some(journal) = ImprovementJournal::read(&pointer.backup)? else { return Ok(None) };
    if journal.is_finished {
        return Ok(None);
    }
    let is_done = |step: &&JournalStep| step.state == StepState::Done;
    Ok(Some(UnfinishedImprovement {
        folder: journal.folder.clone(),
        is_restoring: journal.is_restoring,
        is_sure: journal.device.is_surely(&who, false),
        done: journal.steps.iter().filter(is_done).count(),
        all: journal.steps.len(),
        is_complete: journal.is_complete(),
        resume_command: if journal.is_restoring {
            journal.restore_command.clone()
        } else {
            journal.resume_command.clone()
        },
        restore_command: journal.restore_command,
    }))
}
