//! A published finding as a file of `catalog/findings/` has it, and whether it came out.

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
    /// The last case is to be so many times as fast as the first, in thousandths.
    pub least_ratio_thousandths: Option<u64>,
    /// A case in the middle is to be less than half as fast as the first, and the last is not.
    #[serde(default)]
    pub dip: bool,
    /// Why it comes out or not, for the reader.
    pub note: Option<String>,
    /// What is compared, in order.
    #[serde(rename = "case")]
    pub cases: Vec<Case>,
}

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
    pub work: Work,
    /// Files, or writes.
    pub count: u64,
    /// Bytes of each.
    pub bytes: u64,
    /// Their figure, in the same unit, where they tell one.
    pub published: Option<u64>,
}

/// What is done on the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Files are created one by one, each synced by itself. Counted in files.
    SyncedFiles,
    /// Files are written in pieces of 16 KiB, with a sync of the whole file system after each.
    /// Counted in kB.
    FilesAndSync,
    /// One file is written piece by piece. Counted in kB.
    LargeFile,
    /// Pieces of one file that is there are written over, past the page cache. Counted in kB.
    RandomDirectWrites,
}

impl Work {
    /// So many of `count` files or writes of `bytes`, in what the work is counted in, in
    /// thousandths.
    pub fn amount_thousandths(self, count: u64, bytes: u64) -> u64 {
        match self {
            Self::SyncedFiles => count * 1000,
            Self::FilesAndSync | Self::LargeFile | Self::RandomDirectWrites => count * bytes,
        }
    }
}

impl Finding {
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Whether rates like these, by case and in thousandths, are what was published.
    pub fn came_out(&self, rates: &[u64]) -> bool {
        let (Some(&first), Some(&last)) = (rates.first(), rates.last()) else { return false };
        let ratio = self
            .least_ratio_thousandths
            .is_none_or(|least| u128::from(last) * 1000 >= u128::from(first) * u128::from(least));
        let dip = !self.dip || (rates.iter().any(|&rate| rate < first / 2) && last >= first / 2);
        ratio && dip
    }
}
