//! The state of a file system in which a workload is measured: how full it is, and how old.
//!
//! Filling writes files through the file system until the asked share of it is used: by bytes a
//! tenth of 16 KiB, three tenths of 256 KiB, the rest of 4 MiB, all three sorts at the same time,
//! so that they lie among one another. A round of ageing removes half of all files at random,
//! writes new ones into the holes until the share is reached again, and overwrites blocks of 4 KiB
//! at random places of what is there, an eighth of it by volume. Then everything is written back.
//!
//! Limits: this is a stated procedure, not a year of use; Geriatrix and the like go further. What
//! was reached is told by statvfs(3), which counts the file system's own blocks too.

use std::path::{Path, PathBuf};

use flashfit_device::random::Random;
use flashfit_host::Runner;
use flashfit_host::memory_limit::MemoryLimit;
use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::fio::{self, FioRun, system};
use crate::plan::fill_timeout;
use crate::result;
use crate::target::{TargetIdentity, WorkloadTarget};

/// The folder that holds the files, beside that of the workload.
const FOLDER: &str = "flashfit-state";
/// Fuller than this a workload has no room.
pub const MOST_FILL_HUNDREDTHS: u32 = 9_000;
/// More rounds than this are a slip of the pen.
pub const MOST_AGE_ROUNDS: u32 = 1_000;
/// Filled to this share when only ageing is asked for.
pub const FILL_OF_AGEING_HUNDREDTHS: u32 = 5_000;
/// The sorts of files: name, size in bytes, hundredths of what the sorts before left of the volume,
/// so that what does not fill a large file goes into smaller ones.
const SORTS: [(&str, u64, u64); 3] =
    [("large", 4 << 20, 60), ("middling", 256 << 10, 75), ("small", 16 << 10, 100)];
/// The part of the volume that a round overwrites.
const OVERWRITTEN_PART: u64 = 8;
const BLOCK_BYTES: u64 = 4096;
/// Sets these seeds apart from those of the workload.
const STATE_SEED: u64 = 0x57A7_E5EE_D000;
/// What all jobs share. The folder reaches them as a variable.
const COMMON: &str = "[global]\nioengine=psync\nfallocate=none\nrefill_buffers=1\nthread=1\n\
                      group_reporting=1\nrandseed=${SEED}\n";
const TARGET: &str = "${STATE}";

/// What the file system holds when a workload begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartingState {
    /// The used share of the file system, in hundredths of a percent; 0 for an empty one.
    pub fill_hundredths: u32,
    /// Rounds of ageing.
    pub age_rounds: u32,
}

/// What was reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateReached {
    /// The used share as the file system tells it, in hundredths of a percent.
    pub used_hundredths: u32,
    /// Files that lie there.
    pub files: u64,
    /// Rounds of ageing that were made.
    pub age_rounds: u32,
    /// Bytes that were written to files for it.
    pub written_bytes: u64,
}

impl StartingState {
    /// Whether the file system is empty when a workload begins.
    pub fn is_fresh(&self) -> bool {
        self.fill_hundredths == 0 && self.age_rounds == 0
    }
}

impl std::fmt::Display for StartingState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_fresh() {
            return f.write_str("empty");
        }
        write!(f, "filled to {} %", self.fill_hundredths / 100)?;
        if self.age_rounds > 0 {
            write!(f, ", aged by {} rounds", self.age_rounds)?;
        }
        Ok(())
    }
}

/// With what the state is brought about.
#[derive(Clone, Copy)]
pub struct StateTools<'a> {
    /// Runs fio.
    pub runner: &'a dyn Runner,
    /// For job files and results, on no account on the device.
    pub scratch: &'a Path,
    /// The memory that fio may use, page cache included.
    pub memory_limit: Option<&'a MemoryLimit>,
    /// The seed of sizes, contents and places.
    pub seed: u64,
}

/// Brings the state about in a mounted file system, and writes it back.
///
/// # Errors
/// As [`crate::run_workload`]; [`BenchError::Full`] when the files do not fit.
pub fn bring_about(
    state: StartingState,
    target: WorkloadTarget<'_>,
    tools: StateTools<'_>,
) -> Result<StateReached, BenchError> {
    let was = target.look()?;
    // fio looks for what is not absolute in its own folder for leftovers.
    let scratch = tools.scratch.canonicalize().map_err(system(tools.scratch))?;
    let tools = StateTools { scratch: &scratch, ..tools };
    let folder = was.path.join(FOLDER);
    std::fs::create_dir(&folder).map_err(system(&folder))?;
    let mut making = Making { tools, target, was, folder, written_bytes: 0, calls: 0 };
    let (used, whole) = making.room()?;
    let wanted = whole / 10_000 * u64::from(state.fill_hundredths);
    let volume = wanted.saturating_sub(used);
    making.write_files(volume)?;
    for _ in 0..state.age_rounds {
        making.remove_half()?;
        let (used, _) = making.room()?;
        making.write_files(wanted.saturating_sub(used))?;
        making.overwrite()?;
    }
    making.write_back()?;
    let (used, whole) = making.room()?;
    let used_hundredths = u128::from(used) * 10_000 / u128::from(whole.max(1));
    Ok(StateReached {
        used_hundredths: u32::try_from(used_hundredths).unwrap_or(10_000),
        files: files_in(&making.folder)?.len() as u64,
        age_rounds: state.age_rounds,
        written_bytes: making.written_bytes,
    })
}

struct Making<'a> {
    tools: StateTools<'a>,
    target: WorkloadTarget<'a>,
    was: TargetIdentity,
    folder: PathBuf,
    written_bytes: u64,
    /// Sets the seeds and the folders of fio's runs apart.
    calls: u64,
}

impl Making<'_> {
    /// Used bytes and all bytes of the file system.
    fn room(&self) -> Result<(u64, u64), BenchError> {
        let found = rustix::fs::statvfs(&self.folder)
            .map_err(|error| system(&self.folder)(error.into()))?;
        let unit = found.f_frsize.max(1);
        let used = found.f_blocks.saturating_sub(found.f_bfree);
        Ok((used.saturating_mul(unit), found.f_blocks.saturating_mul(unit)))
    }

    /// Writes files of all sorts, about `volume` bytes of them.
    fn write_files(&mut self, volume: u64) -> Result<(), BenchError> {
        let mut left = volume;
        let mut jobs: Vec<(&str, u64, u64)> = Vec::new();
        for (name, bytes, hundredths) in SORTS {
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

    /// Removes half of all files at random.
    fn remove_half(&mut self) -> Result<(), BenchError> {
        let mut files = files_in(&self.folder)?;
        Random::new(self.tools.seed ^ self.calls).shuffle(&mut files);
        for (path, _) in files.iter().take(files.len() / 2) {
            std::fs::remove_file(path).map_err(system(path))?;
        }
        // Otherwise the new files would be put beside the old ones instead of into the holes.
        self.write_back()
    }

    /// Overwrites blocks at random places.
    fn overwrite(&mut self) -> Result<(), BenchError> {
        let volume: u64 = files_in(&self.folder)?.iter().map(|(_, bytes)| bytes).sum();
        let amount = volume / OVERWRITTEN_PART / BLOCK_BYTES * BLOCK_BYTES;
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
        rustix::fs::syncfs(&open).map_err(|error| BenchError::Medium {
            message: format!("writing back: {}", std::io::Error::from(error)),
        })
    }

    /// Runs jobs that name `folder` as their target.
    fn fio(&mut self, text: &str, folder: &Path, volume: u64) -> Result<(), BenchError> {
        let seed = Random::new(self.tools.seed ^ STATE_SEED ^ self.calls).next_u64() >> 1;
        self.calls += 1;
        // fio takes `:` in a directory's name for a separator; a link needs no quoting, but fio
        // takes none for the directory itself.
        let link = self.tools.scratch.join("state");
        let _ = std::fs::remove_file(&link);
        let (above, name) = (folder.parent(), folder.file_name());
        let (above, name) = above.zip(name).expect("the folder was made below a mount point");
        std::os::unix::fs::symlink(above, &link).map_err(system(&link))?;
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
            bare_device: false,
        };
        self.target.is_still(&self.was)?;
        let ended = fio::run(self.tools.runner, &invocation);
        self.target.is_still(&self.was)?;
        let _ = std::fs::remove_file(&link);
        let (outcome, output) = ended?;
        result::read_fill(&outcome, &output)
    }
}

/// All files below a folder with their sizes in bytes, in the order of their names.
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
    // A folder's own order is the file system's; the same seed is to remove the same files.
    files.sort();
    Ok(files)
}
