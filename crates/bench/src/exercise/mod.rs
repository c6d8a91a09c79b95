//! Uses a file system the way a product does for as long as it lives, to record what a card is then
//! asked to write.
//!
//! Unlike a fio job, an exercise has no end: files are rotated, replaced and removed, and the same
//! seed gives the same calls. There are four kinds:
//!
//! - `database`: a SQLite-like database in write-ahead-log mode. A transaction changes one to four
//!   pages of 4 KiB, nine out of ten in the first fifth of the file, and is synced; after 1000
//!   pages the log is copied into the database.
//! - `logs`: four log files; lines are appended and synced together every 4 KiB. A file is
//!   rotated at 4 MiB, and eight old ones are kept.
//! - `small-files`: settings, caches and packages. Files of 1 to 64 KiB are replaced by renaming a
//!   synced new one; each tenth time, one is removed and another created without a sync.
//! - `recording`: segments of 16 MiB are written in order and synced; the oldest is removed when a
//!   ring is full.
//!
//! What counts as written is what the calls to write(2) contain. Limits: the calls follow each
//! other without the pauses of real use, so what a kernel would write back after a pause is only
//! written when it is synced, displaced or removed. Source: SQLite, "Write-Ahead Logging"
//! (<https://sqlite.org/wal.html>, a checkpoint after 1000 pages).

mod files;
mod kinds;

use std::path::Path;

use flashfit_device::random::Random;
use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use files::Folder;

/// The directory of the files, on the mounted file system.
const FOLDER: &str = "flashfit-exercise";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExerciseKind {
    Database,
    Logs,
    SmallFiles,
    Recording,
}

impl ExerciseKind {
    pub const ALL: [Self; 4] = [Self::Database, Self::Logs, Self::SmallFiles, Self::Recording];

    pub fn name(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Logs => "logs",
            Self::SmallFiles => "small-files",
            Self::Recording => "recording",
        }
    }
}

impl std::fmt::Display for ExerciseKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for ExerciseKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("unknown exercise `{text}`; expected {}", known.join(", "))
        })
    }
}

/// How much of which exercise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exercise {
    pub kind: ExerciseKind,
    /// Bytes to write after the preparation.
    pub written_bytes: u64,
    /// Approximate size of the files that are used.
    pub data_bytes: u64,
    pub seed: u64,
}

/// The files of an exercise, ready to be used.
#[derive(Debug)]
pub struct PreparedExercise {
    exercise: Exercise,
    state: kinds::State,
    folder: Folder,
    random: Random,
}

impl PreparedExercise {
    /// Creates what exists before the exercise, in the file system mounted at `mount_point`.
    ///
    /// # Errors
    /// [`BenchError`] of the file system.
    pub fn new(exercise: Exercise, mount_point: &Path) -> Result<Self, BenchError> {
        let mut folder = Folder::create(&mount_point.join(FOLDER))?;
        let mut random = Random::new(exercise.seed);
        let state = kinds::State::prepare(&exercise, &mut folder, &mut random)?;
        folder.sync_all()?;
        Ok(Self { exercise, state, folder, random })
    }

    /// Runs it; returns the bytes that were written.
    ///
    /// # Errors
    /// [`BenchError`] of the file system.
    pub fn run(&mut self) -> Result<u64, BenchError> {
        let start = self.folder.written_bytes();
        while self.folder.written_bytes() - start < self.exercise.written_bytes {
            self.state.step(&mut self.folder, &mut self.random)?;
        }
        self.folder.sync_all()?;
        Ok(self.folder.written_bytes() - start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_writes_what_was_asked_and_stays_within_its_files() {
        for kind in ExerciseKind::ALL {
            let folder = tempfile::tempdir().unwrap();
            let exercise = Exercise { kind, written_bytes: 3 << 20, data_bytes: 2 << 20, seed: 1 };
            let mut prepared = PreparedExercise::new(exercise, folder.path()).unwrap();
            let written = prepared.run().unwrap();
            assert!((3 << 20..8 << 20).contains(&written), "{kind}: {written}");
            let used: u64 = std::fs::read_dir(folder.path().join(FOLDER))
                .unwrap()
                .map(|entry| entry.unwrap().metadata().unwrap().len())
                .sum();
            assert!(used <= 8 << 20, "{kind}: {used}");
            // Most small files are much smaller than the largest.
            assert!(used > 512 << 10, "{kind}: {used}");
        }
    }

    #[test]
    fn names_are_read_back() {
        for kind in ExerciseKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert!("databases".parse::<ExerciseKind>().unwrap_err().contains("small-files"));
    }
}
