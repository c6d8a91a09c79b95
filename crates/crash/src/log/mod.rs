//! A recorded workload: the requests that reached the device, with their data, and the operations
//! with the positions in the log between which each of them ran.
//!
//! A position is a number of entries: at position `p` the entries before it have arrived.

mod dm;
mod file;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::blocks::{BLOCK_BYTES, BLOCK_SECTORS, BlockId, BlockPool, SECTOR_BYTES};
use crate::workload::LoggedOperation;

pub use dm::{DmLogError, DmLogStart};
pub use file::LogFileError;

/// A device of 16 GiB, whose list of blocks alone takes 16 MiB.
pub(crate) const MOST_BLOCKS: u32 = 1 << 22;

/// A request as it reached the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogEntry {
    Write(LoggedWrite),
    /// The sectors read as zeros afterwards.
    Discard {
        sector: u64,
        sectors: u32,
    },
    /// What was written before survives a power cut.
    Flush,
}

/// A write of whole sectors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedWrite {
    pub sector: u64,
    pub sectors: u32,
    /// The blocks that it touches. Of the first and the last, only the written sectors count.
    pub blocks: Vec<BlockId>,
    /// Survives a power cut without a flush (forced unit access).
    pub is_durable: bool,
}

impl LogEntry {
    /// The sectors that it changes.
    pub fn range(&self) -> Option<(u64, u32)> {
        match self {
            Self::Write(write) => Some((write.sector, write.sectors)),
            Self::Discard { sector, sectors } => Some((*sector, *sectors)),
            Self::Flush => None,
        }
    }

    pub fn is_flush(&self) -> bool {
        matches!(self, Self::Flush)
    }
}

#[derive(Debug, Clone)]
pub struct CrashLog {
    /// The setup that it was recorded on, in words.
    pub setup: String,
    /// The seed of the workload.
    pub seed: u64,
    /// The device before the first entry.
    pub base: Vec<BlockId>,
    pub pool: BlockPool,
    pub entries: Vec<LogEntry>,
    pub operations: Vec<LoggedOperation>,
}

impl CrashLog {
    pub fn device_bytes(&self) -> u64 {
        self.base.len() as u64 * BLOCK_BYTES as u64
    }

    /// The bytes of all different contents.
    pub fn stored_bytes(&self) -> u64 {
        (self.pool.len() * BLOCK_BYTES) as u64
    }

    pub fn end(&self) -> u32 {
        u32::try_from(self.entries.len()).expect("logs are short")
    }

    fn data(&self, write: &LoggedWrite) -> Vec<u8> {
        let mut data = Vec::new();
        let mut content = [0; BLOCK_BYTES];
        for ((_, within), id) in blocks_of(write.sector, write.sectors).zip(&write.blocks) {
            self.pool.read(*id, &mut content);
            let bytes = within.start as usize * SECTOR_BYTES..within.end as usize * SECTOR_BYTES;
            data.extend_from_slice(&content[bytes]);
        }
        data
    }
}

/// The blocks of a range of sectors, each with its first and last sector in it.
pub fn blocks_of(sector: u64, sectors: u32) -> impl Iterator<Item = (u32, std::ops::Range<u32>)> {
    let size = u64::from(BLOCK_SECTORS);
    let end = sector + u64::from(sectors);
    (sector / size..end.div_ceil(size)).map(move |block| {
        let first = sector.max(block * size) - block * size;
        let last = end.min((block + 1) * size) - block * size;
        let small = |number| u32::try_from(number).expect("devices have fewer than 2^31 blocks");
        (small(block), small(first)..small(last))
    })
}
