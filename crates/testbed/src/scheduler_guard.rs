//! Sets a queue's scheduler for a trial and restores the previous one.
//!
//! The first change records the original scheduler ([`crate::change_record`]). If a process was
//! killed, the next one finds the original there and does not take the current scheduler for the
//! default.

use std::path::{Path, PathBuf};

use flashfit_filesystem::{Scheduler, scheduler};

use crate::change_record::{self, ChangeRecord};

/// Records of the original schedulers while they are changed.
const FOLDER: &str = "schedulers";

/// Restores the queue's scheduler on drop.
#[derive(Debug)]
pub struct SchedulerGuard {
    queue: PathBuf,
    before: Scheduler,
    record: ChangeRecord,
}

impl SchedulerGuard {
    /// Remembers the scheduler of a disk's queue. `sequence` is the kernel's `diskseq`, which
    /// distinguishes disks that had the same name.
    ///
    /// # Errors
    /// If sysfs cannot be read.
    pub fn new(queue: PathBuf, disk: &str, sequence: Option<u64>) -> std::io::Result<Self> {
        Self::recorded_in(&Path::new(change_record::FOLDER).join(FOLDER), queue, disk, sequence)
    }

    fn recorded_in(
        folder: &Path,
        queue: PathBuf,
        disk: &str,
        sequence: Option<u64>,
    ) -> std::io::Result<Self> {
        let record = ChangeRecord::new(folder, &change_record::name_of(disk, sequence));
        let left = record.left().map(|name| name.trim().to_owned());
        let offered = || scheduler::available(&queue);
        let left = match left {
            // A truncated record names no scheduler of the queue.
            Some(name) => offered()?.into_iter().find(|offered| offered.name() == name),
            None => None,
        };
        let before = match left {
            Some(before) => before,
            None => scheduler::current(&queue)?,
        };
        Ok(Self { queue, before, record })
    }

    /// The scheduler that the kernel selected.
    pub fn before(&self) -> &Scheduler {
        &self.before
    }

    /// Selects a scheduler.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set(&self, wanted: &Scheduler) -> std::io::Result<()> {
        if scheduler::current(&self.queue)? == *wanted {
            return Ok(());
        }
        if *wanted != self.before && self.record.left().is_none() {
            self.record.write(self.before.name());
        }
        scheduler::set(&self.queue, wanted)
    }
}

impl Drop for SchedulerGuard {
    fn drop(&mut self) {
        // The device and its queue may have disappeared.
        if self.set(&self.before).is_ok() || !self.queue.exists() {
            self.record.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_process_does_not_change_the_default_scheduler() {
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
        // A regular file does not reflect the setting as the kernel's file does.
        let _ = killed.set(&Scheduler::new("none"));
        std::mem::forget(killed);
        kernel_has("mq-deadline [none]\n");
        assert_eq!(guard_before(&guard(8)), "none", "another disk of this name");
        let next = guard(7);
        assert_eq!(guard_before(&next), "mq-deadline");
        kernel_has("[mq-deadline] none\n");
        drop(next);
        kernel_has("mq-deadline [none]\n");
        assert_eq!(guard_before(&guard(7)), "none", "restored, so the record was removed");
        std::fs::create_dir_all(&records).unwrap();
        std::fs::write(records.join("sda-7"), "mq-dea").unwrap();
        assert_eq!(guard_before(&guard(7)), "none", "a truncated record");
    }

    fn guard_before(guard: &SchedulerGuard) -> String {
        guard.before().name().to_owned()
    }
}
