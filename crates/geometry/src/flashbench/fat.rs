//! flashbench's find-FAT table: how fast each of the first allocation units is written.
//!
//! As `flashbench --find-fat` prints it: a row for each size of a write, a rate for each unit. The
//! unit is as large as the largest write.

use flashfit_device::Bytes;
use serde::{Deserialize, Serialize};

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FatRow {
    /// The size of a write.
    pub write: Bytes,
    /// By unit from the start of the device, in bytes a second.
    pub bytes_per_second: Vec<u64>,
}

/// One run's rows, the largest write first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FatTable {
    /// The rows that could be used.
    pub rows: Vec<FatRow>,
}

impl FatTable {
    /// The unit that was supposed: the largest write.
    pub fn unit(&self) -> Option<Bytes> {
        self.rows.iter().map(|row| row.write).max()
    }
}
