//! How a file system was used between mkfs and a workload, drawn at random for every trial.
//!
//! A file system that is measured right after mkfs is in one particular state: where its journal
//! and its allocator state decides which erase blocks the first writes hit. On one card ext4 is
//! nearly twice as fast in that state as after a remount, a sync or seven idle seconds. Trials that
//! all start there repeat well and mislead. So each trial has a kind of start from `catalog/starts`
//! and draws within it whether files were written and synced before, how many and how large,
//! whether the file system was mounted again, and how long the device was idle.
//!
//! Limits: seconds of use, not months; [`crate::state`] fills and ages. Writing ends after
//! [`most_writing`], so on a slow device the amount depends on its speed; the record has what was
//! written.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flashfit_device::random::Random;
use flashfit_host::Runner;
use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::fio::system;
use crate::start_kind::{Span, StartKind};
use crate::target::WorkloadTarget;

const FOLDER: &str = "flashfit-start";
/// Sets this draw apart from the other uses of a trial's seed.
const SEED: u64 = 0x0057_A127_5EED;
pub(crate) const LEAST_FILE_BYTES: u64 = 4096;
/// A file is removed after so many others were written, so that holes are filled again.
const REMOVED_LATER: u32 = 8;
/// A draw writes at most this share of the free space.
const SHARE_OF_FREE: u64 = 16;

/// What mkfs leaves to the kernel: some file systems write inode tables in the minutes after the
/// first mount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MkfsMode {
    /// It is left out, by settings that only trials use.
    #[default]
    Quiet,
    /// As the user will make it, so the kernel works in the background.
    Plain,
    /// mkfs does all of it: the file system is as it will be some minutes later.
    Settled,
}

impl MkfsMode {
    pub fn is_quiet(&self) -> bool {
        *self == Self::Quiet
    }
}

/// What happened between mkfs and the workload: as drawn, or in a record as it was done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartVariation {
    /// The name of its kind; earlier records have none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// How the file system was made; in earlier records always without work in the background.
    #[serde(default, skip_serializing_if = "MkfsMode::is_quiet")]
    pub made: MkfsMode,
    /// Files that were written.
    pub files: u32,
    /// The size of the largest; each draws its own. In earlier records, that of all.
    pub file_bytes: u64,
    /// An fsync after every so many files; 0 for none. Earlier records synced every file.
    #[serde(default = "every_file")]
    pub sync_every: u32,
    /// What was written in total, once it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Whether every other file was removed again.
    pub removed_half: bool,
    pub remounted: bool,
    pub idle_ms: u64,
}

fn every_file() -> u32 {
    1
}

/// How long a trial may write before a workload that runs so long.
pub fn most_writing(runtime_ns: u64) -> Duration {
    Duration::from_nanos(runtime_ns.saturating_mul(3).clamp(1_000_000_000, 8_000_000_000))
}

impl StartVariation {
    /// Draws a start of this kind. The device idles no longer than the workload may run.
    pub fn draw(kind: &StartKind, seed: u64, runtime_ns: u64) -> Self {
        let mut random = Random::new(seed ^ SEED);
        let mut unit = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let files = kind.files.logarithmic(unit());
        let file_bytes = kind
            .file_size
            .map_or(0, |span| Span { least: span.least.0, most: span.most.0 }.logarithmic(unit()));
        let mut chance = |percent: u8| unit() * 100.0 < f64::from(percent);
        let (removed, remounted) = (chance(kind.removed_percent), chance(kind.remounted_percent));
        let made = match unit() * 100.0 {
            place if place < f64::from(kind.settled_percent) => MkfsMode::Settled,
            place if place < f64::from(kind.settled_percent) + f64::from(kind.plain_percent) => {
                MkfsMode::Plain
            }
            _ => MkfsMode::Quiet,
        };
        let idle_ms = kind.idle_ms.linear(unit()).min(runtime_ns / 1_000_000);
        let files = if file_bytes < LEAST_FILE_BYTES { 0 } else { files };
        Self {
            kind: kind.name.clone(),
            made,
            files,
            file_bytes: if files == 0 { 0 } else { file_bytes },
            sync_every: kind.sync_every,
            written_bytes: None,
            removed_half: removed && files > 1,
            remounted,
            idle_ms,
        }
    }

    /// Writes the files to `target`, which stays open meanwhile: if its file system is unmounted,
    /// nothing goes to the directory below. Returns what was done: less than was drawn if there is
    /// too little free space or time.
    ///
    /// # Errors
    /// [`BenchError::TargetVanished`], and what the file system returns.
    pub fn write_files(
        self,
        target: WorkloadTarget<'_>,
        seed: u64,
        free_bytes: u64,
        most: Duration,
    ) -> Result<Self, BenchError> {
        if self.files == 0 {
            return Ok(self);
        }
        let identity = target.identify()?;
        let root = File::open(target.path()).map_err(system(target.path()))?;
        let opened = root.metadata().map_err(system(target.path()))?;
        if !identity.is_of(&opened) {
            return Err(BenchError::TargetVanished { path: target.path().to_owned() });
        }
        let folder = PathBuf::from(format!("/proc/self/fd/{}/{FOLDER}", root.as_raw_fd()));
        std::fs::create_dir(&folder).map_err(system(&folder))?;
        let mut random = Random::new(seed ^ SEED.rotate_left(1));
        let most_bytes = free_bytes / SHARE_OF_FREE;
        let began = Instant::now();
        let (mut files, mut written) = (0, 0);
        while files < self.files && began.elapsed() < most {
            let bytes = self.size_of_next(&mut random);
            if written + bytes > most_bytes {
                break;
            }
            let is_synced = self.sync_every > 0 && (files + 1) % self.sync_every == 0;
            write_file(&folder.join(files.to_string()), bytes, is_synced, &mut random)?;
            written += bytes;
            files += 1;
            if self.removed_half && files > REMOVED_LATER {
                remove_if_even(&folder, files - 1 - REMOVED_LATER)?;
            }
        }
        if self.removed_half {
            for number in files.saturating_sub(REMOVED_LATER)..files {
                remove_if_even(&folder, number)?;
            }
        }
        Ok(Self { files, written_bytes: Some(written), ..self })
    }

    /// The size of a file: any multiple of 4 KiB by halving the largest some times.
    fn size_of_next(&self, random: &mut Random) -> u64 {
        let halvings = (self.file_bytes / LEAST_FILE_BYTES).max(1).ilog2() + 1;
        let size = self.file_bytes >> (random.next_u64() % u64::from(halvings));
        (size / LEAST_FILE_BYTES * LEAST_FILE_BYTES).max(LEAST_FILE_BYTES)
    }

    /// Waits as long as the device is to be idle.
    ///
    /// # Errors
    /// When the user interrupts.
    pub fn idle(&self, runner: &dyn Runner) -> Result<(), BenchError> {
        Ok(runner.wait(Duration::from_millis(self.idle_ms))?)
    }
}

fn remove_if_even(folder: &Path, number: u32) -> Result<(), BenchError> {
    let path = folder.join(number.to_string());
    if number % 2 == 0 { std::fs::remove_file(&path).map_err(system(&path)) } else { Ok(()) }
}

fn write_file(
    path: &Path,
    bytes: u64,
    is_synced: bool,
    random: &mut Random,
) -> Result<(), BenchError> {
    let bytes = usize::try_from(bytes).expect("at most some MiB");
    // Compressible data would make a compressing file system write less than it does later.
    let words = std::iter::repeat_with(|| random.next_u64().to_le_bytes());
    let data: Vec<u8> = words.flatten().take(bytes).collect();
    let mut file = File::create_new(path).map_err(system(path))?;
    file.write_all(&data).map_err(system(path))?;
    if is_synced { file.sync_all().map_err(system(path)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start_kind;

    const GIB: u64 = 1 << 30;

    fn draws(kind: &StartKind) -> Vec<StartVariation> {
        (0..500).map(|seed| StartVariation::draw(kind, seed, 60_000_000_000)).collect()
    }

    #[test]
    fn a_seed_gives_the_same_start_again_and_seeds_differ() {
        let kinds = start_kind::load(None).unwrap();
        for kind in kinds.iter().filter(|kind| kind.files.most > 0) {
            assert_eq!(draws(kind), draws(kind));
            let files: std::collections::BTreeSet<u32> =
                draws(kind).iter().map(|draw| draw.files).collect();
            assert!(files.len() > 4, "{}: {files:?}", kind.name);
            assert!(draws(kind).iter().all(|draw| draw.files <= kind.files.most));
        }
    }

    #[test]
    fn a_new_file_system_stays_as_it_is() {
        let kinds = start_kind::load(None).unwrap();
        let draw = StartVariation::draw(&kinds[0], 7, GIB);
        let (kind, made) = ("1-new".to_owned(), MkfsMode::Plain);
        assert_eq!(draw, StartVariation { kind, made, ..Default::default() });
    }

    #[test]
    fn the_device_idles_no_longer_than_the_workload_may_run() {
        let kinds = start_kind::load(None).unwrap();
        let idle = |seed, kind| StartVariation::draw(kind, seed, 200_000_000).idle_ms;
        assert!(kinds.iter().all(|kind| (0..300).all(|seed| idle(seed, kind) <= 200)));
        let kind = kinds.iter().find(|kind| kind.idle_ms.most > 0).expect("one idles");
        assert!(draws(kind).iter().any(|draw| draw.idle_ms > 1_000));
    }

    fn written(free_bytes: u64, most: Duration) -> (StartVariation, Vec<u64>) {
        let folder = tempfile::tempdir().unwrap();
        let start = StartVariation {
            files: 20,
            file_bytes: 64 << 10,
            sync_every: 8,
            removed_half: true,
            ..Default::default()
        };
        let target = WorkloadTarget::Directory(folder.path());
        let done = start.write_files(target, 1, free_bytes, most).unwrap();
        let left = std::fs::read_dir(folder.path().join(FOLDER)).unwrap();
        (done, left.map(|file| file.unwrap().metadata().unwrap().len()).collect())
    }

    #[test]
    fn files_of_mixed_sizes_are_written_and_half_of_them_removed() {
        let (done, mut left) = written(GIB, Duration::from_secs(60));
        assert_eq!((done.files, left.len()), (20, 10));
        left.sort_unstable();
        left.dedup();
        assert!(left.len() > 1 && left.iter().all(|bytes| *bytes <= 64 << 10), "{left:?}");
        assert!(done.written_bytes.unwrap() >= 20 * 4096);
    }

    #[test]
    fn little_space_and_time_are_respected() {
        let (done, left) = written(16 * (100 << 10), Duration::from_secs(60));
        assert!(done.files < 20 && done.written_bytes.unwrap() <= 100 << 10, "{done:?}");
        assert_eq!(left.len() as u32, done.files / 2);
        assert_eq!(written(GIB, Duration::ZERO).0.files, 0);
    }
}
