//! The trait [`Clock`], with the system's monotonic clock and a virtual clock for simulations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub trait Clock {
    /// Nanoseconds since an arbitrary start.
    fn now_ns(&self) -> u64;

    fn sleep_ns(&self, duration_ns: u64);
}

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

    fn sleep_ns(&self, duration_ns: u64) {
        std::thread::sleep(Duration::from_nanos(duration_ns));
    }
}

/// A clock that advances only through [`Clock::sleep_ns`]. Clones share the time.
#[derive(Debug, Clone, Default)]
pub struct VirtualClock(Arc<AtomicU64>);

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn sleep_ns(&self, duration_ns: u64) {
        self.0.fetch_add(duration_ns, Ordering::SeqCst);
    }
}
