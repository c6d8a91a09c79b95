//! Runs one program: writes its input, collects its output, and ends its process group.
//!
//! Limits: output is read for one second after the program ends. Later output of a process that the
//! program left behind is lost; processes in its group are killed.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::interrupt::Interrupt;
use crate::waiting::{ChildWatch, poll};

/// Time between SIGTERM and SIGKILL.
const END_WAIT: Duration = Duration::from_secs(3);
/// How long output is read after the program ended.
const OUTPUT_WAIT: Duration = Duration::from_secs(1);

/// How much is read before time limit and interrupt are checked.
const READ_BYTES: u64 = 1 << 20;

/// Why a program was terminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    Interrupted,
    TimedOut,
}

pub(crate) struct ProgramResult {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) stopped: Option<Stopped>,
}

enum Phase {
    /// Running until the deadline.
    Running(Option<Instant>),
    /// SIGTERM was sent.
    Terminating(Option<Instant>),
    /// Ended or killed; the rest of the output is read.
    Ended(Option<Instant>),
}

/// When a program ends, and what remains of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExchangeLimits {
    pub(crate) time: Duration,
    /// Only so much of the end of each output is kept.
    pub(crate) kept_bytes: Option<usize>,
    /// Whether its process group is killed when it ends by itself, too.
    pub(crate) ends_group: bool,
}

/// Runs `child`, the leader of its process group, until it ends or the time is over.
///
/// # Errors
/// When waiting for it fails; it is killed in that case.
pub(crate) fn exchange(
    mut child: Child,
    input: Option<&str>,
    interrupt: &Interrupt,
    limits: ExchangeLimits,
) -> io::Result<ProgramResult> {
    let group = Pid::from_child(&child);
    let ended = run_to_end(&mut child, input.unwrap_or_default().as_bytes(), interrupt, limits);
    if ended.is_err() {
        let _ = kill_process_group(group, Signal::KILL);
    }
    // The status is collected last: until then the kernel cannot reuse the process ID.
    let status = child.wait()?;
    let (stdout, stderr, stopped) = ended?;
    Ok(ProgramResult { status, stdout, stderr, stopped })
}

type Outcome = (Vec<u8>, Vec<u8>, Option<Stopped>);

fn run_to_end(
    child: &mut Child,
    text: &[u8],
    interrupt: &Interrupt,
    ExchangeLimits { time, kept_bytes, ends_group }: ExchangeLimits,
) -> io::Result<Outcome> {
    let watch = ChildWatch::new(child);
    let group = Pid::from_child(child);
    let mut input = child.stdin.take().map(|pipe| (pipe, text));
    let mut stdout = Output::new(child.stdout.take(), kept_bytes);
    let mut stderr = Output::new(child.stderr.take(), kept_bytes);
    for pipe in [input.as_ref().map(|(pipe, _)| pipe.as_fd()), stdout.descriptor()] {
        pipe.map_or(Ok(()), make_nonblocking)?;
    }
    stderr.descriptor().map_or(Ok(()), make_nonblocking)?;
    let mut phase = Phase::Running(deadline_after(time));
    let mut stopped = None;
    loop {
        feed(&mut input);
        stdout.read();
        stderr.read();
        if !matches!(phase, Phase::Ended(_)) && watch.has_ended() {
            if stopped.is_some() || ends_group {
                let _ = kill_process_group(group, Signal::KILL);
            }
            input = None;
            phase = Phase::Ended(deadline_after(OUTPUT_WAIT));
            // The last output may have arrived after the reads above.
            continue;
        }
        let is_over = |until: Option<Instant>| until.is_some_and(|until| Instant::now() >= until);
        match phase {
            Phase::Running(until) if interrupt.is_raised() || is_over(until) => {
                let reason =
                    if interrupt.is_raised() { Stopped::Interrupted } else { Stopped::TimedOut };
                stopped = Some(reason);
                let _ = kill_process_group(group, Signal::TERM);
                phase = Phase::Terminating(deadline_after(END_WAIT));
            }
            Phase::Terminating(until) if is_over(until) => {
                let _ = kill_process_group(group, Signal::KILL);
                input = None;
                phase = Phase::Ended(deadline_after(OUTPUT_WAIT));
            }
            Phase::Ended(until) => {
                let is_closed = stdout.is_closed() && stderr.is_closed();
                if is_closed && watch.has_ended() {
                    break;
                }
                if is_over(until) {
                    // A descendant keeps the pipes open.
                    let _ = kill_process_group(group, Signal::KILL);
                    break;
                }
            }
            Phase::Running(_) | Phase::Terminating(_) => {}
        }
        let (until, is_running) = match phase {
            Phase::Running(until) => (until, true),
            Phase::Terminating(until) | Phase::Ended(until) => (until, false),
        };
        let raised = if is_running { interrupt.descriptor() } else { None };
        let pid = if matches!(phase, Phase::Ended(_)) && watch.has_ended() {
            None
        } else {
            watch.descriptor()
        };
        let mut waited_for: Vec<(BorrowedFd<'_>, PollFlags)> = Vec::new();
        let readable = [stdout.descriptor(), stderr.descriptor(), pid, raised];
        waited_for.extend(readable.into_iter().flatten().map(|fd| (fd, PollFlags::IN)));
        waited_for.extend(input.iter().map(|(pipe, _)| (pipe.as_fd(), PollFlags::OUT)));
        poll(&waited_for, until, watch.descriptor().is_some() && interrupt.wakes())?;
    }
    stdout.read();
    stderr.read();
    Ok((stdout.bytes, stderr.bytes, stopped))
}

fn deadline_after(wait: Duration) -> Option<Instant> {
    Instant::now().checked_add(wait)
}

fn make_nonblocking(pipe: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(pipe, true)?)
}

/// Writes as much as the pipe takes. Write errors are ignored: a program may exit without reading
/// its input, and its exit code reports failures.
fn feed<W: Write>(input: &mut Option<(W, &[u8])>) {
    while let Some((pipe, left)) = input {
        match pipe.write(left) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Ok(length) if length < left.len() && length > 0 => *left = &left[length..],
            Ok(_) | Err(_) => *input = None,
        }
    }
}

struct Output<R> {
    pipe: Option<R>,
    bytes: Vec<u8>,
    kept_bytes: Option<usize>,
}

impl<R: Read + AsFd> Output<R> {
    fn new(pipe: Option<R>, kept_bytes: Option<usize>) -> Self {
        Self { pipe, bytes: Vec::new(), kept_bytes }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    fn is_closed(&self) -> bool {
        self.pipe.is_none()
    }

    /// Reads what is available, but not without end. Output read before an error is kept.
    fn read(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        match pipe.take(READ_BYTES).read_to_end(&mut self.bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(length) if length as u64 == READ_BYTES => {}
            Ok(_) | Err(_) => self.pipe = None,
        }
        if let Some(kept) = self.kept_bytes {
            self.bytes.drain(..self.bytes.len().saturating_sub(kept));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_process_group_is_ended_with_the_program() {
        // No pipe of the program is open in the process that it leaves behind.
        let script = "sleep 1000 >/dev/null 2>&1 & echo $!";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).process_group(0);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let time = Duration::from_secs(60);
        let limits = ExchangeLimits { time, kept_bytes: None, ends_group: true };
        let ended = exchange(child, None, &Interrupt::new(), limits).unwrap();
        assert_eq!(ended.status.code(), Some(0));
        let id = String::from_utf8(ended.stdout).unwrap();
        // It no longer exists, or its new parent has not waited for it yet.
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", id.trim()));
        let until = Instant::now() + Duration::from_secs(20);
        while stat().is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(Instant::now() < until, "{id} still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
