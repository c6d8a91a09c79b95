//! The run directory: everything that is needed to read, resume and repeat a run.
//!
//! ```text
//! run.json        what is run on what: the resolved configuration, medium, geometry, versions
//! config.toml     the same choices as a configuration file, to make the run anew
//! trials.jsonl    one line a trial, appended and synced; see `record`
//! fio/N-POINT.json   fio's own output of trial N
//! kernel/N.log    what the kernel logged during trial N, where it logged anything
//! report.html     written by the report command
//! ```
//!
//! Fault model: the process may be killed at any point and the disk may fill up. A line that was
//! not written whole is cut off when the directory is opened for writing again, so at most the
//! trial under way is lost. Limit: two machines' runs are not merged here.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use flashfit_host::program::quote;
use flashfit_host::{ExitClass, Explain, durable};
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::record::{RECORD_VERSION, TrialRecord};
use crate::spec::{RunHeader, RunSpec, SCHEMA, SCHEMA_VERSION};

/// The file that is locked; its name also tells that the directory is flashfit's.
const LOCK: &str = ".flashfit-lock";

/// Why a run directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// There is a run already.
    #[error("{} already holds a run", path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// Something that a run would overwrite is there.
    #[error("{} holds {file}, which a run would overwrite", path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
        /// The file or folder in it.
        file: &'static str,
    },
    /// There is none.
    #[error("{} holds no run", path.display())]
    NoRun {
        /// The directory.
        path: PathBuf,
    },
    /// Another flashfit is at work in it.
    #[error("another flashfit is at work in {}", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// Written by another version of flashfit.
    #[error("{} is a run of format {found}, and this flashfit reads format {SCHEMA_VERSION}", path.display())]
    OtherVersion {
        /// The directory.
        path: PathBuf,
        /// The version it has.
        found: u32,
    },
    /// A file does not hold what it should.
    #[error("{}:{line}: damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The disk is full.
    #[error("no space left for {}", path.display())]
    Full {
        /// The file that could not be written.
        path: PathBuf,
    },
    /// The system said no.
    #[error("{}: {source}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl RunDirError {
    fn system(path: &Path, source: std::io::Error) -> Self {
        let path = path.to_owned();
        match source.raw_os_error() {
            Some(code) if code == rustix::io::Errno::NOSPC.raw_os_error() => Self::Full { path },
            _ => Self::System { path, source },
        }
    }
}

impl Explain for RunDirError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Full { .. } | Self::System { .. } => ExitClass::Environment,
            _ => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Exists { path } => Some(format!(
                "flashfit tune --resume {} goes on with it; or name another directory with --dir",
                path.display()
            )),
            Self::Occupied { .. } => Some("name another directory with --dir".into()),
            Self::NoRun { .. } => Some("name the directory that flashfit tune printed".into()),
            Self::Locked { .. } => Some("wait for it, or end it".into()),
            Self::OtherVersion { .. } => Some("use the flashfit that wrote it".into()),
            Self::Damaged { path, .. } if path.ends_with("run.json") => {
                Some("take run.json from a copy, or begin a new run".into())
            }
            Self::Damaged { path, line, .. } => {
                let path = quote(&path.display().to_string());
                Some(format!("look at it, then remove it: sed -i {line}d {path}"))
            }
            Self::Full { .. } => Some("make room, then: flashfit tune --resume DIR".into()),
            Self::System { .. } => None,
        }
    }
}

/// A run directory that this process alone writes to.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    trials: File,
    /// Held as long as the value lives.
    _lock: File,
}

/// A run as read from its directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// What was run on what.
    pub header: RunHeader,
    /// The trials, in the order in which they were made.
    pub trials: Vec<TrialRecord>,
}

impl RunDir {
    /// Makes a new run directory at `path`, which may exist if nothing in it would be overwritten.
    ///
    /// # Errors
    /// As [`RunDirError`] tells.
    pub fn create(path: &Path, header: &RunHeader) -> Result<Self, RunDirError> {
        Claimed::new(path, &header.spec)?.begin(header)
    }

    /// Opens an existing run to go on with it. A last line that was not written whole is cut off.
    ///
    /// # Errors
    /// As [`RunDirError`] tells.
    pub fn resume(path: &Path) -> Result<(Self, Run), RunDirError> {
        let header: RunHeader = read_header(path)?;
        let lock = lock(path)?;
        let mut trials = open_trials(path)?;
        let (records, whole_bytes) = read_trials(path)?;
        trials
            .set_len(whole_bytes)
            .and_then(|()| trials.seek(SeekFrom::End(0)).map(drop))
            .map_err(|error| RunDirError::system(&path.join("trials.jsonl"), error))?;
        let run = Run { header, trials: records };
        Ok((Self { path: path.to_owned(), trials, _lock: lock }, run))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps a trial: first the raw outputs (`(point, text)`), then its line, synced.
    ///
    /// # Errors
    /// [`RunDirError::Full`] or [`RunDirError::System`]; the trials kept before stay whole.
    pub fn append(
        &mut self,
        record: &TrialRecord,
        raw: &[(String, String)],
        kernel_messages: &[String],
    ) -> Result<(), RunDirError> {
        for (point, text) in raw {
            let name = format!("fio/{:05}-{point}.json", record.number);
            write_whole(&self.path.join(name), text.as_bytes())?;
        }
        if !kernel_messages.is_empty() {
            let path = self.path.join(format!("kernel/{:05}.log", record.number));
            write_whole(&path, (kernel_messages.join("\n") + "\n").as_bytes())?;
        }
        let mut line = serde_json::to_string(record).expect("a record is plain data");
        line.push('\n');
        let path = self.path.join("trials.jsonl");
        let before = self.trials.stream_position().map_err(|e| RunDirError::system(&path, e))?;
        let written = self.trials.write_all(line.as_bytes()).and_then(|()| self.trials.sync_data());
        written.map_err(|error| {
            // What cannot be cut off now is cut off at the next resume.
            let _ = self.trials.set_len(before);
            let _ = self.trials.seek(SeekFrom::Start(before));
            RunDirError::system(&path, error)
        })
    }
}

impl Run {
    /// Reads a run without locking it, also while it is under way.
    ///
    /// # Errors
    /// As [`RunDirError`] tells.
    pub fn read(path: &Path) -> Result<Self, RunDirError> {
        Ok(Self { header: read_header(path)?, trials: read_trials(path)?.0 })
    }
}

/// A directory taken for a run that is about to begin, before its medium is touched: what stands in
/// the way of keeping it shows now. Dropped without a run, it leaves nothing of its own.
#[derive(Debug)]
pub struct Claimed {
    path: PathBuf,
    lock: Option<File>,
}

impl Claimed {
    /// Takes `path`, which may exist if nothing in it would be overwritten.
    ///
    /// # Errors
    /// As [`RunDirError`] tells.
    pub fn new(path: &Path, spec: &RunSpec) -> Result<Self, RunDirError> {
        Self::is_free(path)?;
        std::fs::create_dir_all(path).map_err(|error| RunDirError::system(path, error))?;
        let claimed = Self { path: path.to_owned(), lock: Some(lock(path)?) };
        for folder in ["fio", "kernel"] {
            let folder = path.join(folder);
            std::fs::create_dir_all(&folder).map_err(|e| RunDirError::system(&folder, e))?;
        }
        let config = Config::from(spec).to_text();
        write_whole(&path.join("config.toml"), config.as_bytes())?;
        Ok(claimed)
    }

    /// Whether a run could be kept in `path` without overwriting anything.
    ///
    /// # Errors
    /// [`RunDirError::Exists`] or [`RunDirError::Occupied`].
    pub fn is_free(path: &Path) -> Result<(), RunDirError> {
        if path.join("run.json").exists() {
            return Err(RunDirError::Exists { path: path.to_owned() });
        }
        // Of a flashfit that was killed before its run began there may be a claim, but no result.
        let results = ["trials.jsonl", "report.html"];
        let all = ["trials.jsonl", "report.html", "config.toml", "fio", "kernel"];
        let files = if path.join(LOCK).exists() { results.as_slice() } else { all.as_slice() };
        match files.iter().copied().find(|file| path.join(file).exists()) {
            Some(file) => Err(RunDirError::Occupied { path: path.to_owned(), file }),
            None => Ok(()),
        }
    }

    /// Begins the run.
    ///
    /// # Errors
    /// [`RunDirError::Full`] or [`RunDirError::System`].
    pub fn begin(mut self, header: &RunHeader) -> Result<RunDir, RunDirError> {
        let text = serde_json::to_string_pretty(header).expect("a header is plain data");
        let file = self.path.join("run.json");
        write_whole(&file, text.as_bytes())?;
        // After the header, because trials without one could belong to any run.
        let trials = open_trials(&self.path).inspect_err(|_| {
            let _ = std::fs::remove_file(&file);
        })?;
        let lock = self.lock.take().expect("it is taken once, here");
        Ok(RunDir { path: self.path.clone(), trials, _lock: lock })
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if self.lock.is_none() {
            return;
        }
        // None of these was there before; should a folder hold anything after all, it stays.
        for file in ["config.toml", "trials.jsonl", LOCK] {
            let _ = std::fs::remove_file(self.path.join(file));
        }
        for folder in ["fio", "kernel"] {
            let _ = std::fs::remove_dir(self.path.join(folder));
        }
    }
}

fn lock(path: &Path) -> Result<File, RunDirError> {
    let file = path.join(LOCK);
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&file);
    let opened = opened.map_err(|error| RunDirError::system(&file, error))?;
    match rustix::fs::flock(&opened, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(opened),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(RunDirError::Locked { path: path.to_owned() }),
        Err(error) => Err(RunDirError::system(&file, error.into())),
    }
}

fn open_trials(path: &Path) -> Result<File, RunDirError> {
    let path = path.join("trials.jsonl");
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .map_err(|error| RunDirError::system(&path, error))
}

/// Writes a file so that it is there whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), RunDirError> {
    durable::write(path, bytes).map_err(|error| RunDirError::system(path, error))
}

/// Reads a run whose header need not be flashfit's own: `T` is what is wanted of it.
///
/// # Errors
/// As [`RunDirError`] tells.
pub(crate) fn read_any<T: for<'de> Deserialize<'de>>(
    path: &Path,
) -> Result<(T, Vec<TrialRecord>), RunDirError> {
    Ok((read_header(path)?, read_trials(path)?.0))
}

fn read_header<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, RunDirError> {
    #[derive(Deserialize)]
    struct Version {
        schema: String,
        schema_version: u32,
    }
    let file = path.join("run.json");
    let text = std::fs::read_to_string(&file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => RunDirError::NoRun { path: path.to_owned() },
        _ => RunDirError::system(&file, error),
    })?;
    let damaged = |error: serde_json::Error| RunDirError::Damaged {
        path: file.clone(),
        line: error.line(),
        reason: error.to_string(),
    };
    let version: Version = serde_json::from_str(&text).map_err(damaged)?;
    if version.schema != SCHEMA || version.schema_version != SCHEMA_VERSION {
        return Err(RunDirError::OtherVersion {
            path: path.to_owned(),
            found: version.schema_version,
        });
    }
    serde_json::from_str(&text).map_err(damaged)
}

/// The trials, and the length in bytes of the lines that are whole.
fn read_trials(path: &Path) -> Result<(Vec<TrialRecord>, u64), RunDirError> {
    let file = path.join("trials.jsonl");
    let mut bytes = Vec::new();
    match File::open(&file) {
        Ok(mut open) => {
            open.read_to_end(&mut bytes).map_err(|error| RunDirError::system(&file, error))?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(RunDirError::system(&file, error)),
    }
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let mut records = Vec::new();
    for (index, line) in bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
        let damaged = |reason| RunDirError::Damaged { path: file.clone(), line: index + 1, reason };
        let record: TrialRecord =
            serde_json::from_slice(line).map_err(|error| damaged(error.to_string()))?;
        if record.version != RECORD_VERSION {
            return Err(damaged(format!("a record of version {}", record.version)));
        }
        records.push(record);
    }
    Ok((records, u64::try_from(whole).expect("a file's length")))
}
