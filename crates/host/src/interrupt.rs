//! SIGINT, SIGTERM and SIGHUP as a flag that long work looks at, and as a descriptor to wait for.
//!
//! The first signal asks: the work under way ends, what was recorded stays. A second one takes the
//! default action at once; mounts and loop devices then go with the process (see [`crate::mount`]
//! and [`crate::loop_device`]).

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::waiting;

/// A flag that is raised once and stays raised. Clones share it.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    raised: Arc<AtomicBool>,
    /// What is written to the second end is never read from the first, so whoever waits for it
    /// wakes up. `None` where no descriptors are left.
    ends: Option<(UnixStream, UnixStream)>,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self::new()
    }
}

impl Interrupt {
    /// A flag that no signal raises; tests raise it by hand.
    pub fn new() -> Self {
        let ends = UnixStream::pair().ok().filter(|(_, waking)| {
            // Raising it a thousand times must not block.
            waking.set_nonblocking(true).is_ok()
        });
        Self(Arc::new(Shared { raised: Arc::default(), ends }))
    }

    /// Lets SIGINT, SIGTERM and SIGHUP raise the flag, and a second one kill the process.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn on_signals() -> std::io::Result<Self> {
        let interrupt = Self::new();
        let flag = &interrupt.0.raised;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Registered first, so that it sees the flag as the previous signal left it.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(flag))?;
            signal_hook::flag::register(signal, Arc::clone(flag))?;
            // Registered last: whoever is woken finds the flag raised.
            if let Some((_, waking)) = &interrupt.0.ends {
                signal_hook::low_level::pipe::register(signal, waking.try_clone()?)?;
            }
        }
        Ok(interrupt)
    }

    pub fn raise(&self) {
        self.0.raised.store(true, Ordering::SeqCst);
        if let Some((_, waking)) = &self.0.ends {
            // Full means that it is readable already.
            let _ = (&*waking).write(b"X");
        }
    }

    /// Whether it has been raised.
    pub fn is_raised(&self) -> bool {
        self.0.raised.load(Ordering::SeqCst)
    }

    /// Sleeps for `duration`, or until it is raised; says whether it is.
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

    /// Readable once it is raised.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.ends.as_ref().map(|(woken, _)| woken.as_fd())
    }

    /// Whether it has a descriptor, without which it must be looked at.
    pub(crate) fn wakes(&self) -> bool {
        self.0.ends.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_wakes_whoever_sleeps() {
        let interrupt = Interrupt::on_signals().unwrap();
        assert!(!interrupt.sleep(Duration::from_millis(10)));
        let sender = std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            signal_hook::low_level::raise(SIGHUP).unwrap();
        });
        let began = Instant::now();
        assert!(interrupt.clone().sleep(Duration::from_secs(60)));
        assert!(began.elapsed() < Duration::from_secs(30));
        sender.join().unwrap();
    }
}
