//! The program in the virtual machine: works on its disk until the power goes, and looks at what is
//! left after it.
//!
//! It keeps nothing: what was acknowledged is known outside.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flashfit_host::kernel_log::KernelLog;
use flashfit_host::loop_device::drop_pages_of;
use flashfit_host::{Program, Runner};

use super::wire::{GuestMount, GuestReply, GuestRequest, receive, send};
use crate::CrashError;
use crate::observe::{MountLook, mount_with, unmount_at};
use crate::workload::{CrashWorkload, Execution, LogPosition, SqliteMode, each_line};

const DISK: &str = "/dev/flashfit/0";
/// An empty folder of the initramfs.
const POINT: &str = "/mnt";

/// Positions are given outside.
struct NoPosition;

impl LogPosition for NoPosition {
    fn position(&self) -> u32 {
        0
    }
}

/// Serves until the other side ends.
///
/// # Errors
/// When the channel fails.
pub fn serve(
    mut input: impl Read,
    mut output: impl Write,
    runner: &dyn Runner,
) -> std::io::Result<()> {
    while let Some(request) = receive(&mut input)? {
        let answered = match request {
            GuestRequest::Prepare { kinds } => {
                for kind in kinds {
                    // Whether it helped is seen when it is mounted.
                    let _ = runner.run(&Program::new("modprobe").arg(kind));
                }
                Ok(GuestReply::Prepared)
            }
            GuestRequest::Work { mount, workload, seed } => {
                let channel = Channel { input: &mut input, output: &mut output };
                work(channel, &mount, &workload, seed)
            }
            GuestRequest::Go => continue,
            GuestRequest::Unmount => unmount_at(Path::new(POINT))
                .map(|()| GuestReply::Unmounted)
                .map_err(CrashError::Unmount),
            GuestRequest::Check { mount, workload, input } => {
                check(runner, &mount, &workload, &input)
            }
        };
        let reply = answered.unwrap_or_else(|error| GuestReply::Failed(error.to_string()));
        send(&mut output, &reply)?;
    }
    Ok(())
}

struct Channel<'a, R, W> {
    input: &'a mut R,
    output: &'a mut W,
}

/// The disk without what the kernel may still know of its contents.
fn disk() -> Result<PathBuf, CrashError> {
    let failed = |source| CrashError::Device { device: DISK.into(), source };
    let node = Path::new(DISK).canonicalize().map_err(failed)?;
    let open = File::open(&node).map_err(failed)?;
    drop_pages_of(&open).map_err(failed)?;
    Ok(node)
}

fn work<R: Read, W: Write>(
    channel: Channel<'_, R, W>,
    mount: &GuestMount,
    workload: &CrashWorkload,
    seed: u64,
) -> Result<GuestReply, CrashError> {
    let root = Path::new(POINT);
    let Channel { input, output } = channel;
    let broken = |source| CrashError::File { path: "channel".into(), source };
    if let Err(error) = mount_with(&disk()?, &mount.kind, root, &mount.options) {
        return Ok(GuestReply::NotMounted(error.to_string()));
    }
    send(output, &GuestReply::Mounted).map_err(broken)?;
    let (program, text) = match workload {
        CrashWorkload::Files | CrashWorkload::Metadata => {
            let mut execution = Execution::new(root);
            for (number, operation) in workload.operations(seed) {
                if receive(input).map_err(broken)? != Some(GuestRequest::Go) {
                    break;
                }
                execution.run(number, &operation, &NoPosition);
                let done = execution.last().expect("it has just run");
                let reply = GuestReply::Done { number, inode: done.inode, error: done.error };
                send(output, &reply).map_err(broken)?;
            }
            return Ok(GuestReply::WorkEnded(String::new()));
        }
        CrashWorkload::Sqlite(mode) => mode.program(root, seed),
        CrashWorkload::Program(program) => {
            let program = program.program(root).env("FLASHFIT_SEED", seed.to_string());
            (program, String::new())
        }
    };
    each_line(&program, &text, |_, line| send(output, &GuestReply::Line(line)).is_ok())
        .map(GuestReply::WorkEnded)
}

fn check(
    runner: &dyn Runner,
    mount: &GuestMount,
    workload: &CrashWorkload,
    input: &str,
) -> Result<GuestReply, CrashError> {
    let root = Path::new(POINT);
    let check = match workload {
        CrashWorkload::Files | CrashWorkload::Metadata => None,
        CrashWorkload::Sqlite(_) => Some(SqliteMode::check(root).0),
        CrashWorkload::Program(program) => Some(program.check(root)),
    };
    let mut log = KernelLog::from_now();
    let node = disk()?;
    let look = MountLook {
        runner,
        node: &node,
        kind: &mount.kind,
        options: &mount.options,
        point: root,
        check: check.as_ref(),
    };
    let mut mount_ns = 0;
    let view = look.view(&mut log, input, |time| {
        mount_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    })?;
    Ok(GuestReply::Checked { view: Box::new(view), mount_ns })
}
