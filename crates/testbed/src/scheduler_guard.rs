//! Sets a queue's scheduler for a trial and restores the previous one.
//!
//! Changes are recorded ([`crate::change_record`]): the original scheduler in the first line, and
//! in the others what was set. If a process was killed, the next run on the queue finds the
//! original there and does not take the current scheduler for the default. If the current one was
//! not set by the killed process, somebody else has chosen it since, and it is the default.

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
    /// Remembers the scheduler of a disk's queue.
    ///
    /// # Errors
    /// If sysfs cannot be read.
    pub fn new(queue: PathBuf, disk: &str) -> std::io::Result<Self> {
        Self::recorded_in(&folder(), queue, disk)
    }

    fn recorded_in(folder: &Path, queue: PathBuf, disk: &str) -> std::io::Result<Self> {
        let record = ChangeRecord::new(folder, &change_record::name_of(disk, &queue));
        let (offered, now) = (scheduler::available(&queue)?, scheduler::current(&queue)?);
        let left = record.left().and_then(|left| original(&left, &offered, &now));
        if left.is_none() {
            record.remove();
        }
        Ok(Self { queue, before: left.unwrap_or(now), record })
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
        if *wanted != self.before {
            let left = self.record.left();
            let recorded = left.unwrap_or_else(|| format!("{}\n", self.before));
            if !recorded.lines().skip(1).any(|set| set == wanted.name()) {
                self.record.write(&format!("{recorded}{wanted}\n"));
            }
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

/// Where the records are.
pub fn folder() -> PathBuf {
    Path::new(change_record::FOLDER).join(FOLDER)
}

/// The original scheduler according to a record, if the current one was set after it.
fn original(record: &str, offered: &[Scheduler], now: &Scheduler) -> Option<Scheduler> {
    let mut lines = record.lines();
    let before = lines.next()?;
    lines.any(|set| set == now.name()).then_some(())?;
    offered.iter().find(|offered| offered.name() == before).cloned()
}

#[cfg(test)]
mod tests {
    use flashfit_host::loop_device::{LoopDevice, LoopOptions};
    use flashfit_test_support::{TestNeed, block_devices, skip};

    use super::*;

    #[test]
    fn a_killed_process_does_not_change_the_default_scheduler() {
        let folder = tempfile::tempdir().unwrap();
        let (queue, records) = (folder.path().join("queue"), folder.path().join("records"));
        std::fs::create_dir(&queue).unwrap();
        let file = queue.join("scheduler");
        let kernel_has = |text: &str| std::fs::write(&file, text).unwrap();
        let guard = |disk| SchedulerGuard::recorded_in(&records, queue.clone(), disk).unwrap();
        kernel_has("[mq-deadline] none kyber\n");
        let killed = guard("sda");
        // A regular file does not reflect the setting as the kernel's file does.
        let _ = killed.set(&Scheduler::new("none"));
        std::mem::forget(killed);
        kernel_has("mq-deadline [none] kyber\n");
        assert_eq!(guard_before(&guard("sdb")), "none", "another disk");
        let next = guard("sda");
        assert_eq!(guard_before(&next), "mq-deadline");
        kernel_has("[mq-deadline] none kyber\n");
        drop(next);
        kernel_has("mq-deadline [none] kyber\n");
        assert_eq!(guard_before(&guard("sda")), "none", "restored, so the record was removed");
        let record = records.join(change_record::name_of("sda", &queue));
        for (recorded, expected) in [
            ("mq-dea", "none"),
            ("mq-deadline\n", "none"),
            ("bfq\nnone\n", "none"),
            ("mq-deadline\nkyber\n", "none"),
            ("mq-deadline\nkyber\nnone\n", "mq-deadline"),
        ] {
            std::fs::create_dir_all(&records).unwrap();
            std::fs::write(&record, recorded).unwrap();
            assert_eq!(guard_before(&guard("sda")), expected, "{recorded:?}");
        }
    }

    const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(20);

    /// An image attached to a loop device, and its queue's record.
    struct AttachedImage {
        image: tempfile::NamedTempFile,
        device: LoopDevice,
    }

    impl AttachedImage {
        fn new() -> Self {
            let image = tempfile::NamedTempFile::new().unwrap();
            image.as_file().set_len(1 << 20).unwrap();
            let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
            // Every free device may be taken by others at the moment.
            let attached = (0..250).find_map(|_| {
                let attached = LoopDevice::attach(image.path(), options);
                attached.inspect_err(|_| std::thread::sleep(POLL_INTERVAL)).ok()
            });
            Self { image, device: attached.expect("a loop device") }
        }

        /// Attaches another image to a device that was just detached.
        fn at(node: &Path) -> Outcome<Self> {
            let mut earlier = Vec::new();
            for _ in 0..250 {
                let next = Self::new();
                let found = next.device.node();
                if found == node {
                    return Ok(next);
                }
                // The kernel offers the free device with the lowest number.
                if number(found) < number(node) {
                    earlier.push(next);
                } else {
                    std::thread::sleep(POLL_INTERVAL);
                }
            }
            Err(format!("{} is not free again", node.display()))
        }

        fn disk(&self) -> String {
            self.device.node().file_name().unwrap().to_string_lossy().into_owned()
        }

        fn guard(&self, records: &Path) -> SchedulerGuard {
            SchedulerGuard::recorded_in(records, self.device.queue(), &self.disk()).unwrap()
        }

        fn now(&self) -> String {
            scheduler::current(&self.device.queue()).unwrap().name().to_owned()
        }

        /// Two schedulers that are not in use, as set by nobody.
        fn others(&self) -> Option<(Scheduler, Scheduler)> {
            let queue = self.device.queue();
            let now = scheduler::current(&queue).unwrap();
            let offered = scheduler::available(&queue).unwrap();
            let mut others = offered.into_iter().filter(|other| *other != now);
            Some((others.next()?, others.next()?))
        }
    }

    fn number(node: &Path) -> Option<u32> {
        node.to_str()?.strip_prefix("/dev/loop")?.parse().ok()
    }

    /// An error may be the work of another process, as every loop device is there for all.
    type Outcome<T> = Result<T, String>;

    fn ensure(is_so: bool, what: &str) -> Outcome<()> {
        is_so.then_some(()).ok_or_else(|| what.to_owned())
    }

    /// Tries `scenario` on an unused device with a folder for records, several times if others
    /// may have used the device in the meantime.
    fn on_a_loop_device(scenario: impl Fn(&Path, AttachedImage, [Scheduler; 2]) -> Outcome<()>) {
        if skip(block_devices()) {
            return;
        }
        let mut errors = Vec::new();
        for _ in 0..8 {
            let folder = tempfile::tempdir().unwrap();
            let image = AttachedImage::new();
            let Some((one, other)) = image.others() else {
                let lacking = TestNeed::Kernel.missing("loop devices have fewer than 3 schedulers");
                return assert!(skip(Some(lacking)));
            };
            let outcome = scenario(folder.path(), image, [one, other]);
            change_record::reset_unused(folder.path(), Path::new("/sys/class/block"));
            match outcome {
                Ok(()) => return,
                Err(error) => errors.push(error),
            }
        }
        panic!("it never succeeded: {errors:#?}");
    }

    /// A run on an image is killed: its loop device is detached, and the queue keeps the scheduler.
    #[test]
    fn what_a_killed_run_left_on_a_loop_device_is_not_the_default_of_the_next() {
        on_a_loop_device(|folder, first, [one, other]| {
            let (default, node) = (first.now(), first.device.node().to_owned());
            let kill = |run: AttachedImage| {
                let guard = run.guard(folder);
                guard.set(&one).unwrap();
                std::mem::forget(guard);
            };
            kill(first);
            let next = AttachedImage::at(&node)?;
            ensure(next.now() == one.name(), "a kill restores nothing")?;
            let guard = next.guard(folder);
            ensure(guard_before(&guard) == default, "the default was recorded")?;
            drop(guard);
            ensure(next.now() == default, "the next run restores the default")?;
            let left = std::fs::read_dir(folder).unwrap().count();
            ensure(left == 0, "the record was removed")?;

            // Somebody attaches a file to the device after the kill and chooses a scheduler.
            kill(next);
            let foreign = AttachedImage::at(&node)?;
            change_record::reset_unused(folder, Path::new("/sys/class/block"));
            ensure(foreign.now() == one.name(), "a device that is in use is left alone")?;
            scheduler::set(&foreign.device.queue(), &other).unwrap();
            let guard = foreign.guard(folder);
            ensure(guard_before(&guard) == other.name(), "what somebody chose is the default")?;
            drop(guard);
            ensure(foreign.now() == other.name(), "what somebody chose is kept")?;
            scheduler::set(&foreign.device.queue(), &Scheduler::new(default)).unwrap();
            ensure(foreign.image.path().exists(), "the image is kept")
        });
    }

    #[test]
    fn an_unused_loop_device_is_reset() {
        on_a_loop_device(|folder, run, [one, _]| {
            let (default, node) = (run.now(), run.device.node().to_owned());
            let guard = run.guard(folder);
            guard.set(&one).unwrap();
            std::mem::forget(guard);
            drop(run);
            std::fs::write(folder.join("sdzz-1"), "none\nbfq\n").unwrap();
            std::fs::write(folder.join("machine"), "x").unwrap();
            change_record::reset_unused(folder, Path::new("/sys/class/block"));
            assert!(!folder.join("sdzz-1").exists(), "there is no such disk");
            assert!(folder.join("machine").exists(), "it is not of a disk");
            let left = std::fs::read_dir(folder).unwrap().count();
            ensure(left == 1, "the record of the loop device was removed")?;
            let next = AttachedImage::at(&node)?;
            ensure(next.now() == default, "the scheduler is the default again")
        });
    }

    fn guard_before(guard: &SchedulerGuard) -> String {
        guard.before().name().to_owned()
    }
}
