//! Waits for a child, a pipe or an interrupt without polling.
//!
//! The end of a child is observed through its pidfd (`pidfd_open(2)`, Linux 5.3). Limit: on older
//! kernels, or without free descriptors, the child is polled every 50 ms.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions};

use crate::interrupt::Interrupt;

const FALLBACK_INTERVAL: Duration = Duration::from_millis(50);

/// Detects the end of a child without reaping it, so that its process ID is not reused.
#[derive(Debug)]
pub(crate) struct ChildWatch {
    pid: Pid,
    pidfd: Option<OwnedFd>,
}

impl ChildWatch {
    /// The child must not have been reaped.
    pub(crate) fn new(child: &Child) -> Self {
        let pid = Pid::from_child(child);
        Self { pid, pidfd: rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok() }
    }

    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error means that the child no longer exists.
        !matches!(rustix::process::waitid(WaitId::Pid(self.pid), options), Ok(None))
    }

    /// Waits until it has ended, or for `limit`.
    ///
    /// # Errors
    /// When poll(2) fails.
    pub(crate) fn wait(&self, limit: Duration) -> io::Result<()> {
        let until = Instant::now() + limit;
        while !self.has_ended() && Instant::now() < until {
            let readable: Vec<_> =
                self.descriptor().into_iter().map(|fd| (fd, PollFlags::IN)).collect();
            poll(&readable, Some(until), !readable.is_empty())?;
        }
        Ok(())
    }
}

/// Waits until a child ends, `limit` expires or `interrupt` is raised; `None` if it still runs.
///
/// # Errors
/// When its status cannot be read.
pub fn child(
    child: &mut Child,
    interrupt: Option<&Interrupt>,
    limit: Duration,
) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now().checked_add(limit);
    if let Some(status) = child.try_wait()? {
        return Ok(Some(status));
    }
    let watch = ChildWatch::new(child);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let over = until.is_some_and(|until| Instant::now() >= until);
        if over || interrupt.is_some_and(Interrupt::is_raised) {
            return Ok(None);
        }
        let signals = [watch.descriptor(), interrupt.and_then(Interrupt::descriptor)];
        let is_complete = signals[0].is_some() && interrupt.is_none_or(Interrupt::wakes);
        let readable: Vec<_> =
            signals.into_iter().flatten().map(|fd| (fd, PollFlags::IN)).collect();
        poll(&readable, until, is_complete)?;
    }
}

/// Sleeps until one of `descriptors` is ready or until the deadline. If the descriptors do not
/// cover every event (`is_complete` is false), returns after at most 50 ms.
///
/// # Errors
/// When poll(2) fails.
pub(crate) fn poll(
    descriptors: &[(BorrowedFd<'_>, PollFlags)],
    until: Option<Instant>,
    is_complete: bool,
) -> io::Result<Vec<bool>> {
    let remaining = until.map(|until| until.saturating_duration_since(Instant::now()));
    let interval = (!is_complete).then_some(FALLBACK_INTERVAL);
    let limit = [remaining, interval].into_iter().flatten().min();
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let mut fds: Vec<_> =
        descriptors.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
    match rustix::event::poll(&mut fds, limit.as_ref()) {
        // Interrupted by a signal: the caller checks its conditions again.
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect())
}

/// Waits until a descriptor can be read or has ended, or until `until`; whether it can.
///
/// # Errors
/// When poll(2) fails.
pub fn is_readable(descriptor: BorrowedFd<'_>, until: Instant) -> io::Result<bool> {
    Ok(poll(&[(descriptor, PollFlags::IN)], Some(until), true)?[0])
}

/// Reads a line; `None` if `interrupt` is raised first, or at the end of the input. Reads no
/// further than the line. Input that another reader of it has buffered is not seen.
///
/// # Errors
/// When poll(2) or read(2) fails.
pub fn line(input: BorrowedFd<'_>, interrupt: &Interrupt) -> io::Result<Option<String>> {
    let waited: Vec<_> = std::iter::once(input)
        .chain(interrupt.descriptor())
        .map(|descriptor| (descriptor, PollFlags::IN))
        .collect();
    let mut line = Vec::new();
    loop {
        let is_ready = !interrupt.is_raised() && poll(&waited, None, interrupt.wakes())?[0];
        if interrupt.is_raised() {
            return Ok(None);
        }
        if !is_ready {
            continue;
        }
        let mut byte = [0];
        match rustix::io::read(input, &mut byte) {
            Ok(0) if line.is_empty() => return Ok(None),
            Ok(1..) if byte != *b"\n" => line.push(byte[0]),
            Ok(_) => return Ok(Some(String::from_utf8_lossy(&line).into_owned())),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::process::Command;

    use super::*;

    #[test]
    fn waiting_for_a_child_ends_at_the_limit_or_with_the_child() {
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        let none = child(&mut sleeper, None, Duration::from_millis(50)).unwrap();
        assert!(none.is_none());
        sleeper.kill().unwrap();
        let status = child(&mut sleeper, None, Duration::from_secs(60)).unwrap();
        assert!(status.is_some_and(|status| !status.success()));
        let again = child(&mut sleeper, None, Duration::ZERO).unwrap();
        assert_eq!(again, status, "a second call returns the same status");
    }

    #[test]
    fn a_line_ends_at_its_end_at_the_end_of_input_or_at_an_interrupt() {
        let (input, typed) = UnixStream::pair().unwrap();
        let interrupt = Interrupt::new();
        rustix::io::write(&typed, b"yes\nno").unwrap();
        let next = || line(input.as_fd(), &interrupt).unwrap();
        assert_eq!(next().as_deref(), Some("yes"));
        let raising = interrupt.clone();
        let raiser = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            raising.raise();
        });
        assert_eq!(next(), None, "the line has no end yet");
        raiser.join().unwrap();
        rustix::io::write(&typed, b"w").unwrap();
        drop(typed);
        let next = || line(input.as_fd(), &Interrupt::new()).unwrap();
        assert_eq!(next().as_deref(), Some("w"));
        assert_eq!(next(), None);
    }

    #[test]
    fn an_interrupt_ends_the_wait_for_a_child() {
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        let interrupt = Interrupt::new();
        let raising = interrupt.clone();
        let raiser = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            raising.raise();
        });
        let began = Instant::now();
        let none = child(&mut sleeper, Some(&interrupt), Duration::from_secs(50)).unwrap();
        assert!(none.is_none() && began.elapsed() < Duration::from_secs(40));
        raiser.join().unwrap();
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
}
