//! Carrying work out, step by step: saved, marked, partitioned, made, verified, installed,
//! finished. Each step is written down before it is begun, and the device is looked at again right
//! before whatever writes to it.

use std::path::{Path, PathBuf};

use flashfit_device::{SystemRoots, WriteConsent};
use flashfit_host::calendar;
use flashfit_host::interrupt::Interrupt;
use flashfit_host::mount::Mounted;
use flashfit_host::{Program, Runner};

use crate::backup::Backup;
use crate::error::ApplyError;
use crate::install::{InstallTarget, Installed};
use crate::job::{ApplyJob, SecondJob};
use crate::journal::{ApplyJournal, ApplyStage, BackupPointer, UnfinishedRecords};
use crate::marker::{self, ApplyMarker};
use crate::packing;
use crate::partition;
use crate::region;
use crate::sysfs_queue::SysfsQueue;
use crate::verify::{ToolReport, Verified, ask, verify};

/// Reports each step as it happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplyEvent {
    /// A stage begins; it is written down already.
    StageStarted(ApplyStage),
    /// Work that was left unfinished is taken up.
    Resumed {
        /// Where what the device held before is kept.
        backup: PathBuf,
    },
    /// A program is about to be run.
    Running(String),
    /// Something is about to be written to the device.
    Writing(WrittenPart),
}

/// What is written to a device or next to it, outside of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenPart {
    Marker,
    /// What was at the marker's place before, or zeros.
    UnderMarker,
    /// A part of the backup.
    Saved,
    /// The journal of changes that keep the data.
    Journal,
}

/// What the work is done with.
pub struct ApplyTools<'a> {
    /// Where the kernel's view is read.
    pub system: &'a SystemRoots,
    pub runner: &'a dyn Runner,
    /// Where this machine remembers unfinished devices.
    pub records: &'a UnfinishedRecords,
    /// Looked at between steps.
    pub interrupt: &'a Interrupt,
    pub on_event: &'a dyn Fn(&ApplyEvent),
}

pub struct ApplyRequest<'a> {
    /// Leave to write to the block device.
    pub consent: &'a WriteConsent,
    pub work: &'a ApplyJob,
    /// Where to keep what the device contains; a default is in [`crate::backup::default_folder`].
    pub backup: PathBuf,
    /// Whether the user named that folder.
    pub backup_is_given: bool,
    /// Whether the queue is the device's own: that of an image goes with its loop device.
    pub has_queue: bool,
    /// Where to install, if at all.
    pub install: Option<&'a InstallTarget>,
    /// The command that goes on after an interruption, given the folder of the backup.
    pub resume_command: &'a dyn Fn(&Path) -> String,
    /// The command that takes it back, given the folder of the backup.
    pub restore_command: &'a dyn Fn(&Path) -> String,
}

#[derive(Debug, Clone)]
pub struct Applied {
    /// Where what the device held before is kept.
    pub backup: PathBuf,
    /// What was compared with the plan.
    pub verified: Verified,
    pub installed: Option<Installed>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Makes the work true, or goes on with it where it was left.
///
/// # Errors
/// See [`ApplyError`]. What was begun is then in the journal, and [`crate::unfinished()`]
/// names it.
pub fn apply(tools: &ApplyTools<'_>, request: &ApplyRequest<'_>) -> Result<Applied, ApplyError> {
    if let Some(install) = request.install {
        install.check(request.work)?;
    }
    if request.has_queue {
        SysfsQueue::of(tools.system, request.consent.device()).offers(&request.work.scheduler)?;
    }
    let mut steps = ApplySteps::begin(tools, request)?;
    let verified = match steps.already_made()? {
        Some(verified) => verified,
        None => {
            steps.mark()?;
            let node = steps.partition()?;
            steps.make(&node)?;
            steps.verify()?
        }
    };
    steps.set_scheduler()?;
    let installed = steps.install(&verified)?;
    steps.finish()?;
    let ApplySteps { folder, notes, .. } = steps;
    Ok(Applied { backup: folder, verified, installed, notes })
}

/// Mounts what was applied; it stays mounted only if the caller keeps it.
///
/// # Errors
/// When the device is not as it was applied, or cannot be mounted.
pub fn mount(
    tools: &ApplyTools<'_>,
    request: &ApplyRequest<'_>,
    point: &Path,
) -> Result<Mounted, ApplyError> {
    let place = place(tools, request)?;
    crate::verify::mount(tools.runner, &place, request.work, point)
}

/// Leave to write to where the file system lies.
fn place(tools: &ApplyTools<'_>, request: &ApplyRequest<'_>) -> Result<WriteConsent, ApplyError> {
    match &request.work.partition {
        Some(wanted) => partition::find(tools.runner, request.consent, wanted),
        None => Ok(request.consent.clone()),
    }
}

/// Work that has been begun.
pub(crate) struct ApplySteps<'a> {
    pub(crate) tools: &'a ApplyTools<'a>,
    pub(crate) request: &'a ApplyRequest<'a>,
    pub(crate) folder: PathBuf,
    pub(crate) journal: ApplyJournal,
    pub(crate) notes: Vec<String>,
}

impl ApplySteps<'_> {
    fn consent(&self) -> &WriteConsent {
        self.request.consent
    }

    fn work(&self) -> &ApplyJob {
        self.request.work
    }

    /// Looks for an interruption, records the stage, reports it.
    fn step(&mut self, stage: ApplyStage) -> Result<(), ApplyError> {
        if self.tools.interrupt.is_raised() {
            return Err(ApplyError::Interrupted);
        }
        self.journal.begin(&self.folder, stage)?;
        (self.tools.on_event)(&ApplyEvent::StageStarted(stage));
        Ok(())
    }

    /// Runs a program that writes, after one more look at where it writes.
    fn run(&self, program: &Program, place: &WriteConsent) -> Result<(), ApplyError> {
        place.check(self.tools.runner)?;
        (self.tools.on_event)(&ApplyEvent::Running(program.command_line()));
        place.run(self.tools.runner, program)?;
        Ok(())
    }

    /// What was made before an interruption is kept when it is as planned: there may be a user's
    /// files on it by now.
    fn already_made(&mut self) -> Result<Option<Verified>, ApplyError> {
        let stage = self.journal.stage();
        let is_made = (ApplyStage::Verifying..=ApplyStage::Finishing).contains(&stage);
        if !is_made || self.journal.uuid.is_none() {
            return Ok(None);
        }
        let Ok(place) = self.place() else { return Ok(None) };
        match verify(self.tools.runner, &place, self.work()) {
            Ok(found) if found.uuid == self.journal.uuid => Ok(Some(found)),
            Ok(_) | Err(ApplyError::NotAsPlanned { .. } | ApplyError::Facts(_)) => Ok(None),
            Err(other) => Err(other),
        }
    }

    fn place(&self) -> Result<WriteConsent, ApplyError> {
        place(self.tools, self.request)
    }

    /// Leave to write to the second partition.
    fn second_place(&self, second: &SecondJob) -> Result<WriteConsent, ApplyError> {
        partition::find(self.tools.runner, self.consent(), &second.partition)
    }

    fn mark(&mut self) -> Result<(), ApplyError> {
        let record =
            BackupPointer { device: self.journal.device.clone(), backup: self.folder.clone() };
        self.tools.records.put(&record)?;
        self.tools.records.end_improvements(&self.journal.device)?;
        self.step(ApplyStage::Marking)?;
        let marker = ApplyMarker {
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            backup: Some(self.folder.clone()),
            unix_s: calendar::unix_seconds(),
        };
        let start = self.work().partition.as_ref().map(|partition| partition.start.0);
        let mut places = marker::places(start, self.consent().device().capacity.0).into_iter();
        let put = |offset| {
            (self.tools.on_event)(&ApplyEvent::Writing(WrittenPart::Marker));
            marker::put(self.tools.runner, self.consent(), offset, &marker)
        };
        if let Some(first) = places.next() {
            put(first)?;
        }
        if self.work().partition.is_none() {
            // An earlier table would show partitions that no longer exist.
            let disk = self.consent().path().display().to_string();
            let wipe = Program::new("wipefs").args(["--all", "--force", "--quiet"]).arg(disk);
            self.run(&wipe, self.consent())?;
            if let Some(delete) = partition::deletion(self.consent()) {
                (self.tools.on_event)(&ApplyEvent::Running(delete.command_line()));
                partition::forget_all(self.tools.runner, self.consent())?;
            }
        }
        places.try_for_each(put)
    }

    fn partition(&mut self) -> Result<WriteConsent, ApplyError> {
        let Some(wanted) = self.work().partition.clone() else { return Ok(self.consent().clone()) };
        self.step(ApplyStage::Partitioning)?;
        (self.tools.on_event)(&ApplyEvent::Running(wanted.sfdisk.command_line()));
        partition::make(self.tools.runner, self.consent(), &wanted)
    }

    fn make(&mut self, place: &WriteConsent) -> Result<(), ApplyError> {
        self.journal.uuid = None;
        self.step(ApplyStage::Making)?;
        for program in &self.work().format_commands {
            self.run(program, place)?;
        }
        if let Some(second) = &self.work().second {
            let place = self.second_place(second)?;
            for program in &second.format_commands {
                self.run(program, &place)?;
            }
            region::drop_cached(&place)?;
        }
        if let Some(image) = &self.work().image {
            packing::pack(self.tools.runner, self.tools.on_event, place, self.work(), image)?;
        }
        region::drop_cached(place)?;
        if let ToolReport::Facts(facts) = ask(self.tools.runner, place.path())? {
            self.journal.uuid = facts.uuid;
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<Verified, ApplyError> {
        self.step(ApplyStage::Verifying)?;
        // What is mounted is written to: its journal and its time of mounting.
        let place = self.place()?;
        verify(self.tools.runner, &place, self.work())
    }

    /// Sets the scheduler of the device's queue; an image has none.
    fn set_scheduler(&mut self) -> Result<(), ApplyError> {
        if !self.request.has_queue {
            return Ok(());
        }
        let queue = SysfsQueue::of(self.tools.system, self.consent().device());
        let before = queue.current()?;
        self.journal.scheduler_before.get_or_insert(before);
        self.journal.write(&self.folder)?;
        queue.set(&self.work().scheduler)
    }

    fn install(&mut self, verified: &Verified) -> Result<Option<Installed>, ApplyError> {
        let Some(install) = self.request.install else { return Ok(None) };
        let Some(uuid) = &verified.uuid else {
            self.notes.push("not installed: the file system has no UUID to identify it".into());
            return Ok(None);
        };
        self.step(ApplyStage::Installing)?;
        install.write(self.tools.runner, self.work(), verified, uuid).map(Some)
    }

    fn finish(&mut self) -> Result<(), ApplyError> {
        self.step(ApplyStage::Finishing)?;
        let pieces = Backup::read(&self.folder)?.contents()?;
        let (from, to) = marker::gap();
        let first = pieces.first().and_then(|(_, bytes)| bytes.get(from..to));
        let gap = first.filter(|_| self.work().partition.is_some());
        (self.tools.on_event)(&ApplyEvent::Writing(WrittenPart::UnderMarker));
        marker::remove(self.tools.runner, self.consent(), gap)?;
        self.journal.begin(&self.folder, ApplyStage::Done)?;
        (self.tools.on_event)(&ApplyEvent::StageStarted(ApplyStage::Done));
        self.tools.records.remove(&self.journal.device)
    }
}
