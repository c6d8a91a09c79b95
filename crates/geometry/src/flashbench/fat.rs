//! flashbench's find-FAT table: the write rate of each of the first allocation units.
//!
//! `flashbench --find-fat` prints one row per write size with one rate per unit. The unit size is
//! the largest write.

use flashfit_device::Bytes;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FatRow {
    /// The size of a write.
    pub write: Bytes,
    /// By unit from the start of the device.
    pub bytes_per_second: Vec<u64>,
}

/// One run's rows, the largest write first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FatTable {
    pub rows: Vec<FatRow>,
}

impl FatTable {
    /// The assumed unit size: the largest write.
    pub fn unit(&self) -> Option<Bytes> {
        self.rows.iter().map(|row| row.write).max()
    }
}
