//! One program from its start to its end: feeds its input, keeps its output, ends its group.
//!
//! Limits: once the program has ended, its output is read for one more second. What a process that
//! it left behind writes after that is lost; processes of its group are killed then.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::interrupt::Interrupt;
use crate::waiting::{ChildWatch, poll};

/// How long a program may take to end when it is asked to.
const END_WAIT: Duration = Duration::from_secs(3);
/// How long its output is read once it has ended.
const OUTPUT_WAIT: Duration = Duration::from_secs(1);

/// How a program was ended before it ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    Interrupted,
    TimedOut,
}

/// What a program left.
pub(crate) struct Exchanged {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) stopped: Option<Stopped>,
}

enum Phase {
    /// It runs, until its time is up.
    Running(Option<Instant>),
    /// It was asked to end.
    Asked(Option<Instant>),
    /// It was killed, or has ended: what is in the pipes is read.
    Ended(Option<Instant>),
}

/// Runs `child`, the leader of its process group, to its end.
///
/// # Errors
/// When the kernel refuses to wait for it; it is killed then.
pub(crate) fn exchange(
    mut child: Child,
    input: Option<&str>,
    interrupt: &Interrupt,
    limit: Duration,
) -> io::Result<Exchanged> {
    let group = Pid::from_child(&child);
    let ended = talk(&mut child, input.unwrap_or_default().as_bytes(), interrupt, limit);
    if ended.is_err() {
        let _ = kill_process_group(group, Signal::KILL);
    }
    // Only now: until its status is collected, nobody else can have its number.
    let status = child.wait()?;
    let (stdout, stderr, stopped) = ended?;
    Ok(Exchanged { status, stdout, stderr, stopped })
}

type Said = (Vec<u8>, Vec<u8>, Option<Stopped>);

fn talk(
    child: &mut Child,
    text: &[u8],
    interrupt: &Interrupt,
    limit: Duration,
) -> io::Result<Said> {
    let watch = ChildWatch::new(child);
    let group = Pid::from_child(child);
    let mut input = child.stdin.take().map(|pipe| (pipe, text));
    let mut stdout = Output::new(child.stdout.take());
    let mut stderr = Output::new(child.stderr.take());
    for pipe in [input.as_ref().map(|(pipe, _)| pipe.as_fd()), stdout.descriptor()] {
        pipe.map_or(Ok(()), make_nonblocking)?;
    }
    stderr.descriptor().map_or(Ok(()), make_nonblocking)?;
    let mut phase = Phase::Running(later(limit));
    let mut stopped = None;
    loop {
        feed(&mut input);
        stdout.read();
        stderr.read();
        if !matches!(phase, Phase::Ended(_)) && watch.has_ended() {
            if stopped.is_some() {
                let _ = kill_process_group(group, Signal::KILL);
            }
            input = None;
            phase = Phase::Ended(later(OUTPUT_WAIT));
            // What it wrote last may have come after the look into the pipes.
            continue;
        }
        let is_over = |until: Option<Instant>| until.is_some_and(|until| Instant::now() >= until);
        match phase {
            Phase::Running(until) if interrupt.is_raised() || is_over(until) => {
                let reason =
                    if interrupt.is_raised() { Stopped::Interrupted } else { Stopped::TimedOut };
                stopped = Some(reason);
                let _ = kill_process_group(group, Signal::TERM);
                phase = Phase::Asked(later(END_WAIT));
            }
            Phase::Asked(until) if is_over(until) => {
                let _ = kill_process_group(group, Signal::KILL);
                input = None;
                phase = Phase::Ended(later(OUTPUT_WAIT));
            }
            Phase::Ended(until) => {
                let is_closed = stdout.is_closed() && stderr.is_closed();
                if is_closed && watch.has_ended() {
                    break;
                }
                if is_over(until) {
                    // Something that it started keeps them open, and would for ever.
                    let _ = kill_process_group(group, Signal::KILL);
                    break;
                }
            }
            Phase::Running(_) | Phase::Asked(_) => {}
        }
        let (until, is_running) = match phase {
            Phase::Running(until) => (until, true),
            Phase::Asked(until) | Phase::Ended(until) => (until, false),
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

fn later(wait: Duration) -> Option<Instant> {
    Instant::now().checked_add(wait)
}

fn make_nonblocking(pipe: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(pipe, true)?)
}

/// Writes what fits. A program that does not read its input reports that by its exit code.
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

/// One of a program's outputs.
struct Output<R> {
    pipe: Option<R>,
    bytes: Vec<u8>,
}

impl<R: Read + AsFd> Output<R> {
    fn new(pipe: Option<R>) -> Self {
        Self { pipe, bytes: Vec::new() }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    fn is_closed(&self) -> bool {
        self.pipe.is_none()
    }

    /// Reads what is there. What could be read until an error is still worth keeping.
    fn read(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        match pipe.read_to_end(&mut self.bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(_) | Err(_) => self.pipe = None,
        }
    }
}
