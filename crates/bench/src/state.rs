//! Fills and ages a file system before a workload is measured.
//!
//! Filling writes files until the requested share of the file system is used: by volume 10 % files
//! of 16 KiB, 30 % of 256 KiB and 60 % of 4 MiB, concurrently, so that they interleave. One round
//! of aging deletes half of all files at random, writes new files until the share is reached again,
//! and overwrites random blocks of 4 KiB, 1/8 of the volume. Finally everything is written back.
//!
//! Limits: this is a defined procedure, not a model of long use; tools such as Geriatrix go
//! further. The reached share is that of statvfs(3), which includes metadata.

use std::path::{Path, PathBuf};

use flashfit_device::random::Random;
use flashfit_host::Runner;
use flashfit_host::memory_limit::MemoryLimit;
use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::fio::{self, FioAccess, FioRun, system};
use crate::plan::{SLOW_BYTES_PER_SECOND, duration_ns, fill_timeout};
use crate::result;
use crate::start::StartVariation;
use crate::target::{TargetIdentity, WorkloadTarget};

/// The directory of the files, next to that of the workload.
const FOLDER: &str = "flashfit-state";
/// A workload needs the rest.
pub const MAX_FILL_HUNDREDTHS: u32 = 9_000;
/// More rounds than this are probably a typing error.
pub const MAX_AGE_ROUNDS: u32 = 1_000;
/// The share if only aging is requested.
pub const DEFAULT_AGING_FILL_HUNDREDTHS: u32 = 5_000;
/// The classes of files: name, size in bytes, percentage of the volume that the classes before
/// left, so that a remainder too small for a large file goes into smaller ones.
const FILE_CLASSES: [(&str, u64, u64); 3] =
    [("large", 4 << 20, 60), ("medium", 256 << 10, 75), ("small", 16 << 10, 100)];
/// A round overwrites 1 / this of the volume.
const OVERWRITE_DIVISOR: u64 = 8;
const BLOCK_BYTES: u64 = 4096;
/// Makes these seeds different from those of the workload.
const STATE_SEED: u64 = 0x57A7_E5EE_D000;
/// The settings of all jobs; the directory is passed as a variable.
const COMMON: &str = "[global]\nioengine=psync\nfallocate=none\nrefill_buffers=1\nthread=1\n\
                      group_reporting=1\nrandseed=${SEED}\n";
const TARGET: &str = "${STATE}";

/// The state of the file system when a workload starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartingState {
    /// The used share of the file system, in hundredths of a percent; 0 for an empty one.
    pub fill_hundredths: u32,
    pub age_rounds: u32,
    /// Whether each trial draws how the file system was used since; see [`crate::start`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub varied: bool,
}

/// The state that was reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateReached {
    /// The used share according to statvfs(3), in hundredths of a percent.
    pub used_hundredths: u32,
    pub files: u64,
    pub age_rounds: u32,
    pub written_bytes: u64,
    /// How it was used then, in a trial that draws this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartVariation>,
}

impl StateReached {
    /// A mounted file system as it is.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn of(mount_point: &Path) -> Result<Self, BenchError> {
        let (used, total) = usage(mount_point)?;
        Ok(Self { used_hundredths: share_hundredths(used, total), ..Self::default() })
    }
}

/// The free space of the file system at `mount_point`.
///
/// # Errors
/// When it cannot be asked.
pub fn free_bytes(mount_point: &Path) -> Result<u64, BenchError> {
    let (used, total) = usage(mount_point)?;
    Ok(total.saturating_sub(used))
}

impl StartingState {
    pub fn is_fresh(&self) -> bool {
        self.fill_hundredths == 0 && self.age_rounds == 0
    }

    /// About how much creating it writes to a file system of this size, in bytes.
    pub fn written_bytes(&self, filesystem_bytes: u64) -> u64 {
        let volume = u128::from(filesystem_bytes) * u128::from(self.fill_hundredths) / 10_000;
        let round = volume / 2 + volume / u128::from(OVERWRITE_DIVISOR);
        let written = volume + round * u128::from(self.age_rounds);
        u64::try_from(written).unwrap_or(u64::MAX)
    }

    /// How long that takes on a device that writes 1 MiB/s, in nanoseconds.
    pub fn slow_ns(&self, filesystem_bytes: u64) -> u64 {
        duration_ns(self.written_bytes(filesystem_bytes), SLOW_BYTES_PER_SECOND)
    }
}

impl std::fmt::Display for StartingState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_fresh() {
            f.write_str("empty")?;
        } else {
            write!(f, "filled to {} %", self.fill_hundredths / 100)?;
        }
        if self.age_rounds > 0 {
            write!(f, ", aged by {} rounds", self.age_rounds)?;
        }
        if self.varied {
            f.write_str(", varied start")?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
pub struct StateTools<'a> {
    pub runner: &'a dyn Runner,
    /// For job files and results; must not be on the device.
    pub scratch: &'a Path,
    /// Of fio, including the page cache.
    pub memory_limit: Option<&'a MemoryLimit>,
    /// The seed of contents and of random choices.
    pub seed: u64,
}

/// Creates the state in a mounted file system and writes everything back.
///
/// # Errors
/// As [`crate::run_workload`]; [`BenchError::Full`] when the files do not fit.
pub fn prepare(
    state: StartingState,
    target: WorkloadTarget<'_>,
    tools: StateTools<'_>,
) -> Result<StateReached, BenchError> {
    let identity = target.identify()?;
    // fio resolves relative paths against its auxiliary directory.
    let scratch = tools.scratch.canonicalize().map_err(system(tools.scratch))?;
    let tools = StateTools { scratch: &scratch, ..tools };
    let folder = identity.path.join(FOLDER);
    std::fs::create_dir(&folder).map_err(system(&folder))?;
    let mut builder = StateBuilder { tools, target, identity, folder, written_bytes: 0, calls: 0 };
    let (used, total) = builder.usage()?;
    let wanted = total / 10_000 * u64::from(state.fill_hundredths);
    let volume = wanted.saturating_sub(used);
    builder.write_files(volume)?;
    for _ in 0..state.age_rounds {
        builder.delete_half()?;
        let (used, _) = builder.usage()?;
        builder.write_files(wanted.saturating_sub(used))?;
        builder.overwrite()?;
    }
    builder.write_back()?;
    let (used, total) = builder.usage()?;
    Ok(StateReached {
        used_hundredths: share_hundredths(used, total),
        files: files_in(&builder.folder)?.len() as u64,
        age_rounds: state.age_rounds,
        written_bytes: builder.written_bytes,
        start: None,
    })
}

struct StateBuilder<'a> {
    tools: StateTools<'a>,
    target: WorkloadTarget<'a>,
    identity: TargetIdentity,
    folder: PathBuf,
    written_bytes: u64,
    /// Makes seeds and directories of the runs of fio different.
    calls: u64,
}

impl StateBuilder<'_> {
    fn usage(&self) -> Result<(u64, u64), BenchError> {
        usage(&self.folder)
    }

    /// Writes files of all classes, about `volume` bytes in total.
    fn write_files(&mut self, volume: u64) -> Result<(), BenchError> {
        let mut left = volume;
        let mut jobs: Vec<(&str, u64, u64)> = Vec::new();
        for (name, bytes, hundredths) in FILE_CLASSES {
            let count = left / 100 * hundredths / bytes;
            left -= count * bytes;
            if count > 0 {
                jobs.push((name, bytes, count));
            }
        }
        if jobs.is_empty() {
            return Ok(());
        }
        let folder = self.folder.join(format!("written-{}", self.calls));
        std::fs::create_dir(&folder).map_err(system(&folder))?;
        let mut text = format!(
            "{COMMON}rw=write\nbs=16k\ncreate_on_open=1\nopenfiles=1\n\
             file_service_type=sequential\ndirectory={TARGET}\n"
        );
        for (name, bytes, count) in jobs {
            let size = bytes * count;
            text += &format!("[{name}]\nnrfiles={count}\nsize={size}\n");
            self.written_bytes += size;
        }
        self.fio(&text, &folder, volume)
    }

    /// Deletes half of all files at random.
    fn delete_half(&mut self) -> Result<(), BenchError> {
        let mut files = files_in(&self.folder)?;
        Random::new(self.tools.seed ^ self.calls).shuffle(&mut files);
        for (path, _) in files.iter().take(files.len() / 2) {
            std::fs::remove_file(path).map_err(system(path))?;
        }
        // Otherwise the freed space would not be reused by the new files.
        self.write_back()
    }

    fn overwrite(&mut self) -> Result<(), BenchError> {
        let volume: u64 = files_in(&self.folder)?.iter().map(|(_, bytes)| bytes).sum();
        let amount = volume / OVERWRITE_DIVISOR / BLOCK_BYTES * BLOCK_BYTES;
        if amount == 0 {
            return Ok(());
        }
        self.written_bytes += amount;
        let text = format!(
            "{COMMON}rw=randwrite\nbs={BLOCK_BYTES}\nnorandommap=1\noverwrite=1\nopenfiles=16\n\
             file_service_type=random\nopendir={TARGET}\nio_size={amount}\n[overwrite]\n"
        );
        let folder = self.folder.clone();
        self.fio(&text, &folder, amount)
    }

    fn write_back(&self) -> Result<(), BenchError> {
        let open = std::fs::File::open(&self.folder).map_err(system(&self.folder))?;
        rustix::fs::syncfs(&open).map_err(|error| BenchError::Device {
            message: format!("writeback: {}", std::io::Error::from(error)),
        })
    }

    /// Runs jobs in `folder`.
    fn fio(&mut self, text: &str, folder: &Path, volume: u64) -> Result<(), BenchError> {
        let seed = Random::new(self.tools.seed ^ STATE_SEED ^ self.calls).next_u64() >> 1;
        self.calls += 1;
        // `:` in a directory name is a separator for fio, so a symbolic link replaces the path. The
        // link is to the parent, because fio does not accept a link as the directory.
        let link = self.tools.scratch.join("state");
        let _ = std::fs::remove_file(&link);
        let (parent, name) = (folder.parent(), folder.file_name());
        let (parent, name) = parent.zip(name).expect("the directory is below a mount point");
        std::os::unix::fs::symlink(parent, &link).map_err(system(&link))?;
        let variables = [
            ("STATE".to_owned(), link.join(name).display().to_string()),
            ("SEED".to_owned(), seed.to_string()),
        ];
        let invocation = FioRun {
            text,
            sections: &[],
            variables: &variables,
            scratch: self.tools.scratch,
            timeout: fill_timeout(volume),
            memory_limit: self.tools.memory_limit,
            access: FioAccess::Files,
        };
        self.target.check_unchanged(&self.identity)?;
        let result = fio::run(self.tools.runner, &invocation);
        self.target.check_unchanged(&self.identity)?;
        let _ = std::fs::remove_file(&link);
        let (outcome, output) = result?;
        result::read_fill(&outcome, &output)
    }
}

/// Used and total bytes of the file system.
fn usage(below: &Path) -> Result<(u64, u64), BenchError> {
    let stat = rustix::fs::statvfs(below).map_err(|error| system(below)(error.into()))?;
    let unit = stat.f_frsize.max(1);
    let used = stat.f_blocks.saturating_sub(stat.f_bfree);
    Ok((used.saturating_mul(unit), stat.f_blocks.saturating_mul(unit)))
}

fn share_hundredths(used: u64, total: u64) -> u32 {
    let hundredths = u128::from(used) * 10_000 / u128::from(total.max(1));
    u32::try_from(hundredths).unwrap_or(10_000)
}

/// All files below a directory with their sizes in bytes, sorted by path.
fn files_in(folder: &Path) -> Result<Vec<(PathBuf, u64)>, BenchError> {
    let mut folders = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(system(&folder))? {
            let entry = entry.map_err(system(&folder))?;
            let metadata = entry.metadata().map_err(system(&entry.path()))?;
            match metadata.is_dir() {
                true => folders.push(entry.path()),
                false => files.push((entry.path(), metadata.len())),
            }
        }
    }
    // The order of a directory depends on the file system, but a seed must select the same files.
    files.sort();
    Ok(files)
}
