//! The trait that probes and simulations use to access a block device.
//!
//! Offsets and lengths are in bytes and must be multiples of the sector size; every request must
//! lie within the capacity. Data written since the last [`BlockDev::flush`] may be in a volatile
//! cache.

use flashfit_user_error::{ExitClass, Hint, UserError};

/// The fixed properties of a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockDevInfo {
    pub capacity_bytes: u64,
    pub sector_bytes: u32,
    /// Discard granularity; 0 when discards are not supported.
    pub discard_granularity_bytes: u64,
    /// Whether writes may wait in a volatile cache until a flush.
    pub volatile_cache: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum BlockDevError {
    /// Not a multiple of the sector size, or beyond the end.
    #[error("{length} bytes at offset {offset} are not whole sectors within the device")]
    OutOfBounds { offset: u64, length: u64 },
    #[error("the device does not support discards")]
    NoDiscard,
    /// Its spare erase blocks are used up.
    #[error("the device is worn out and accepts no more writes")]
    WornOut,
    /// The device was removed, is off, or failed.
    #[error("the device does not respond: {0}")]
    Disconnected(String),
    #[error("{length} bytes at offset {offset}: {source}")]
    Io { offset: u64, length: u64, source: std::io::Error },
}

impl UserError for BlockDevError {
    fn class(&self) -> ExitClass {
        match self {
            Self::OutOfBounds { .. } => ExitClass::Bug,
            Self::NoDiscard => ExitClass::Environment,
            error if error.is_full() => ExitClass::Environment,
            Self::WornOut | Self::Disconnected(_) | Self::Io { .. } => ExitClass::Io,
        }
    }

    fn hint(&self) -> Option<Hint> {
        self.is_full().then(|| {
            "the image file is sparse and its file system is full: free space there, then retry"
                .into()
        })
    }
}

impl BlockDevError {
    /// Whether the file system that stores the image file is full.
    fn is_full(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Io { source, .. }
            if matches!(source.kind(), StorageFull | QuotaExceeded))
    }
}

pub trait BlockDev {
    fn describe(&self) -> BlockDevInfo;

    /// Fills `buffer` from `offset`.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError>;

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError>;

    /// Makes all data written so far survive a power cut.
    fn flush(&mut self) -> Result<(), BlockDevError>;

    /// Discards a range. Its contents are undefined afterwards.
    fn discard(&mut self, offset: u64, length: u64) -> Result<(), BlockDevError>;
}
