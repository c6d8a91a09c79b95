//! SIGINT, SIGTERM and SIGHUP as a flag that long work looks at.
//!
//! The first signal asks: the work under way ends, what was recorded stays. A second one takes the
//! default action at once; mounts and loop devices then go with the process (see [`crate::mount`]
//! and [`crate::loop_device`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// A flag that is raised once and stays raised. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// A flag that no signal raises; tests raise it by hand.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets SIGINT, SIGTERM and SIGHUP raise the flag, and a second one kill the process.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn on_signals() -> std::io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Registered first, so that it sees the flag as the previous signal left it.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&flag))?;
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Self(flag))
    }

    /// Raises the flag.
    pub fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it has been raised.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
