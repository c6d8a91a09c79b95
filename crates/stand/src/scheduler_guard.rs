//! Setting a queue's scheduler for a trial, and putting back what was there.

use std::path::PathBuf;

use flashfit_filesystem::{Scheduler, scheduler};

/// Restores the scheduler that a queue had when this was made.
#[derive(Debug)]
pub struct SchedulerGuard {
    queue: PathBuf,
    before: Scheduler,
}

impl SchedulerGuard {
    /// Remembers the queue's scheduler.
    ///
    /// # Errors
    /// When sysfs does not tell it.
    pub fn new(queue: PathBuf) -> std::io::Result<Self> {
        let before = scheduler::current(&queue)?;
        Ok(Self { queue, before })
    }

    /// The scheduler that the kernel chose.
    pub fn before(&self) -> &Scheduler {
        &self.before
    }

    /// Sets another one, unless it is set already.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set(&self, wanted: &Scheduler) -> std::io::Result<()> {
        if scheduler::current(&self.queue)? == *wanted {
            return Ok(());
        }
        scheduler::set(&self.queue, wanted)
    }
}

impl Drop for SchedulerGuard {
    fn drop(&mut self) {
        // The device may be gone, and its queue with it.
        let _ = self.set(&self.before);
    }
}
