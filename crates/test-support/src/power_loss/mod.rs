//! What a power cut may leave of the files and devices that a program wrote.
//!
//! [`record`] runs a program under strace(1) and keeps its writes, syncs, renames and removals as
//! [`DiskOp`]s. [`CrashDisk`] replays them, and [`CrashDisk::states`] gives what the disk may hold
//! if the power fails between two of them.
//!
//! The model is the weakest that POSIX and the kernel's block layer allow, not what ext4 does:
//!
//! - A write changes blocks of 4 KiB. Until the file is synced, each block may hold any version
//!   since the last sync, each independently of the others, or a mix of two versions in sectors of
//!   512 bytes.
//! - The length of a file changes in order, by blocks or to any byte between; it is independent of
//!   the blocks, so a longer file may hold zeros.
//! - Creation, renaming and removal change the directory. Until the directory is synced, any prefix
//!   of its changes may be lost, independently of other directories and of the files. To sync a
//!   file does not make its name survive.
//! - The same holds for a device: between two syncs its blocks are written in any order. To sync a
//!   partition does not sync what was written through the whole device.
//!
//! Sources: Pillai et al., "All File Systems Are Not Created Equal" (OSDI 2014), whose abstract
//! persistence model this is; fsync(2), rename(2), and Documentation/block/writeback_cache_control.
//!
//! Limits: a sector is never torn; what was synced is never lost (a device that lies about flushes
//! is another fault); old contents of freed blocks do not show up in files; no links.

mod disk;
mod states;
mod strace;

use std::path::PathBuf;

pub use disk::{CrashDisk, CrashState, StateEntry};
pub use states::CrashEffort;
pub use strace::{Recorder, TracedDevice, record};

/// A change to the disk or a sync. Paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskOp {
    /// A directory is made.
    MakeDir(PathBuf),
    /// A file is opened: made where it is missing, and emptied if asked.
    Open {
        path: PathBuf,
        /// Whether its contents are dropped.
        truncates: bool,
    },
    Write {
        /// The file or device.
        path: PathBuf,
        /// The page cache: 0 for the file itself or the whole device, 1 for its partition.
        cache: u8,
        /// Where; `None` for the end of the file.
        offset: Option<u64>,
        data: Vec<u8>,
    },
    SetLength(PathBuf, u64),
    /// Something gets another name in the same directory.
    Rename(PathBuf, PathBuf),
    /// A file or an empty directory is removed.
    Remove(PathBuf),
    /// A file, device or directory is synced.
    Sync {
        path: PathBuf,
        /// The page cache, as for a write.
        cache: u8,
    },
}
