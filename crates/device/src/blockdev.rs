//! A block device as probes and simulations see it.
//!
//! Offsets and lengths are in bytes and must be multiples of the sector; every request lies within
//! the capacity. What a write means until the next [`BlockDev::flush`] is the device's own matter:
//! it may be in a volatile cache.

use flashfit_user_error::{ExitClass, UserError};

/// The fixed facts of a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockDevInfo {
    pub capacity_bytes: u64,
    /// Its smallest unit of access.
    pub sector_bytes: u32,
    /// The unit in which it takes discards; 0 when it takes none.
    pub discard_granularity_bytes: u64,
    /// Whether writes may wait in a volatile cache until a flush.
    pub volatile_cache: bool,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum BlockDevError {
    /// Not a multiple of the sector, or beyond the end.
    #[error("{length} bytes at offset {offset} are not whole sectors within the medium")]
    OutOfBounds {
        /// Where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u64,
    },
    /// The device takes no discards.
    #[error("the medium takes no discards")]
    NoDiscard,
    /// The device is off, gone or broken.
    #[error("the medium does not answer: {0}")]
    Gone(String),
    /// The operating system's error.
    #[error("{length} bytes at offset {offset}: {source}")]
    Io {
        /// Where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u64,
        source: std::io::Error,
    },
}

impl UserError for BlockDevError {
    fn class(&self) -> ExitClass {
        match self {
            Self::OutOfBounds { .. } => ExitClass::Bug,
            Self::NoDiscard => ExitClass::Environment,
            error if error.is_full() => ExitClass::Environment,
            Self::Gone(_) | Self::Io { .. } => ExitClass::Io,
        }
    }

    fn hint(&self) -> Option<String> {
        self.is_full().then(|| {
            "the image file is sparse, and its disk is full: make room there, then do it again"
                .into()
        })
    }
}

impl BlockDevError {
    /// Whether the disk of an image file has no room for what was written to the image.
    fn is_full(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Io { source, .. }
            if matches!(source.kind(), StorageFull | QuotaExceeded))
    }
}

/// A device that can be read and written.
pub trait BlockDev {
    fn describe(&self) -> BlockDevInfo;

    /// Fills `buffer` from `offset`.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError>;

    /// Writes `data` at `offset`.
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError>;

    /// Makes everything written so far survive a loss of power.
    fn flush(&mut self) -> Result<(), BlockDevError>;

    /// Tells the device that a range is no longer needed; what it reads as afterwards is undefined.
    fn discard(&mut self, offset: u64, length: u64) -> Result<(), BlockDevError>;
}
