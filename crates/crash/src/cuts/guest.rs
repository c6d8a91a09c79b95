//! The program in the virtual machine: works on its disk until the power goes, and looks at what is
//! left after it.
//!
//! It keeps nothing: what was acknowledged is known outside.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_host::kernel_log::KernelLog;
use flashfit_host::loop_device::drop_pages_of;
use flashfit_host::{Program, Runner};

use super::wire::{GuestMount, GuestReply, GuestRequest, receive, send};
use crate::CrashError;
use crate::observe::{MountLook, await_free, mount_with, unmount_at};
use crate::workload::{
    CrashWorkload, Execution, LogPosition, Operation, ProgramLimit, WORK_LIMIT, each_line,
};

/// The disk of a virtual machine.
const DISK: &str = "/dev/flashfit/0";
/// An empty folder of its initramfs.
const POINT: &str = "/mnt";

/// Where the work is done.
pub struct Workplace<'a> {
    pub runner: &'a dyn Runner,
    /// With the file system.
    pub node: &'a Path,
    /// An empty folder.
    pub point: &'a Path,
}

/// Positions are given outside.
struct NoPosition;

impl LogPosition for NoPosition {
    fn position(&self) -> u32 {
        0
    }
}

/// The word to go on, and what is told meanwhile.
pub trait WorkChannel {
    /// Waits for the word to go on; `false` if there is to be no more work.
    ///
    /// # Errors
    /// When the channel fails.
    fn may_go_on(&mut self) -> std::io::Result<bool>;

    /// # Errors
    /// When the channel fails.
    fn tell(&mut self, reply: GuestReply) -> std::io::Result<()>;
}

/// The channel of a virtual machine.
struct MachineChannel<R, W> {
    input: R,
    output: W,
}

impl<R: Read, W: Write> WorkChannel for MachineChannel<R, W> {
    fn may_go_on(&mut self) -> std::io::Result<bool> {
        Ok(receive(&mut self.input)? == Some(GuestRequest::Go))
    }

    fn tell(&mut self, reply: GuestReply) -> std::io::Result<()> {
        send(&mut self.output, &reply)
    }
}

/// Serves until the other side ends.
///
/// # Errors
/// When the channel fails.
pub fn serve(input: impl Read, output: impl Write, runner: &dyn Runner) -> std::io::Result<()> {
    let place = Workplace { runner, node: Path::new(DISK), point: Path::new(POINT) };
    let mut channel = MachineChannel { input, output };
    while let Some(request) = receive(&mut channel.input)? {
        let Some(reply) = place.answer(&mut channel, request) else { continue };
        channel.tell(reply)?;
    }
    Ok(())
}

fn broken(source: std::io::Error) -> CrashError {
    CrashError::File { path: "channel".into(), source }
}

impl Workplace<'_> {
    /// The answer to a request; none to a word to go on that comes too late.
    pub fn answer(
        &self,
        channel: &mut dyn WorkChannel,
        request: GuestRequest,
    ) -> Option<GuestReply> {
        let answered = match request {
            GuestRequest::Prepare { kinds, reads_ahead } => {
                for kind in kinds {
                    // Whether it helped is seen when it is mounted.
                    let _ = self.runner.run(&Program::new("modprobe").arg(kind));
                }
                match reads_ahead {
                    true => Ok(GuestReply::Prepared),
                    false => self.read_nothing_ahead().map(|()| GuestReply::Prepared),
                }
            }
            GuestRequest::Work { mount, workload, seed } => {
                self.work(channel, &mount, &workload, seed)
            }
            GuestRequest::Operate { mount, operations } => {
                self.operate(channel, &mount, operations)
            }
            GuestRequest::Go => return None,
            GuestRequest::Unmount => unmount_at(self.point).map(|()| GuestReply::Unmounted),
            GuestRequest::Check { mount, workload, input } => self.check(&mount, &workload, &input),
        };
        Some(answered.unwrap_or_else(|error| GuestReply::Failed(error.to_string())))
    }

    /// The disk without what the kernel may still know of its contents.
    pub fn fresh_disk(&self) -> Result<PathBuf, CrashError> {
        let failed = |source| CrashError::Device { device: self.node.into(), source };
        let node = self.node.canonicalize().map_err(failed)?;
        let open = File::open(&node).map_err(failed)?;
        drop_pages_of(&open).map_err(failed)?;
        Ok(node)
    }

    fn read_nothing_ahead(&self) -> Result<(), CrashError> {
        let failed = |source| CrashError::Device { device: self.node.into(), source };
        let node = self.node.canonicalize().map_err(failed)?;
        let name = node.file_name().unwrap_or_default();
        let queue = Path::new("/sys/class/block").join(name).join("queue");
        std::fs::write(queue.join("read_ahead_kb"), "0").map_err(failed)
    }

    /// Mounts and says so; or why it cannot.
    fn mount(
        &self,
        channel: &mut dyn WorkChannel,
        mount: &GuestMount,
    ) -> Result<Option<GuestReply>, CrashError> {
        let node = self.fresh_disk()?;
        await_free(&node)?;
        if let Err(error) = mount_with(&node, &mount.kind, self.point, &mount.options) {
            return Ok(Some(GuestReply::NotMounted(error.to_string())));
        }
        channel.tell(GuestReply::Mounted).map_err(broken)?;
        Ok(None)
    }

    fn operate(
        &self,
        channel: &mut dyn WorkChannel,
        mount: &GuestMount,
        operations: Vec<(u32, Operation)>,
    ) -> Result<GuestReply, CrashError> {
        if let Some(failure) = self.mount(channel, mount)? {
            return Ok(failure);
        }
        let mut execution = Execution::new(self.point);
        for (number, operation) in operations {
            if !channel.may_go_on().map_err(broken)? {
                break;
            }
            execution.run(number, &operation, &NoPosition);
            let done = execution.last().expect("it has just run");
            let reply = GuestReply::Done { number, inode: done.inode, error: done.error };
            channel.tell(reply).map_err(broken)?;
        }
        Ok(GuestReply::WorkEnded)
    }

    fn work(
        &self,
        channel: &mut dyn WorkChannel,
        mount: &GuestMount,
        workload: &CrashWorkload,
        seed: u64,
    ) -> Result<GuestReply, CrashError> {
        let root = self.point;
        let (program, text) = match workload {
            CrashWorkload::Files | CrashWorkload::Metadata | CrashWorkload::Requests => {
                return self.operate(channel, mount, workload.operations(seed));
            }
            CrashWorkload::Sqlite(mode) => mode.program(root, seed),
            CrashWorkload::Program(program) => {
                let program = program.program(root).env("FLASHFIT_SEED", seed.to_string());
                (program, String::new())
            }
        };
        if let Some(failure) = self.mount(channel, mount)? {
            return Ok(failure);
        }
        // The built-in work ends, however slow this machine is.
        let is_built_in = matches!(workload, CrashWorkload::Sqlite(_));
        let time = if is_built_in { Duration::MAX } else { WORK_LIMIT };
        let limit = ProgramLimit { time, is_over: &|| false };
        let told = |_, line| channel.tell(GuestReply::Line(line)).is_ok();
        match each_line(&program, &text, limit, told) {
            Ok(()) => Ok(GuestReply::WorkEnded),
            Err(CrashError::WorkloadFailed { reason }) => Ok(GuestReply::WorkFailed(reason)),
            Err(error) => Err(error),
        }
    }

    fn check(
        &self,
        mount: &GuestMount,
        workload: &CrashWorkload,
        input: &str,
    ) -> Result<GuestReply, CrashError> {
        let root = self.point;
        let check = workload.check(root);
        let mut log = KernelLog::from_now();
        let node = self.fresh_disk()?;
        let look = MountLook {
            runner: self.runner,
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
}
