//! A published finding as a file of `catalog/findings/` has it.

use std::path::Path;

use serde::Deserialize;

/// What somebody published, and how it is tried here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    pub title: String,
    pub source: String,
    pub claim: String,
    /// What is measured here, and its unit.
    pub measured: String,
    pub card: String,
    pub expect: Expectation,
    /// Why it comes out or not, for the reader.
    pub note: Option<String>,
    /// What is compared, in order; the first is what the others are relative to.
    #[serde(rename = "case")]
    pub cases: Vec<Case>,
}

/// When a finding is reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum Expectation {
    /// Each case with a published figure is as many times as fast as the first one as was
    /// published, within a factor of [`BAND`].
    Ratios,
    /// Each case is faster than the one before, the last so many times as fast as the first.
    Growth { least_ratio: u64 },
    /// A case in the middle is less than half as fast as the first, and the last is not.
    Dip,
    /// The first is the rate of sequential writes: the others are at least half of it.
    Level,
    /// The fastest case is this many percent faster than the slowest, within a factor of [`BAND`].
    Spread { percent: u64 },
}

/// How far a ratio may be from the published one, as a factor.
pub const BAND: f64 = 2.0;

/// A file system on a partition, and work on it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub label: String,
    /// Where the partition starts, in sectors of 512 bytes; 0 for the whole device.
    pub start_sector: u64,
    /// The program that makes the file system, and its arguments before the node.
    pub mkfs: Vec<String>,
    #[serde(default)]
    pub mount: Vec<String>,
    /// The I/O scheduler; without, that of the kernel.
    pub scheduler: Option<String>,
    pub work: Work,
    /// Their figure, in the unit of `measured`, or in any other of theirs that counts the same.
    pub published: Option<f64>,
}

/// What is done on the file system.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Work {
    /// Empty files are created one after the other, without a sync. Counted in files.
    CreateFiles { count: u64 },
    /// Such files are deleted in the same order. Counted in files.
    DeleteFiles { count: u64 },
    /// Files are written in pieces of 16 KiB, with a sync of everything after each. Counted in kB.
    FilesAndSync { count: u64, bytes: u64 },
    /// One file is written piece by piece, then everything is synced. Counted in kB.
    LargeFileAndSync { count: u64, bytes: u64 },
    /// One file is written piece by piece. Counted in kB.
    LargeFile { count: u64, bytes: u64 },
    /// Pieces of one file that is there are written over in random order, past the page cache.
    /// Counted in kB.
    RandomDirectWrites { count: u64, bytes: u64 },
    /// The same in ascending order.
    LinearDirectWrites { count: u64, bytes: u64 },
    /// A hundred of `count` small files in folders are read with a cold cache. Counted in files.
    ReadTree { count: u64, image: Option<Image> },
    /// A workload of the catalog, at its first point. Counted in kB, read and written.
    Workload { name: String },
}

/// The tree is packed into a squashfs with a writable layer above it; both lie on the file system.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    pub block: String,
    pub compressor: String,
}

impl Finding {
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Case {
    /// The type to mount, which is the ending of the program that makes it.
    pub fn filesystem(&self) -> &str {
        self.mkfs[0].trim_start_matches("mkfs.")
    }
}
