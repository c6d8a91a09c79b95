//! SIGINT, SIGTERM and SIGHUP as a flag to check and as a descriptor to wait for.
//!
//! The first signal requests a clean stop: the current step ends and its records are kept. A later
//! SIGINT or SIGTERM kills the process; the kernel then removes its mounts and loop devices (see
//! [`crate::mount`] and [`crate::loop_device`]). A process whose end must not be missed is not
//! killed by it ([`Interrupt::on_signals_until_done`]).
//!
//! Senders repeat themselves. `timeout` signals its child and then the child's process group, and
//! when a terminal closes, both the shell and the kernel send SIGHUP. Therefore signals shortly
//! after the first one ([`COPY_WINDOW`]) and further SIGHUPs are ignored. A SIGHUP that was ignored
//! when the process began (`nohup`) stays ignored.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::waiting;

/// How long after the first signal another one is taken for its copy.
pub const COPY_WINDOW: Duration = Duration::from_secs(2);

/// A flag that stays raised once it is set. Clones share it.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    raised: Arc<AtomicBool>,
    /// Set by every signal.
    signaled: Arc<AtomicBool>,
    /// A byte written to the second end makes the first one readable. It is never read, so every
    /// waiter wakes up. `None` if no descriptors were available.
    ends: Option<(UnixStream, UnixStream)>,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self::new()
    }
}

impl Interrupt {
    /// A flag that no signal raises.
    pub fn new() -> Self {
        let ends = UnixStream::pair().ok().filter(|(_, waking)| {
            // Raising the flag often must not block on a full socket.
            waking.set_nonblocking(true).is_ok()
        });
        Self(Arc::new(Shared { raised: Arc::default(), signaled: Arc::default(), ends }))
    }

    /// Connects the flag to SIGINT, SIGTERM and SIGHUP; a later one but SIGHUP kills the process.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn on_signals() -> std::io::Result<Self> {
        Self::connected(true)
    }

    /// Connects the flag to the same signals, of which no number kills the process; see
    /// [`Interrupt::was_signaled`].
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn on_signals_until_done() -> std::io::Result<Self> {
        Self::connected(false)
    }

    fn connected(second_kills: bool) -> std::io::Result<Self> {
        let interrupt = Self::new();
        let flag = &interrupt.0.raised;
        let first = FirstSignal::awaited();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if signal == SIGHUP && is_ignored(signal) {
                continue;
            }
            if second_kills {
                kill_when_repeated(signal, Arc::clone(&first))?;
            }
            signal_hook::flag::register(signal, Arc::clone(&interrupt.0.signaled))?;
            signal_hook::flag::register(signal, Arc::clone(flag))?;
            // Registered last, so that the flag is already raised when waiters wake up.
            if let Some((_, waking)) = &interrupt.0.ends {
                signal_hook::low_level::pipe::register(signal, waking.try_clone()?)?;
            }
        }
        Ok(interrupt)
    }

    pub fn raise(&self) {
        self.0.raised.store(true, Ordering::SeqCst);
        if let Some((_, waking)) = &self.0.ends {
            // A full socket is readable already.
            let _ = (&*waking).write(b"X");
        }
    }

    /// Whether a signal arrived since the last call.
    pub fn was_signaled(&self) -> bool {
        self.0.signaled.swap(false, Ordering::SeqCst)
    }

    pub fn is_raised(&self) -> bool {
        self.0.raised.load(Ordering::SeqCst)
    }

    /// Sleeps for `duration` or until the flag is raised; returns whether it is raised.
    pub fn sleep(&self, duration: Duration) -> bool {
        let until = Instant::now().checked_add(duration);
        while !self.is_raised() && until.is_none_or(|until| Instant::now() < until) {
            let raised: Vec<_> =
                self.descriptor().into_iter().map(|fd| (fd, PollFlags::IN)).collect();
            if waiting::poll(&raised, until, self.wakes()).is_err() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        self.is_raised()
    }

    /// Readable once the flag is raised.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.ends.as_ref().map(|(woken, _)| woken.as_fd())
    }

    /// Whether the flag has a descriptor; without one it must be polled.
    pub(crate) fn wakes(&self) -> bool {
        self.0.ends.is_some()
    }
}

/// When the first signal arrived: nanoseconds since `began`, 0 before.
#[derive(Debug)]
struct FirstSignal {
    began: Instant,
    arrived_ns: AtomicU64,
}

impl FirstSignal {
    fn awaited() -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), arrived_ns: AtomicU64::new(0) })
    }

    /// Whether a signal that arrives this long after `began` is a second request. Called in signal
    /// handlers: it must not allocate or lock.
    fn is_repeated(&self, after: Duration) -> bool {
        let now = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX).max(1);
        let first = self.arrived_ns.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst);
        first.is_err_and(|first| Duration::from_nanos(now.saturating_sub(first)) >= COPY_WINDOW)
    }
}

/// Takes the default action for a signal that is a second request. No SIGHUP is.
#[expect(unsafe_code, reason = "a signal handler, which only uses functions that are safe there")]
fn kill_when_repeated(signal: i32, first: Arc<FirstSignal>) -> std::io::Result<()> {
    // The clock is read by clock_gettime, which signal handlers may call.
    let handle = move || {
        if first.is_repeated(first.began.elapsed()) && signal != SIGHUP {
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    unsafe { signal_hook::low_level::register(signal, handle) }.map(drop)
}

#[expect(unsafe_code, reason = "sigaction, which only reads here")]
fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_a_signal_are_no_second_request() {
        let first = FirstSignal::awaited();
        let at = |ms| first.is_repeated(Duration::from_millis(ms));
        assert!(!at(7_000), "the first");
        assert!(!at(7_000));
        assert!(!at(8_999));
        // Two threads may handle signals in the wrong order.
        assert!(!at(6_999));
        assert!(at(9_000));
        assert!(!FirstSignal::awaited().is_repeated(Duration::ZERO));
    }

    #[test]
    fn a_signal_ends_a_sleep() {
        let interrupt = Interrupt::on_signals().unwrap();
        assert!(!interrupt.sleep(Duration::from_millis(10)));
        let sender = std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            signal_hook::low_level::raise(SIGHUP).unwrap();
        });
        let start = Instant::now();
        assert!(interrupt.clone().sleep(Duration::from_secs(60)));
        assert!(start.elapsed() < Duration::from_secs(30));
        sender.join().unwrap();
    }
}
