//! The program on a board whose power is cut: opens the device that the user agreed to, makes file
//! systems on it, works until the power goes, and looks at what is left after it.
//!
//! It keeps nothing: what was acknowledged is known outside. After every start, it opens the device
//! and compares it with what the user saw, so a card that was exchanged while the board was off is
//! refused.
//!
//! Limits: a card in a reader that names only itself is known by its size and the partition on it.
//! If this is killed without a power cut, its mount stays, and the next start refuses the device as
//! in use.

use std::io::{Read, Write};
use std::path::Path;

use flashfit_apply::DeviceFingerprint;
use flashfit_apply::partition::{self, NewPartition};
use flashfit_device::{
    Bytes, ConsentMethod, Device, DeviceLock, Refusal, SystemRoots, WriteConsent, making_timeout,
};
use flashfit_filesystem::{PartitionLayout, PartitionTable};
use flashfit_host::private_folder::PrivateFolder;
use flashfit_host::{Program, Runner};
use flashfit_user_error::{ExitClass, UserError};

use super::wire::{
    BoardFacts, BoardFailure, BoardPartition, BoardReply, BoardRequest, DEVICE, DeviceProgram,
};
use crate::CrashError;
use crate::cuts::guest::{WorkChannel, Workplace};
use crate::cuts::wire::{GuestReply, GuestRequest, receive, send};
use crate::observe::{FSCK_LIMIT, repair_failure, said, unmount_at};

/// The channel of a board.
struct BoardChannel<R, W> {
    input: R,
    output: W,
}

impl<R: Read, W: Write> WorkChannel for BoardChannel<R, W> {
    fn may_go_on(&mut self) -> std::io::Result<bool> {
        let request = receive(&mut self.input)?;
        Ok(request == Some(BoardRequest::Guest(GuestRequest::Go)))
    }

    fn tell(&mut self, reply: GuestReply) -> std::io::Result<()> {
        send(&mut self.output, &BoardReply::Guest(reply))
    }
}

/// The device while it is open.
struct OpenDevice {
    /// Of the device or of its partition.
    consent: WriteConsent,
    /// Of the device.
    _lock: DeviceLock,
}

/// Serves until the other side ends.
///
/// # Errors
/// When the channel fails.
pub fn serve(input: impl Read, output: impl Write, runner: &dyn Runner) -> std::io::Result<()> {
    let folder = PrivateFolder::new()?;
    let mut channel = BoardChannel { input, output };
    let mut open = None;
    let served = answers(&mut channel, runner, folder.path(), &mut open);
    // The other side may have ended in the middle of the work.
    let _ = unmount_at(folder.path());
    served
}

fn answers<R: Read, W: Write>(
    channel: &mut BoardChannel<R, W>,
    runner: &dyn Runner,
    point: &Path,
    open: &mut Option<OpenDevice>,
) -> std::io::Result<()> {
    while let Some(request) = receive(&mut channel.input)? {
        let answered = match (request, &*open) {
            (BoardRequest::Open { device_json, name, partition, makes }, _) => {
                opened(runner, &device_json, name, partition, makes).map(|(device, facts)| {
                    *open = Some(device);
                    Some(BoardReply::Opened(facts))
                })
            }
            (_, None) => Err(failure("no device is open")),
            (BoardRequest::Make { programs }, Some(device)) => {
                make(runner, device, &programs).map(|()| Some(BoardReply::Made))
            }
            (BoardRequest::Check { program }, Some(device)) => {
                find(runner, device, &program, false).map(|found| Some(BoardReply::Said(found)))
            }
            (BoardRequest::Repair { program }, Some(device)) => {
                find(runner, device, &program, true).map(|found| Some(BoardReply::Said(found)))
            }
            (BoardRequest::Guest(request), Some(device)) => {
                let place = Workplace { runner, node: device.consent.path(), point };
                let answer = || Ok::<_, Refusal>(place.answer(channel, request));
                let answered = device.consent.surrounded(answer).map_err(|refusal| of(&refusal));
                answered.map(|reply| reply.map(BoardReply::Guest))
            }
        };
        let Some(reply) = answered.unwrap_or_else(|failure| Some(BoardReply::Failed(failure)))
        else {
            continue;
        };
        send(&mut channel.output, &reply)?;
    }
    Ok(())
}

fn of(error: &dyn UserError) -> BoardFailure {
    BoardFailure { message: error.to_string(), hint: error.hint(), code: error.class().code() }
}

fn failure(message: &str) -> BoardFailure {
    BoardFailure { message: message.to_owned(), hint: None, code: ExitClass::Bug.code() }
}

fn opened(
    runner: &dyn Runner,
    device_json: &str,
    name: String,
    partition: Option<BoardPartition>,
    makes: bool,
) -> Result<(OpenDevice, BoardFacts), BoardFailure> {
    let shown: Device = serde_json::from_slice(device_json.as_bytes())
        .map_err(|error| failure(&error.to_string()))?;
    let system = SystemRoots::default();
    // The first time, it is the very object that the user saw; after a restart, all nodes are new.
    let device = if makes { shown } else { found_again(&system, runner, &shown)? };
    let agreed = ConsentMethod::Named(name);
    let consent =
        WriteConsent::ask(&system, runner, &device, &agreed).map_err(|refusal| of(&refusal))?;
    let lock = DeviceLock::node(consent).map_err(|error| of(&error))?;
    let whole = lock.consent().clone();
    let consent = match partition {
        None => whole,
        Some(wanted) => {
            let layout = PartitionLayout::Partition {
                start_bytes: wanted.start_bytes,
                size_bytes: wanted.size_bytes,
                table: PartitionTable::Gpt,
            };
            let sector_bytes = whole.device().queue.logical_sector_bytes;
            let Some(sfdisk) = layout.partitioning(whole.path(), sector_bytes) else {
                return Err(failure("the partition has no size"));
            };
            let partition = NewPartition {
                sfdisk,
                node: layout.node(whole.path()),
                start: Bytes(wanted.start_bytes),
                size: Bytes(wanted.size_bytes),
            };
            let found = match makes {
                true => partition::make(runner, &whole, &partition),
                false => partition::find(runner, &whole, &partition),
            };
            found.map_err(|error| of(&error))?
        }
    };
    let of_kernel = |name: &str| {
        let text = std::fs::read_to_string(Path::new("/proc/sys/kernel").join(name));
        text.unwrap_or_default().trim().to_owned()
    };
    let facts = BoardFacts { kernel: of_kernel("osrelease"), boot_id: of_kernel("random/boot_id") };
    Ok((OpenDevice { consent, _lock: lock }, facts))
}

/// The device after the board has started again, unless it is another one.
fn found_again(
    system: &SystemRoots,
    runner: &dyn Runner,
    shown: &Device,
) -> Result<Device, BoardFailure> {
    let now = Device::from_node(system, runner, &shown.path).map_err(|error| of(&error))?;
    let fingerprint = |device: &Device| DeviceFingerprint::of(system, device);
    match fingerprint(shown).difference(&fingerprint(&now)) {
        None => Ok(now),
        Some(how) => {
            let path = shown.path.display();
            let message = format!("{path} is another device than before the power cut: {how}");
            Err(BoardFailure { message, hint: None, code: ExitClass::Refused.code() })
        }
    }
}

fn make(
    runner: &dyn Runner,
    device: &OpenDevice,
    programs: &[DeviceProgram],
) -> Result<(), BoardFailure> {
    let consent = &device.consent;
    consent.check(runner).map_err(|refusal| of(&refusal))?;
    let limit = making_timeout(consent.device().capacity);
    for program in programs {
        let program: Program = program.on(consent.path()).timeout(limit);
        consent.run(runner, &program).map_err(|error| of(&error))?;
    }
    Ok(())
}

/// What a checking or repairing program says.
fn find(
    runner: &dyn Runner,
    device: &OpenDevice,
    program: &DeviceProgram,
    repairs: bool,
) -> Result<Option<String>, BoardFailure> {
    let consent = &device.consent;
    let program = program.on(consent.path()).timeout(FSCK_LIMIT);
    let outcome = match consent.run_for_outcome(runner, &program) {
        Ok(outcome) => Ok(outcome),
        Err(flashfit_device::ConsentedRunError::Program(error)) => Err(error),
        Err(error) => return Err(of(&error)),
    };
    let found = if repairs { repair_failure(outcome) } else { said(outcome) };
    let found = found.map_err(|error: CrashError| of(&error))?;
    let name = consent.path().display().to_string();
    Ok(found.map(|text| text.replace(&name, DEVICE)))
}
