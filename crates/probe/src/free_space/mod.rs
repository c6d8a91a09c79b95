//! Tests the capacity of a device without losing data: the free space of its mounted file systems
//! is filled with files that contain their own position, which are read back, compared and
//! removed.
//!
//! All files are written before the first is read, so that a small cache of the device no longer
//! holds what is compared, and reads bypass the page cache. A margin stays free for other
//! programs. Limits: only free space is tested; where the file system puts a file, and so which
//! addresses fail, is not known; writing to a fake device can damage files on it, as any use does;
//! a file system that stores copies or compresses uses more or less flash than it is asked for.

mod compare;
mod content;
mod error;
mod folder;
mod volume;

use std::time::Instant;

use flashfit_device::Device;
use flashfit_geometry::probed::ProbeObserver;
use schemars::JsonSchema;
use serde::Serialize;

use compare::WrongBlocks;
pub use compare::WrongContent;
pub(crate) use content::run_number;
pub use error::FreeSpaceError;
pub use folder::TEST_FOLDER;
use volume::{MountedFileSystem, Progress};

/// Bytes of a file: less than the 4 GiB that FAT allows.
const FILE_BYTES: u64 = 256 << 20;

/// A test that is planned, with the directories open that it writes to.
#[derive(Debug)]
pub struct FreeSpaceTest {
    volumes: Vec<MountedFileSystem>,
    capacity_bytes: u64,
    /// Mounted file systems that cannot be tested, with the reason.
    skipped: Vec<String>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FreeSpaceResult {
    /// `as-written`, `wrong`, or `incomplete` if nothing is wrong with what was compared before the
    /// test failed or was interrupted.
    pub verdict: FreeSpaceVerdict,
    pub capacity_bytes: u64,
    /// What was written and compared.
    pub tested_bytes: u64,
    pub written_bytes: u64,
    /// What did not contain what was written.
    pub wrong_bytes: u64,
    /// The first of it, of the most frequent kind.
    pub wrong: Option<WrongContent>,
    pub volumes: Vec<VolumeResult>,
    /// Mounted file systems that were not tested, with the reason.
    pub skipped: Vec<String>,
    pub elapsed_ns: u64,
    pub interrupted: bool,
    /// Why the test ended early: the device or the file system failed.
    pub failure: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FreeSpaceVerdict {
    AsWritten,
    Wrong,
    Incomplete,
}

/// The result of one file system.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize)]
pub struct VolumeResult {
    pub mounted_on: String,
    pub kind: String,
    pub size_bytes: u64,
    /// What was left free.
    pub margin_bytes: u64,
    pub written_bytes: u64,
    pub tested_bytes: u64,
    pub wrong_bytes: u64,
    /// Files of a test that was killed, which were removed before this one.
    pub leftover_files_removed: usize,
    /// The directory that could not be removed.
    pub not_removed: Option<String>,
    #[serde(skip)]
    wrong: WrongBlocks,
}

impl FreeSpaceTest {
    /// Looks for the mounted file systems of a device. Writes nothing.
    ///
    /// # Errors
    /// If no file system of the device can be written to.
    pub fn look(device: &Device) -> Result<Self, FreeSpaceError> {
        let (volumes, skipped) = volume::of_device(device)?;
        Ok(Self { volumes, capacity_bytes: device.capacity.0, skipped })
    }

    /// What would be written, as long as nobody else writes.
    pub fn planned_bytes(&self) -> u64 {
        self.volumes.iter().map(|volume| volume.planned_bytes).sum()
    }

    /// Where it is written, with the bytes.
    pub fn places(&self) -> impl Iterator<Item = (String, u64)> {
        self.volumes.iter().map(|volume| (volume.shown(), volume.planned_bytes))
    }

    /// Mounted file systems that cannot be tested, with the reason.
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }

    /// Runs the test. All files are removed at its end, also if it fails or is interrupted.
    ///
    /// # Errors
    /// If a test of the same file system is under way, or its directory cannot be made.
    pub fn run(
        self,
        seed: u64,
        observer: &mut dyn ProbeObserver,
    ) -> Result<FreeSpaceResult, FreeSpaceError> {
        let began = Instant::now();
        let mut progress = Progress::new(self.planned_bytes(), observer);
        let mut volumes = Vec::new();
        let mut failure = None;
        for (volume, number) in self.volumes.iter().zip(0..) {
            let mut result = VolumeResult {
                mounted_on: volume.shown(),
                kind: volume.kind.clone(),
                size_bytes: volume.size_bytes,
                margin_bytes: volume.margin_bytes,
                ..VolumeResult::default()
            };
            let tested = volume.test(content::run_number(seed, number), &mut progress, &mut result);
            volumes.push(result);
            match tested {
                Ok(()) => {}
                Err(error) if volumes.len() == 1 && error.is_refusal() => return Err(error),
                Err(error) => failure = Some(error),
            }
            if failure.is_some() {
                break;
            }
        }
        let interrupted = matches!(failure, Some(FreeSpaceError::Interrupted));
        let sum = |bytes: fn(&VolumeResult) -> u64| volumes.iter().map(bytes).sum();
        let wrong_bytes = sum(|volume| volume.wrong_bytes);
        Ok(FreeSpaceResult {
            verdict: match (wrong_bytes, &failure) {
                (1.., _) => FreeSpaceVerdict::Wrong,
                (0, None) => FreeSpaceVerdict::AsWritten,
                (0, Some(_)) => FreeSpaceVerdict::Incomplete,
            },
            capacity_bytes: self.capacity_bytes,
            tested_bytes: sum(|volume| volume.tested_bytes),
            written_bytes: sum(|volume| volume.written_bytes),
            wrong_bytes,
            wrong: volumes.iter().find_map(|volume| volume.wrong.typical()).cloned(),
            volumes,
            skipped: self.skipped,
            elapsed_ns: u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            interrupted,
            failure: failure.filter(|_| !interrupted).map(|error| error.to_string()),
        })
    }
}
