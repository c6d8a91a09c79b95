//! Sets kernel knobs for a trial (sysctl keys, queue attributes) and restores the previous values.
//!
//! They are recorded before the change ([`crate::change_record`]): what a killed process changed is
//! restored when the next run starts on the device, or for knobs of the whole machine on any. Those
//! of the whole machine belong to one run at a time, from its first use of them to its end.
//!
//! `vm.dirty_bytes` and `vm.dirty_ratio` are two forms of one limit: setting one sets the other to
//! 0, and 0 cannot be written (Documentation/admin-guide/sysctl/vm.rst).

use std::cell::RefCell;
use std::io::{Error, ErrorKind, Result};
use std::path::{Component, Path, PathBuf};

use flashfit_host::at_panic::AtPanic;

use crate::change_record::{self, ChangeRecord, Claim, RecordLock};

/// Pairs of forms of one knob; the one that is not 0 applies.
const FORMS: [(&str, &str); 2] =
    [("dirty_bytes", "dirty_ratio"), ("dirty_background_bytes", "dirty_background_ratio")];

/// Records of the original values while they are changed.
const FOLDER: &str = "knobs";
/// The name of the record of the whole machine's knobs.
const MACHINE: &str = "machine";

/// Why knobs cannot be set.
#[derive(Debug, thiserror::Error)]
pub enum KnobError {
    /// By another run.
    #[error("another run has changed settings of {0}")]
    OfAnother(String),
    #[error(transparent)]
    Access(#[from] Error),
}

/// The knobs of this machine and of a device, as far as a run may change them.
#[derive(Debug)]
pub struct Knobs {
    sysctl: KnobGroup,
    block: KnobGroup,
}

impl Knobs {
    /// Restores what a killed run left changed. `block` is the device's directory in `/sys/block`.
    pub fn new(block: PathBuf, disk: &str) -> Self {
        let name = change_record::name_of(disk, &block.join("queue"));
        Self::recorded_in(&folder(), "/proc/sys".into(), block, &name)
    }

    fn recorded_in(records: &Path, sysctl: PathBuf, block: PathBuf, disk: &str) -> Self {
        let group =
            |base, name: &str, of: &str| KnobGroup::new(base, ChangeRecord::new(records, name), of);
        Self {
            sysctl: group(sysctl, MACHINE, "this machine"),
            block: group(block, disk, "the queue of this device"),
        }
    }

    /// Sets sysctl keys and attributes of the device to their values.
    ///
    /// # Errors
    /// If one cannot be read or set, or reads back differently; the others are restored.
    pub fn set(
        &self,
        sysctl: &[(String, String)],
        sysfs: &[(String, String)],
    ) -> std::result::Result<KnobGuard, KnobError> {
        let keys = sysctl.iter().map(|(key, value)| (key.replace('.', "/"), value.clone()));
        let mut guard = KnobGuard { changed: Vec::new() };
        for (group, wanted) in
            [(&self.sysctl, keys.collect::<Vec<_>>()), (&self.block, sysfs.to_vec())]
        {
            if !wanted.is_empty() {
                guard.changed.push(group.set(&wanted)?);
            }
        }
        Ok(guard)
    }
}

/// Restores the knobs on drop.
#[derive(Debug)]
pub struct KnobGuard {
    changed: Vec<ChangedKnobs>,
}

/// Knobs with a common directory and record.
#[derive(Debug)]
struct KnobGroup {
    base: PathBuf,
    record: ChangeRecord,
    /// What the knobs are of.
    of: String,
    lock: RefCell<Option<RecordLock>>,
}

impl KnobGroup {
    fn new(base: PathBuf, record: ChangeRecord, of: &str) -> Self {
        let group = Self { base, record, of: of.to_owned(), lock: RefCell::new(None) };
        // A running process restores its own.
        if let Claim::Made(_lock) = group.record.claim() {
            group.restore_left();
        }
        group
    }

    /// Restores what a process left that ended without doing so.
    fn restore_left(&self) {
        if let Some(left) = self.record.left() {
            let before = left.lines().filter_map(|line| line.split_once(' '));
            let before = before.filter(|(name, _)| is_inside(name));
            let before = before.map(|(name, value)| (name.to_owned(), value.to_owned()));
            restore(&self.base, &before.collect::<Vec<_>>(), &self.record);
        }
    }

    fn claim(&self) -> std::result::Result<(), KnobError> {
        let mut lock = self.lock.borrow_mut();
        if lock.is_some() {
            return Ok(());
        }
        match self.record.claim() {
            Claim::Made(made) => {
                *lock = Some(made);
                self.restore_left();
                Ok(())
            }
            Claim::OfAnother => Err(KnobError::OfAnother(self.of.clone())),
            Claim::Impossible => Ok(()),
        }
    }

    /// Each knob is named by its path in the directory.
    fn set(&self, wanted: &[(String, String)]) -> std::result::Result<ChangedKnobs, KnobError> {
        self.claim()?;
        let named = |name: &str, error: Error| {
            Error::new(error.kind(), format!("{}: {error}", self.base.join(name).display()))
        };
        let before = wanted
            .iter()
            .map(|(name, _)| in_force(&self.base, name).map_err(|error| named(name, error)))
            .collect::<Result<Vec<_>>>()?;
        let lines: Vec<String> =
            before.iter().map(|(name, value)| format!("{name} {value}\n")).collect();
        self.record.write(&lines.concat());
        let changed = ChangedKnobs::new(self.base.clone(), before, self.record.clone());
        for (name, value) in wanted {
            set_one(&self.base.join(name), value).map_err(|error| named(name, error))?;
        }
        Ok(changed)
    }
}

/// Restores knobs of a directory on drop, and before a panic ends the process.
#[derive(Debug)]
struct ChangedKnobs {
    base: PathBuf,
    /// Names and previous values, in the order they were set.
    before: Vec<(String, String)>,
    record: ChangeRecord,
    _at_panic: AtPanic,
}

impl ChangedKnobs {
    fn new(base: PathBuf, before: Vec<(String, String)>, record: ChangeRecord) -> Self {
        let at_panic = AtPanic::new({
            let (base, before, record) = (base.clone(), before.clone(), record.clone());
            move || restore(&base, &before, &record)
        });
        Self { base, before, record, _at_panic: at_panic }
    }
}

impl Drop for ChangedKnobs {
    fn drop(&mut self) {
        restore(&self.base, &self.before, &self.record);
    }
}

/// Where the records are.
pub fn folder() -> PathBuf {
    Path::new(change_record::FOLDER).join(FOLDER)
}

/// The record stays if a knob that exists cannot be restored.
fn restore(base: &Path, before: &[(String, String)], record: &ChangeRecord) {
    let mut all = true;
    for (name, value) in before.iter().rev() {
        let file = base.join(name);
        // The device and its attributes may have disappeared.
        all &= !file.exists() || std::fs::write(file, value).is_ok();
    }
    if all {
        record.remove();
    }
}

fn is_inside(name: &str) -> bool {
    Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
}

fn set_one(file: &Path, value: &str) -> Result<()> {
    std::fs::write(file, value)?;
    let now = read(file)?;
    if now == value {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidInput, format!("wrote {value}, and it reads {now}")))
}

/// The name and value that restore the current state of this knob.
fn in_force(base: &Path, name: &str) -> Result<(String, String)> {
    let value = read(&base.join(name))?;
    let path = Path::new(name);
    let last = path.file_name().unwrap_or_default().to_string_lossy();
    let other = FORMS.iter().find(|(one, _)| *one == last).map(|(_, other)| other);
    match other.filter(|_| value == "0") {
        Some(other) => {
            let other = path.with_file_name(other);
            let value = read(&base.join(&other))?;
            Ok((other.display().to_string(), value))
        }
        None => Ok((name.to_owned(), value)),
    }
}

fn read(file: &Path) -> Result<String> {
    Ok(std::fs::read_to_string(file)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            for folder in ["sys/vm", "block/queue"] {
                std::fs::create_dir_all(machine.0.path().join(folder)).unwrap();
            }
            for (file, value) in [
                ("sys/vm/dirty_bytes", "0\n"),
                ("sys/vm/dirty_ratio", "20\n"),
                ("sys/vm/dirty_expire_centisecs", "3000\n"),
                ("block/queue/read_ahead_kb", "128\n"),
            ] {
                std::fs::write(machine.0.path().join(file), value).unwrap();
            }
            machine
        }

        /// The start of a run on this disk.
        fn run_on(&self, disk: &str) -> Knobs {
            let path = |name| self.0.path().join(name);
            Knobs::recorded_in(&path("records"), path("sys"), path("block"), disk)
        }

        fn run(&self) -> Knobs {
            self.run_on("sda-7")
        }

        fn value(&self, file: &str) -> String {
            read(&self.0.path().join(file)).unwrap()
        }

        fn records(&self) -> Vec<String> {
            let entries = std::fs::read_dir(self.0.path().join("records")).unwrap().flatten();
            let names = entries.map(|entry| entry.file_name().into_string().unwrap());
            // Those of runs that have not ended.
            names.filter(|name| !name.ends_with(".lock")).collect()
        }
    }

    const EXPIRE: &str = "sys/vm/dirty_expire_centisecs";
    const AHEAD: &str = "block/queue/read_ahead_kb";

    fn knob(key: &str, value: &str) -> Vec<(String, String)> {
        vec![(key.to_owned(), value.to_owned())]
    }

    fn later() -> Vec<(String, String)> {
        knob("vm.dirty_expire_centisecs", "6000")
    }

    fn ahead() -> Vec<(String, String)> {
        knob("queue/read_ahead_kb", "1024")
    }

    #[test]
    fn knobs_are_set_and_restored() {
        let machine = Machine::new();
        let run = machine.run();
        let guard = run.set(&later(), &ahead()).unwrap();
        assert_eq!((machine.value(EXPIRE), machine.value(AHEAD)), ("6000".into(), "1024".into()));
        assert_eq!(machine.records().len(), 2);
        drop(guard);
        assert_eq!((machine.value(EXPIRE), machine.value(AHEAD)), ("3000".into(), "128".into()));
        assert!(machine.records().is_empty());
    }

    /// Ends a run as a kill does: nothing is restored, and the kernel drops the locks.
    fn kill(run: Knobs, guard: KnobGuard) {
        for changed in guard.changed {
            std::mem::forget(changed);
        }
        drop(run);
    }

    #[test]
    fn the_next_run_restores_what_a_killed_one_changed() {
        let machine = Machine::new();
        let run = machine.run();
        let guard = run.set(&later(), &ahead()).unwrap();
        kill(run, guard);
        assert_eq!((machine.value(EXPIRE), machine.value(AHEAD)), ("6000".into(), "1024".into()));
        let other = machine.run_on("sdb-8");
        assert_eq!(machine.value(EXPIRE), "3000", "of the machine, so any run restores it");
        assert_eq!(machine.value(AHEAD), "1024", "of another disk");
        let next = machine.run();
        assert_eq!(machine.value(AHEAD), "128");
        assert!(machine.records().is_empty());
        drop((other, next));
    }

    #[test]
    fn what_another_run_leaves_is_not_taken_for_the_original() {
        let machine = Machine::new();
        let (killed, run) = (machine.run(), machine.run_on("sdb-8"));
        let guard = killed.set(&later(), &[]).unwrap();
        let refused = run.set(&later(), &[]).unwrap_err();
        assert!(matches!(refused, KnobError::OfAnother(_)), "{refused}");
        assert_eq!(machine.value(EXPIRE), "6000");
        kill(killed, guard);
        drop(run.set(&later(), &[]).unwrap());
        assert_eq!(machine.value(EXPIRE), "3000");
    }

    #[test]
    fn a_record_names_no_file_elsewhere() {
        let machine = Machine::new();
        std::fs::create_dir(machine.0.path().join("records")).unwrap();
        let elsewhere = machine.0.path().join("elsewhere");
        std::fs::write(&elsewhere, "kept").unwrap();
        let forged = format!("../elsewhere 1\n{} 1\nnonsense\n", elsewhere.display());
        std::fs::write(machine.0.path().join("records/machine"), forged).unwrap();
        machine.run();
        assert_eq!(std::fs::read_to_string(elsewhere).unwrap(), "kept");
    }

    #[test]
    fn a_limit_in_the_other_form_is_restored_in_that_form() {
        let machine = Machine::new();
        let run = machine.run();
        let guard = run.set(&knob("vm.dirty_bytes", "16777216"), &[]).unwrap();
        std::fs::write(machine.0.path().join("sys/vm/dirty_ratio"), "0").unwrap();
        drop(guard);
        assert_eq!(machine.value("sys/vm/dirty_ratio"), "20");
        let bytes = machine.value("sys/vm/dirty_bytes");
        assert_eq!(bytes, "16777216", "the kernel sets it to 0 by itself");
    }

    #[test]
    fn knobs_are_restored_when_a_later_one_fails() {
        let machine = Machine::new();
        let error = machine.run().set(&later(), &knob("queue/there_is_none", "1")).unwrap_err();
        assert!(error.to_string().contains("there_is_none"), "{error}");
        assert_eq!(machine.value(EXPIRE), "3000");
        assert!(machine.records().is_empty());
    }
}
