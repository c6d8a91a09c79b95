//! Time as a seam: the machine's, or one that only moves when told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A clock that never goes back.
pub trait Clock {
    /// Nanoseconds since the clock's own beginning.
    fn now_ns(&self) -> u64;

    fn pass_ns(&self, duration_ns: u64);
}

/// The machine's monotonic clock.
#[derive(Debug, Clone)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).expect("no process runs for 584 years")
    }

    fn pass_ns(&self, duration_ns: u64) {
        std::thread::sleep(Duration::from_nanos(duration_ns));
    }
}

/// A clock for simulations: time passes only through [`Clock::pass_ns`]. Clones share the time.
#[derive(Debug, Clone, Default)]
pub struct VirtualClock(Arc<AtomicU64>);

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn pass_ns(&self, duration_ns: u64) {
        self.0.fetch_add(duration_ns, Ordering::SeqCst);
    }
}
