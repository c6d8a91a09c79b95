//! SIGINT, SIGTERM and SIGHUP as a flag to check and as a descriptor to wait for.
//!
//! The first signal requests a clean stop: the current step ends and its records are kept. A second
//! signal kills the process; the kernel then removes its mounts and loop devices (see
//! [`crate::mount`] and [`crate::loop_device`]). A process whose end must not be missed is not
//! killed by it ([`Interrupt::on_signals_until_done`]).

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::waiting;

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

    /// Connects the flag to SIGINT, SIGTERM and SIGHUP; a second signal kills the process.
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
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if second_kills {
                // Registered first, to see the flag as it was before this signal.
                signal_hook::flag::register_conditional_default(signal, Arc::clone(flag))?;
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

#[cfg(test)]
mod tests {
    use super::*;

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
