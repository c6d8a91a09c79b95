//! The run directory: everything that is needed to read, resume and repeat a run.
//!
//! ```text
//! run.json        what is run on what: the resolved configuration, device, geometry, versions
//! config.toml     the same choices as a configuration file, to repeat the run
//! raw.json        what the bare device did under the same jobs, see `raw`; not in every run
//! sustained.json  trials that went on for longer, see `sustained`; not in every run
//! trials.jsonl    one line a trial, appended and synced; see `record`
//! fio/N-POINT.json   fio's own output of trial N
//! kernel/N.log    what the kernel logged during trial N, where it logged anything
//! report.html     written by the report command
//! ```
//!
//! A run directory is only data, and no link in it is followed; see `flashfit_host::dir`.
//!
//! Fault model: the process may be killed at any point, the power may fail, and the disk may fill
//! up. A line that was not written whole, or that has zeros in it, is cut off when the directory is
//! opened for writing again, so at most the
//! trial under way is lost. Limit: two machines' runs are not merged here.

mod digest;
mod error;
mod json_path;
mod reading;

use std::path::{Path, PathBuf};

use flashfit_host::dir::{DirError, DirHandle, LogFile};
use flashfit_host::file_lock::FileLock;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::raw::{RawDevice, RawMeasurement};
use crate::record::TrialRecord;
use crate::spec::{RunHeader, RunSpec};
use crate::sustained::SustainedTrials;

pub use digest::{RunDigest, read_with_digest};
pub use error::RunDirError;
use reading::{HEADER, RAW, SUSTAINED, TRIALS};

/// The file that is locked; its name also shows that the directory is flashfit's.
const LOCK: &str = ".flashfit-lock";

const CONFIG: &str = "config.toml";
const REPORT: &str = "report.html";
const FIO: &str = "fio";
const KERNEL: &str = "kernel";
/// Permissions of files, of which the user's mask takes away.
const MODE: u32 = 0o666;

/// A run directory that this process alone writes to.
#[derive(Debug)]
pub struct RunDir {
    folder: DirHandle,
    fio: DirHandle,
    kernel: DirHandle,
    trials: LogFile,
    /// Held as long as the value lives.
    _lock: FileLock,
}

/// A run as read from its directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredRun {
    pub header: RunHeader,
    /// The trials, in the order in which they were made.
    pub trials: Vec<TrialRecord>,
}

impl RunDir {
    /// Makes a new run directory at `path`, which may exist if nothing in it would be overwritten.
    ///
    /// # Errors
    /// See [`RunDirError`].
    pub fn create(path: &Path, header: &RunHeader) -> Result<Self, RunDirError> {
        RunDirLock::new(path, &header.spec)?.begin(header)
    }

    /// Opens an existing run to go on with it. A last line that was not written whole is cut off.
    ///
    /// # Errors
    /// See [`RunDirError`].
    pub fn resume(path: &Path) -> Result<(Self, StoredRun), RunDirError> {
        let folder = open(path)?;
        let header: RunHeader = reading::header(&folder)?;
        let lock = lock(&folder)?;
        let mut trials = folder.open_log(TRIALS)?;
        let (records, whole_bytes) = reading::trials(&folder)?;
        trials.truncate(whole_bytes)?;
        let run = StoredRun { header, trials: records };
        let (fio, kernel) = (folder.create_dir(FIO)?, folder.create_dir(KERNEL)?);
        Ok((Self { folder, fio, kernel, trials, _lock: lock }, run))
    }

    /// Replaces header and configuration, for a run that is extended. A kill in between leaves the
    /// extended run with the earlier configuration file, from which nothing is read.
    ///
    /// # Errors
    /// As [`DirError`] says.
    pub fn replace_header(&self, header: &RunHeader) -> Result<(), RunDirError> {
        let text = serde_json::to_string_pretty(header).expect("a header is plain data");
        self.folder.write(HEADER, text.as_bytes(), MODE)?;
        let config = Config::text_of_run(&header.spec);
        Ok(self.folder.write(CONFIG, config.as_bytes(), MODE)?)
    }

    /// What is known of the bare device.
    ///
    /// # Errors
    /// As [`read_raw`].
    pub fn raw(&self) -> Result<Vec<RawMeasurement>, RunDirError> {
        reading::raw(&self.folder)
    }

    /// Replaces what is known of the bare device.
    ///
    /// # Errors
    /// As [`DirError`] says; what was known stays then.
    pub fn keep_raw(&self, measured: &[RawMeasurement]) -> Result<(), RunDirError> {
        let document = RawDevice::new(measured.to_vec());
        let text = serde_json::to_string(&document).expect("measurements are plain data");
        Ok(self.folder.write(RAW, text.as_bytes(), MODE)?)
    }

    /// The trials that went on for longer; `None` if there are none.
    ///
    /// # Errors
    /// As [`read_sustained`].
    pub fn sustained(&self) -> Result<Option<SustainedTrials>, RunDirError> {
        reading::sustained(&self.folder)
    }

    /// Replaces the trials that went on for longer.
    ///
    /// # Errors
    /// As [`DirError`] says; what was known stays then.
    pub fn keep_sustained(&self, trials: &SustainedTrials) -> Result<(), RunDirError> {
        let text = serde_json::to_string(trials).expect("trials are plain data");
        Ok(self.folder.write(SUSTAINED, text.as_bytes(), MODE)?)
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Keeps a trial: first the raw outputs (`(point, text)`), then its line, synced.
    ///
    /// # Errors
    /// As [`DirError`] says; the trials kept before stay whole.
    pub fn append(
        &mut self,
        record: &TrialRecord,
        raw: &[(String, String)],
        kernel_messages: &[String],
    ) -> Result<(), RunDirError> {
        for (point, text) in raw {
            let name = format!("{:05}-{point}.json", record.number);
            self.fio.write(&name, text.as_bytes(), MODE)?;
        }
        if !kernel_messages.is_empty() {
            let name = format!("{:05}.log", record.number);
            let text = kernel_messages.join("\n") + "\n";
            self.kernel.write(&name, text.as_bytes(), MODE)?;
        }
        let mut line = serde_json::to_string(record).expect("a record is plain data");
        line.push('\n');
        Ok(self.trials.append(line.as_bytes())?)
    }
}

impl StoredRun {
    /// Reads a run without locking it, also while it is under way.
    ///
    /// # Errors
    /// See [`RunDirError`].
    pub fn read(path: &Path) -> Result<Self, RunDirError> {
        let (header, trials) = read_any(path)?;
        Ok(Self { header, trials })
    }
}

/// What is known of the bare device of the run at `path`; nothing in earlier runs.
///
/// # Errors
/// If the file cannot be read, or is something else.
pub fn read_raw(path: &Path) -> Result<Vec<RawMeasurement>, RunDirError> {
    reading::raw(&open(path)?)
}

/// The trials of the run at `path` that went on for longer; `None` if there are none.
///
/// # Errors
/// If the file cannot be read, or is something else.
pub fn read_sustained(path: &Path) -> Result<Option<SustainedTrials>, RunDirError> {
    reading::sustained(&open(path)?)
}

/// Writes the report of the run at `path` next to the run, and returns its name.
///
/// # Errors
/// As [`DirError`] says.
pub fn write_report(path: &Path, html: &str) -> Result<PathBuf, RunDirError> {
    open(path)?.write(REPORT, html.as_bytes(), MODE)?;
    Ok(path.join(REPORT))
}

/// A directory taken for a run that is about to begin, before its device is touched: anything in
/// the way of keeping it shows now. Dropped without a run, it removes what it made.
#[derive(Debug)]
pub struct RunDirLock {
    /// `None` once a run has begun in it.
    taken: Option<Taken>,
}

#[derive(Debug)]
struct Taken {
    folder: DirHandle,
    fio: DirHandle,
    kernel: DirHandle,
    lock: FileLock,
}

impl RunDirLock {
    /// Takes `path`, which may exist if nothing in it would be overwritten.
    ///
    /// # Errors
    /// See [`RunDirError`].
    pub fn new(path: &Path, spec: &RunSpec) -> Result<Self, RunDirError> {
        Self::is_free(path)?;
        let folder = DirHandle::create(path, 0o755)?;
        let lock = lock(&folder)?;
        let made = || -> Result<_, DirError> {
            let (fio, kernel) = (folder.create_dir(FIO)?, folder.create_dir(KERNEL)?);
            folder.write(CONFIG, Config::text_of_run(spec).as_bytes(), MODE)?;
            Ok((fio, kernel))
        };
        match made() {
            Ok((fio, kernel)) => Ok(Self { taken: Some(Taken { folder, fio, kernel, lock }) }),
            Err(error) => {
                forget(&folder);
                Err(error.into())
            }
        }
    }

    /// Whether a run could be kept in `path` without overwriting anything.
    ///
    /// # Errors
    /// [`RunDirError::Exists`], [`RunDirError::Occupied`], or where the directory is not to be
    /// trusted.
    pub fn is_free(path: &Path) -> Result<(), RunDirError> {
        let folder = match DirHandle::open(path) {
            Ok(folder) => folder,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if folder.has(HEADER) {
            return Err(RunDirError::Exists { path: path.to_owned() });
        }
        // Of a flashfit that was killed before its run began there may be a claim, but no result.
        let results = [TRIALS, RAW, SUSTAINED, REPORT];
        let all = [TRIALS, RAW, SUSTAINED, REPORT, CONFIG, FIO, KERNEL];
        let files = if folder.has(LOCK) { results.as_slice() } else { all.as_slice() };
        match files.iter().copied().find(|file| folder.has(file)) {
            Some(file) => Err(RunDirError::Occupied { path: path.to_owned(), file }),
            None => Ok(()),
        }
    }

    /// Begins the run.
    ///
    /// # Errors
    /// As [`DirError`] says.
    pub fn begin(mut self, header: &RunHeader) -> Result<RunDir, RunDirError> {
        let folder = &self.taken.as_ref().expect("it is taken once, below").folder;
        let text = serde_json::to_string_pretty(header).expect("a header is plain data");
        folder.write(HEADER, text.as_bytes(), MODE)?;
        // After the header, because trials without one could belong to any run.
        let trials = folder.open_log(TRIALS).inspect_err(|_| {
            let _ = folder.remove(HEADER);
        })?;
        let Taken { folder, fio, kernel, lock } =
            self.taken.take().expect("it is taken once, here");
        Ok(RunDir { folder, fio, kernel, trials, _lock: lock })
    }
}

impl Drop for RunDirLock {
    fn drop(&mut self) {
        if let Some(taken) = &self.taken {
            forget(&taken.folder);
        }
    }
}

/// Removes what a claim has made. None of it was there before; should a folder hold anything after
/// all, it stays.
fn forget(folder: &DirHandle) {
    for file in [CONFIG, TRIALS, LOCK] {
        let _ = folder.remove(file);
    }
    for name in [FIO, KERNEL] {
        let _ = folder.remove_dir(name);
    }
}

fn open(path: &Path) -> Result<DirHandle, RunDirError> {
    DirHandle::open(path).map_err(|error| match error.is_not_found() {
        true => RunDirError::NoRun { path: path.to_owned() },
        false => error.into(),
    })
}

fn lock(folder: &DirHandle) -> Result<FileLock, RunDirError> {
    folder.lock(LOCK)?.ok_or_else(|| locked(folder))
}

fn locked(folder: &DirHandle) -> RunDirError {
    RunDirError::Locked { path: folder.path().to_owned(), holder: folder.lock_holder(LOCK) }
}

/// Whether this process could continue the run at `path` now. Nothing is created.
///
/// # Errors
/// [`RunDirError::Locked`] if another process works on it, or where it cannot be read.
pub fn check_unlocked(path: &Path) -> Result<(), RunDirError> {
    let folder = open(path)?;
    if folder.is_locked(LOCK)? { Err(locked(&folder)) } else { Ok(()) }
}

/// Whether a process works on the run at `path` now. Nothing is created.
///
/// # Errors
/// See [`RunDirError`].
pub fn is_locked(path: &Path) -> Result<bool, RunDirError> {
    Ok(open(path)?.is_locked(LOCK)?)
}

/// Reads a run whose header need not be flashfit's own: `T` is what is wanted of it.
///
/// # Errors
/// See [`RunDirError`].
pub fn read_any<T: for<'de> Deserialize<'de>>(
    path: &Path,
) -> Result<(T, Vec<TrialRecord>), RunDirError> {
    let folder = open(path)?;
    Ok((reading::header(&folder)?, reading::trials(&folder)?.0))
}
