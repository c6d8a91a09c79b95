//! The four kinds of exercise; what each does is described in the parent module.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;

use flashfit_device::random::Random;

use super::files::Folder;
use super::{Exercise, ExerciseKind};
use crate::error::BenchError;

const PAGE_BYTES: u64 = 4096;
/// A page and the head of its frame in a write-ahead log.
const FRAME_BYTES: u64 = PAGE_BYTES + 24;
const CHECKPOINT_PAGES: u64 = 1000;
const LOG_FILES: u64 = 4;
const LOG_FILE_BYTES: u64 = 4 << 20;
const OLD_LOGS: u64 = 8;
const SYNC_LOG_BYTES: u64 = 4096;
const SMALL_FILE_BYTES_MAX: u64 = 64 << 10;
const SEGMENT_BYTES: u64 = 16 << 20;

#[derive(Debug)]
pub enum State {
    Database(Database),
    Logs(Logs),
    SmallFiles(SmallFiles),
    Recording(SegmentRing),
}

impl State {
    pub fn prepare(
        exercise: &Exercise,
        folder: &mut Folder,
        random: &mut Random,
    ) -> Result<Self, BenchError> {
        let bytes = exercise.data_bytes;
        Ok(match exercise.kind {
            ExerciseKind::Database => Self::Database(Database::new(bytes, folder)?),
            ExerciseKind::Logs => Self::Logs(Logs::new(bytes, folder)?),
            ExerciseKind::SmallFiles => Self::SmallFiles(SmallFiles::new(bytes, folder, random)?),
            ExerciseKind::Recording => Self::Recording(SegmentRing::new(bytes)),
        })
    }

    pub fn step(&mut self, folder: &mut Folder, random: &mut Random) -> Result<(), BenchError> {
        match self {
            Self::Database(database) => database.step(folder, random),
            Self::Logs(logs) => logs.step(folder, random),
            Self::SmallFiles(files) => files.step(folder, random),
            Self::Recording(recording) => recording.step(folder),
        }
    }
}

#[derive(Debug)]
pub struct Database {
    file: File,
    log: File,
    pages: u64,
    /// Changed since the last checkpoint.
    changed: BTreeSet<u64>,
    frames: u64,
}

impl Database {
    fn new(bytes: u64, folder: &mut Folder) -> Result<Self, BenchError> {
        let pages = (bytes / PAGE_BYTES).max(CHECKPOINT_PAGES);
        let (file, log) = (folder.open("database")?, folder.open("database-wal")?);
        folder.append(&file, pages * PAGE_BYTES)?;
        Ok(Self { file, log, pages, changed: BTreeSet::new(), frames: 0 })
    }

    fn step(&mut self, folder: &mut Folder, random: &mut Random) -> Result<(), BenchError> {
        for _ in 0..=random.below(4) {
            let range = if random.below(10) == 0 { self.pages } else { self.pages / 5 };
            self.changed.insert(random.below(range));
            folder.write_at(&self.log, self.frames * FRAME_BYTES, FRAME_BYTES as usize)?;
            self.frames += 1;
        }
        folder.sync_data(&self.log)?;
        if self.frames >= CHECKPOINT_PAGES {
            for page in std::mem::take(&mut self.changed) {
                folder.write_at(&self.file, page * PAGE_BYTES, PAGE_BYTES as usize)?;
            }
            folder.sync_data(&self.file)?;
            self.frames = 0;
        }
        Ok(())
    }
}

#[derive(Debug)]
pub struct Logs {
    open: Vec<(File, u64)>,
    /// A file is rotated at this size.
    file_bytes: u64,
    rotated: u64,
    old: VecDeque<String>,
}

impl Logs {
    fn new(bytes: u64, folder: &Folder) -> Result<Self, BenchError> {
        let open = (0..LOG_FILES).map(|log| Ok((folder.open_to_append(&name_of(log))?, 0)));
        let file_bytes = LOG_FILE_BYTES.min(bytes / (OLD_LOGS + LOG_FILES)).max(SYNC_LOG_BYTES);
        let open = open.collect::<Result<_, BenchError>>()?;
        Ok(Self { open, file_bytes, rotated: 0, old: VecDeque::new() })
    }

    fn step(&mut self, folder: &mut Folder, random: &mut Random) -> Result<(), BenchError> {
        let log = random.below(LOG_FILES);
        let (file, bytes) = &mut self.open[log as usize];
        let mut appended = 0;
        while appended < SYNC_LOG_BYTES {
            let line = 60 + random.below(340);
            folder.append(file, line)?;
            appended += line;
        }
        folder.sync(file)?;
        *bytes += appended;
        if *bytes >= self.file_bytes {
            let old = format!("log-{log}.{}", self.rotated);
            self.rotated += 1;
            folder.rename(&name_of(log), &old)?;
            self.open[log as usize] = (folder.open_to_append(&name_of(log))?, 0);
            self.old.push_back(old);
            if self.old.len() as u64 > OLD_LOGS {
                folder.remove(&self.old.pop_front().unwrap_or_default())?;
            }
        }
        Ok(())
    }
}

fn name_of(log: u64) -> String {
    format!("log-{log}")
}

#[derive(Debug)]
pub struct SmallFiles {
    files: u64,
}

impl SmallFiles {
    fn new(bytes: u64, folder: &mut Folder, random: &mut Random) -> Result<Self, BenchError> {
        let files = (bytes / (SMALL_FILE_BYTES_MAX / 2)).max(8);
        for number in 0..files {
            let file = folder.open(&format!("file-{number}"))?;
            folder.append(&file, size(random))?;
        }
        Ok(Self { files })
    }

    fn step(&mut self, folder: &mut Folder, random: &mut Random) -> Result<(), BenchError> {
        let name = format!("file-{}", random.below(self.files));
        if random.below(10) == 0 {
            folder.remove(&name)?;
            let other = folder.open(&format!("file-{}", random.below(self.files)))?;
            return folder.write_at(&other, 0, size(random) as usize);
        }
        folder.remove("new")?;
        let file = folder.open("new")?;
        folder.append(&file, size(random))?;
        folder.sync(&file)?;
        folder.rename("new", &name)
    }
}

/// 1 to 64 KiB; small ones are more frequent.
fn size(random: &mut Random) -> u64 {
    let most = SMALL_FILE_BYTES_MAX >> random.below(6);
    1024 + random.below(most - 1023)
}

#[derive(Debug)]
pub struct SegmentRing {
    segments: u64,
    segment_bytes: u64,
    next: u64,
}

impl SegmentRing {
    fn new(bytes: u64) -> Self {
        let segment_bytes = SEGMENT_BYTES.min(bytes / 4).max(PAGE_BYTES);
        Self { segments: bytes / segment_bytes, segment_bytes, next: 0 }
    }

    fn step(&mut self, folder: &mut Folder) -> Result<(), BenchError> {
        if self.next >= self.segments {
            folder.remove(&format!("segment-{}", self.next - self.segments))?;
        }
        let file = folder.open(&format!("segment-{}", self.next))?;
        folder.append(&file, self.segment_bytes)?;
        self.next += 1;
        folder.sync(&file)
    }
}
