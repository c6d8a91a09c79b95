//! How a file system was used between mkfs and a workload, drawn at random for every trial.
//!
//! A file system that is measured right after mkfs is in one particular state: where its journal
//! and its allocator state decides which erase blocks the first writes hit. On one card ext4 is
//! nearly twice as fast in that state as after a remount, a sync or seven idle seconds. Trials that
//! all start there repeat well and mislead. So each trial draws whether small files were written
//! and synced before, how many and how large, whether the file system was mounted again, and how
//! long the device was idle. Setups that are compared share the draw; what it changes counts as
//! noise.
//!
//! Limits: minutes of use, not months; [`crate::state`] fills and ages.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;

use flashfit_device::random::Random;
use flashfit_host::Runner;
use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::fio::system;
use crate::target::WorkloadTarget;

const FOLDER: &str = "flashfit-start";
/// Sets this draw apart from the other uses of a trial's seed.
const SEED: u64 = 0x0057_A127_5EED;
const MOST_FILES_LOG2: u32 = 6;
const LEAST_FILE_BYTES: u64 = 4096;
const MOST_FILE_BYTES_LOG2: u32 = 8;
/// A draw writes at most this share of the free space.
const SHARE_OF_FREE: u64 = 50;
pub const MOST_IDLE_MS: u64 = 8_000;

/// What happened between mkfs and the workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartVariation {
    /// Files that were written, each with an fsync.
    pub files: u32,
    pub file_bytes: u64,
    /// Whether every other file was removed again.
    pub removed_half: bool,
    pub remounted: bool,
    pub idle_ms: u64,
}

impl StartVariation {
    /// The draw of a trial. The device idles no longer than the workload may run.
    pub fn draw(trial_seed: u64, free_bytes: u64, runtime_ns: u64) -> Self {
        let mut random = Random::new(trial_seed ^ SEED);
        let mut below = |bound: u64| random.next_u64() % bound;
        let files = match below(4) {
            0 => 0,
            _ => 1_u64 << below(u64::from(MOST_FILES_LOG2) + 1),
        };
        let file_bytes = LEAST_FILE_BYTES << below(u64::from(MOST_FILE_BYTES_LOG2) + 1);
        let file_bytes = file_bytes.min(free_bytes / SHARE_OF_FREE / files.max(1));
        let removed_half = below(2) == 0;
        let remounted = below(2) == 0;
        let most_idle_ms = MOST_IDLE_MS.min(runtime_ns / 1_000_000);
        let idle_ms = if below(2) == 0 { 0 } else { below(most_idle_ms + 1) };
        let files = if file_bytes < LEAST_FILE_BYTES { 0 } else { files };
        Self {
            files: u32::try_from(files).expect("at most 64"),
            file_bytes: if files == 0 { 0 } else { file_bytes },
            removed_half: removed_half && files > 1,
            remounted,
            idle_ms,
        }
    }

    pub fn written_bytes(&self) -> u64 {
        u64::from(self.files) * self.file_bytes
    }

    /// Writes the files to `target`, which stays open meanwhile: if its file system is unmounted,
    /// nothing goes to the directory below.
    ///
    /// # Errors
    /// [`BenchError::TargetVanished`], and what the file system returns.
    pub fn write_files(
        &self,
        target: WorkloadTarget<'_>,
        trial_seed: u64,
    ) -> Result<(), BenchError> {
        if self.files == 0 {
            return Ok(());
        }
        let identity = target.identify()?;
        let root = File::open(target.path()).map_err(system(target.path()))?;
        let opened = root.metadata().map_err(system(target.path()))?;
        if !identity.is_of(&opened) {
            return Err(BenchError::TargetVanished { path: target.path().to_owned() });
        }
        let folder = PathBuf::from(format!("/proc/self/fd/{}/{FOLDER}", root.as_raw_fd()));
        std::fs::create_dir(&folder).map_err(system(&folder))?;
        let mut random = Random::new(trial_seed ^ SEED.rotate_left(1));
        let bytes = usize::try_from(self.file_bytes).expect("at most a MiB");
        for number in 0..self.files {
            let path = folder.join(number.to_string());
            // Compressible data would make a compressing file system write less than it does later.
            let data: Vec<u8> = std::iter::repeat_with(|| random.next_u64().to_le_bytes())
                .flatten()
                .take(bytes)
                .collect();
            let mut file = File::create_new(&path).map_err(system(&path))?;
            file.write_all(&data).and_then(|()| file.sync_all()).map_err(system(&path))?;
        }
        if self.removed_half {
            for number in (0..self.files).step_by(2) {
                let path = folder.join(number.to_string());
                std::fs::remove_file(&path).map_err(system(&path))?;
            }
        }
        Ok(())
    }

    /// Waits as long as the device is to be idle.
    ///
    /// # Errors
    /// When the user interrupts.
    pub fn idle(&self, runner: &dyn Runner) -> Result<(), BenchError> {
        Ok(runner.wait(Duration::from_millis(self.idle_ms))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn draws(free_bytes: u64) -> Vec<StartVariation> {
        (0..2_000).map(|seed| StartVariation::draw(seed, free_bytes, 60_000_000_000)).collect()
    }

    #[test]
    fn a_seed_gives_the_same_start_again() {
        assert_eq!(draws(GIB), draws(GIB));
    }

    #[test]
    fn starts_differ_in_every_respect() {
        let draws = draws(GIB);
        let share = |what: fn(&StartVariation) -> bool| {
            draws.iter().filter(|draw| what(draw)).count() * 100 / draws.len()
        };
        assert!((20..30).contains(&share(|draw| draw.files == 0)));
        assert!((45..55).contains(&share(|draw| draw.remounted)));
        assert!((45..55).contains(&share(|draw| draw.idle_ms == 0)));
        assert!((3..10).contains(&share(|draw| draw.idle_ms > 7_000)));
        assert!(draws.iter().any(|draw| draw.files == 64 && draw.file_bytes > 256 << 10));
    }

    #[test]
    fn little_room_and_time_are_respected() {
        for draw in draws(8 << 20) {
            assert!(draw.written_bytes() <= (8 << 20) / SHARE_OF_FREE, "{draw:?}");
        }
        let draw = |seed| StartVariation::draw(seed, GIB, 200_000_000);
        assert!((0..500).all(|seed| draw(seed).idle_ms <= 200));
    }

    #[test]
    fn files_are_written_and_half_of_them_removed() {
        let folder = tempfile::tempdir().unwrap();
        let start = StartVariation {
            files: 5,
            file_bytes: 5_000,
            removed_half: true,
            ..Default::default()
        };
        start.write_files(WorkloadTarget::Directory(folder.path()), 1).unwrap();
        let left = std::fs::read_dir(folder.path().join(FOLDER)).unwrap();
        let sizes: Vec<u64> = left.map(|file| file.unwrap().metadata().unwrap().len()).collect();
        assert_eq!(sizes, [5_000, 5_000]);
    }
}
