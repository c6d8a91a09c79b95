//! Errors of checking crash states that are not the file system's.

use std::io;
use std::path::{Path, PathBuf};

use flashfit_card_server::nbd::SocketError;
use flashfit_device::Bytes;
use flashfit_filesystem::SetupError;
use flashfit_host::ProgramError;
use flashfit_host::dir::DirError;
use flashfit_host::loop_device::LoopError;
use flashfit_host::mount::MountError;
use flashfit_host::mount_users::MountUser;
use flashfit_user_error::{ExitClass, Hint, UserError};
use flashfit_vm::{KernelError, VmError};

use crate::log::{DmLogError, LogFileError};

/// [`CrashError::Busy`] names so many processes.
pub const MOST_NAMED_USERS: usize = 3;

#[derive(Debug, thiserror::Error)]
pub enum CrashError {
    #[error("cannot serve a device to this kernel: {0}")]
    Fuse(io::Error),
    #[error(transparent)]
    Loop(#[from] LoopError),
    #[error("{}: {source}", device.display())]
    Device { device: PathBuf, source: io::Error },
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The new file system, before any power cut, is not mounted.
    #[error("{setup} is not mounted: {reason}")]
    NotMounted { setup: String, reason: String },
    #[error("cannot unmount {}: {source}", point.display())]
    Unmount { point: PathBuf, source: io::Error },
    /// A process uses the file system that is tested, and does not stop.
    #[error("cannot unmount {}: in use for {seconds} s{}", point.display(), named(users))]
    Busy { point: PathBuf, seconds: u64, users: Vec<MountUser> },
    #[error("{} is still mounted elsewhere after {seconds} s", device.display())]
    MountedElsewhere { device: PathBuf, seconds: u64 },
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    LogFile(#[from] LogFileError),
    /// The directory of a campaign is not one of ours.
    #[error(transparent)]
    Dir(#[from] DirError),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}: {reason}", path.display())]
    Invalid { path: PathBuf, reason: String },
    /// The kernel cannot mount this file system.
    #[error("this kernel has no {kind}")]
    NoFileSystem { kind: String },
    #[error("{filesystem} is not writable")]
    NotWritable { filesystem: String },
    #[error("{} has {free} free, and {needed} are needed", path.display())]
    NoRoom { path: PathBuf, needed: Bytes, free: Bytes },
    #[error("the workload acknowledged nothing: no power cut could break a promise")]
    NothingAcknowledged,
    #[error("the workload failed: {reason}")]
    WorkloadFailed { reason: String },
    #[error("the workload has not ended after {seconds} s")]
    WorkloadEndless { seconds: u64 },
    /// The time is over, or the user interrupted, before all work was done.
    #[error("the work was stopped before its end")]
    WorkStopped,
    /// The user's own check fails where no power was cut.
    #[error("the check of the workload fails on {setup} without a power cut: {detail}")]
    CheckFails { setup: String, detail: String },
    /// Requests that were recorded elsewhere.
    #[error("{}: {source}", path.display())]
    Requests { path: PathBuf, source: DmLogError },
    /// The contents of the device before the work.
    #[error("before the work, the device has no sound {setup}: {reason}")]
    NotSoundBefore { setup: String, reason: String },
    /// Their work cannot be done again.
    #[error("{id} is of requests that were recorded elsewhere: their work cannot be shortened")]
    OfRequests { id: String },
    /// SQLite's, or the user's own.
    #[error("{id} is of the work of a program, which runs as a whole: it cannot be shortened")]
    OfProgram { id: String },
    #[error("there is no state {id}")]
    NoState { id: String },
    /// Rounds without a violation are not kept.
    #[error("the log of {id} was not kept")]
    LogRemoved { id: String },
    #[error("{id} does not show the violation when its workload is recorded again")]
    NotShown { id: String },
    /// Images are kept of power cuts that broke a promise, the first of each setup.
    #[error("no image of {id} was kept, and a live power cut cannot be repeated")]
    NoImage { id: String },
    #[error("{id} is a live power cut, of which no requests are recorded")]
    NoRequests { id: String },
    /// What a card does depends on all requests before.
    #[error("{id} is a power cut of a simulated card: its workload cannot be shortened")]
    OfCard { id: String },
    /// `how` it differs may be unknown.
    #[error("{} has another campaign{}", path.display(), after_colon(how))]
    OtherCampaign { path: PathBuf, how: String },
    #[error("the campaign in {} began with Linux {began}, and this is {now}", path.display())]
    OtherKernel { path: PathBuf, began: String, now: String },
    #[error(
        "the campaign in {} began with another version of flashfit, which chose other states",
        path.display()
    )]
    OtherEnumeration { path: PathBuf },
    /// `how` is what it was there, and is now.
    #[error(
        "the catalog defines {setup} otherwise than for the campaign in {}: {how}",
        path.display()
    )]
    OtherCatalog { path: PathBuf, setup: String, how: String },
    #[error("{} is in use by another flashfit", path.display())]
    InUse { path: PathBuf },
    #[error("{0}")]
    Unprivileged(String),
    #[error(transparent)]
    Vm(#[from] VmError),
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The card cannot have the size that the file systems need.
    #[error(transparent)]
    Card(#[from] flashfit_card::ModelError),
    /// Something other than the file system failed in the machine that works.
    #[error("in the machine whose power is cut: {reason}")]
    Guest { reason: String },
    #[error("the virtual machine has not answered for {seconds} s")]
    Silent { seconds: u64 },
    #[error("the virtual machine ended: {console}")]
    GuestEnded { console: String },
    #[error(transparent)]
    Board(#[from] crate::board::BoardError),
    #[error("the device of the board has {has}, and {needed} are needed")]
    TooSmall { needed: Bytes, has: Bytes },
    #[error("the command for the board's power failed: {reason}")]
    Switch { reason: String },
    #[error("the command that cuts the power did not cut it: the board went on")]
    NotCut,
    /// The oracles find something where no power was cut.
    #[error("{setup} breaks a promise without a power cut: {detail}")]
    BrokenWithoutCut { setup: String, detail: String },
    #[error("interrupted")]
    Interrupted,
}

/// Processes that use a mount.
fn named(users: &[MountUser]) -> String {
    if users.is_empty() {
        return ", and no process was found that uses it".to_owned();
    }
    let first: Vec<String> =
        users.iter().take(MOST_NAMED_USERS).map(MountUser::to_string).collect();
    let more = match users.len().saturating_sub(MOST_NAMED_USERS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(" by {}{more}", first.join(", "))
}

fn after_colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

/// What is recorded is kept.
fn after_room(folder: &Path) -> Hint {
    format!("free space in {}, then repeat the command with the same directory", folder.display())
        .into()
}

impl UserError for CrashError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Loop(error) => error.class(),
            Self::Dir(error) => error.class(),
            Self::Mount(error) => error.class(),
            Self::Program(error) => error.class(),
            Self::Setup(error) => error.class(),
            Self::LogFile(error) => error.class(),
            Self::Vm(error) => error.class(),
            Self::Kernel(error) => error.class(),
            Self::Socket(error) => error.class(),
            Self::Card(error) => error.class(),
            Self::Guest { .. } | Self::Silent { .. } | Self::GuestEnded { .. } => {
                ExitClass::Environment
            }
            Self::Board(error) => error.class,
            Self::Switch { .. } | Self::NotCut => ExitClass::Environment,
            Self::Fuse(_)
            | Self::File { .. }
            | Self::NoFileSystem { .. }
            | Self::NoRoom { .. }
            | Self::Unprivileged(_)
            | Self::NotMounted { .. } => ExitClass::Environment,
            Self::Invalid { .. }
            | Self::TooSmall { .. }
            | Self::NothingAcknowledged
            | Self::WorkloadFailed { .. }
            | Self::WorkloadEndless { .. }
            | Self::CheckFails { .. }
            | Self::BrokenWithoutCut { .. }
            | Self::OfProgram { .. }
            | Self::NotWritable { .. }
            | Self::LogRemoved { .. }
            | Self::NotShown { .. }
            | Self::OfCard { .. }
            | Self::Requests { .. }
            | Self::NotSoundBefore { .. }
            | Self::OfRequests { .. }
            | Self::NoImage { .. }
            | Self::NoRequests { .. }
            | Self::NoState { .. } => ExitClass::Usage,
            Self::OtherCampaign { .. }
            | Self::OtherEnumeration { .. }
            | Self::OtherCatalog { .. }
            | Self::OtherKernel { .. }
            | Self::InUse { .. } => ExitClass::Refused,
            Self::Device { .. }
            | Self::Unmount { .. }
            | Self::Busy { .. }
            | Self::MountedElsewhere { .. } => ExitClass::Io,
            Self::Interrupted | Self::WorkStopped => ExitClass::Interrupted,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Loop(error) => error.hint(),
            Self::Dir(error) => error.hint(),
            Self::Mount(error) => error.hint(),
            Self::Program(error) => error.hint(),
            Self::Setup(error) => error.hint(),
            Self::LogFile(error) => error.hint(),
            Self::Vm(error) => error.hint(),
            Self::Kernel(error) => error.hint(),
            Self::Socket(error) => error.hint(),
            Self::Silent { .. } => {
                Some("end other programs that keep the processors busy, then try again".into())
            }
            Self::Board(error) => error.hint.clone(),
            Self::Switch { .. } | Self::NotCut => {
                Some("try the two commands for its power by hand".into())
            }
            Self::WorkloadFailed { .. } => Some(
                "try the commands of the workload by hand in an empty directory; the last must \
                 succeed"
                    .into(),
            ),
            Self::WorkloadEndless { .. } => {
                Some("let the work end by itself, for example after a number of rounds".into())
            }
            Self::CheckFails { .. } => Some(
                "after all work, the check gets all lines on its standard input and must end with \
                 0; try both commands by hand in an empty directory"
                    .into(),
            ),
            Self::Requests { source: DmLogError::LongMark { .. }, .. } => {
                Some("replay it without an export, or let the program print shorter lines".into())
            }
            Self::BrokenWithoutCut { .. } => Some(
                "this is not a result of power cuts: the check is wrong, or the file system loses \
                 data when it is unmounted; please report it"
                    .into(),
            ),
            Self::OtherKernel { .. } => {
                Some("name another directory, or use that kernel again".into())
            }
            Self::OtherCatalog { .. } => {
                Some("use the catalog that it began with, or begin another campaign".into())
            }
            Self::OtherEnumeration { .. } => Some(
                "name another directory; states that broke a promise can still be replayed".into(),
            ),
            Self::OtherCampaign { .. } => {
                Some("repeat the command that began it, or name another directory".into())
            }
            Self::NoState { .. } => {
                Some("name it SETUP/ROUND/STATE, as the campaign printed it".into())
            }
            Self::LogRemoved { .. } => {
                Some("campaigns keep the logs with a violation, and others only on request".into())
            }
            Self::Unprivileged(_) => Some("run it as root".into()),
            Self::NoRoom { path, .. } => Some(after_room(path)),
            Self::File { path, source } if source.kind() == io::ErrorKind::StorageFull => {
                Some(after_room(path.parent().unwrap_or(path)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A script would take it for what power cuts did.
    #[test]
    fn a_violation_without_a_power_cut_is_not_a_verdict() {
        let error = CrashError::BrokenWithoutCut { setup: "xfs".into(), detail: "x".into() };
        assert_eq!(error.class(), ExitClass::Usage);
        assert!(error.hint().is_some());
    }
}
