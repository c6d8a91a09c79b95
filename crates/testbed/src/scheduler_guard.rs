//! Setting a queue's scheduler for a trial, and putting back what was there.
//!
//! Before it is changed for the first time, the scheduler is written down in a folder of
//! `/run`, which lives as long as the setting does: until the machine is switched off. What a
//! killed process did not put back is so found by the next one and not taken for the default.
//! Limit: where nothing can be written down there, a kill leaves the changed scheduler.

use std::path::{Path, PathBuf};

use flashfit_filesystem::{Scheduler, scheduler};

/// Where schedulers are written down as long as they are changed.
const FOLDER: &str = "/run/flashfit/schedulers";

/// Restores the scheduler that a queue had when this was made.
#[derive(Debug)]
pub struct SchedulerGuard {
    queue: PathBuf,
    before: Scheduler,
    record: PathBuf,
}

impl SchedulerGuard {
    /// Remembers the scheduler of a disk's queue. `sequence` is the kernel's count of the disk, by
    /// which another disk of the same name is known.
    ///
    /// # Errors
    /// When sysfs does not tell it.
    pub fn new(queue: PathBuf, disk: &str, sequence: Option<u64>) -> std::io::Result<Self> {
        Self::recorded_in(Path::new(FOLDER), queue, disk, sequence)
    }

    fn recorded_in(
        folder: &Path,
        queue: PathBuf,
        disk: &str,
        sequence: Option<u64>,
    ) -> std::io::Result<Self> {
        let record = folder.join(format!("{disk}-{}", sequence.unwrap_or_default()));
        let left = std::fs::read_to_string(&record).ok().map(|name| name.trim().to_owned());
        let offered = || scheduler::available(&queue);
        let left = match left {
            // Only what the queue offers: a record that was cut short is none.
            Some(name) => offered()?.into_iter().find(|offered| offered.name() == name),
            None => None,
        };
        let before = match left {
            Some(before) => before,
            None => scheduler::current(&queue)?,
        };
        Ok(Self { queue, before, record })
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
        if *wanted != self.before {
            self.record();
        }
        scheduler::set(&self.queue, wanted)
    }

    fn record(&self) {
        if self.record.exists() {
            return;
        }
        // Without a record the trial is as good; only a kill is worse.
        let _ = self.record.parent().map(std::fs::create_dir_all);
        let _ = std::fs::write(&self.record, self.before.name());
    }
}

impl Drop for SchedulerGuard {
    fn drop(&mut self) {
        // The device may be gone, and its queue with it.
        if self.set(&self.before).is_ok() || !self.queue.exists() {
            let _ = std::fs::remove_file(&self.record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_not_taken_for_the_default() {
        let folder = tempfile::tempdir().unwrap();
        let (queue, records) = (folder.path().join("queue"), folder.path().join("records"));
        std::fs::create_dir(&queue).unwrap();
        let file = queue.join("scheduler");
        let kernel_has = |text: &str| std::fs::write(&file, text).unwrap();
        let guard = |sequence| {
            SchedulerGuard::recorded_in(&records, queue.clone(), "sda", Some(sequence)).unwrap()
        };
        kernel_has("[mq-deadline] none\n");
        let killed = guard(7);
        // The file of a test does not show what is set as the kernel's does.
        let _ = killed.set(&Scheduler::new("none"));
        std::mem::forget(killed);
        kernel_has("mq-deadline [none]\n");
        assert_eq!(guard_before(&guard(8)), "none", "another disk of this name");
        let next = guard(7);
        assert_eq!(guard_before(&next), "mq-deadline");
        kernel_has("[mq-deadline] none\n");
        drop(next);
        kernel_has("mq-deadline [none]\n");
        assert_eq!(guard_before(&guard(7)), "none", "it was put back, and is no more remembered");
        std::fs::create_dir_all(&records).unwrap();
        std::fs::write(records.join("sda-7"), "mq-dea").unwrap();
        assert_eq!(guard_before(&guard(7)), "none", "a record that was cut short");
    }

    fn guard_before(guard: &SchedulerGuard) -> String {
        guard.before().name().to_owned()
    }
}
