//! Models which states of files and devices a power cut may leave.
//!
//! [`record`] runs a program under strace(1) and records its writes, syncs, renames and removals as
//! [`DiskOp`]s. [`CrashDisk`] replays them, and [`CrashDisk::states`] returns possible disk
//! contents after a power cut between two of them.
//!
//! The model is the weakest that POSIX and the kernel's block layer allow, not that of ext4:
//!
//! - A write changes blocks of 4 KiB. Until the file is synced, each block may independently have
//!   any version since the last sync, or a mix of two versions in sectors of 512 bytes.
//! - The length of a file changes in order, by whole changes or to any byte in between,
//!   independently of the blocks, so a longer file may contain zeros.
//! - Creation, renaming and removal change the directory. Until the directory is synced, any suffix
//!   of its changes may be lost, independently of other directories and of the files. Syncing a
//!   file does not sync its name.
//! - For a device, blocks written between two syncs reach it in any order. Syncing a partition does
//!   not sync what was written through the whole device.
//!
//! Sources: Pillai et al., "All File Systems Are Not Created Equal" (OSDI 2014), whose abstract
//! persistence model this is; fsync(2), rename(2), and Documentation/block/writeback_cache_control.
//!
//! Limits: sectors are not torn; synced data is never lost (a device that lies about flushes is a
//! different fault); old contents of freed blocks do not appear in files; no links.

mod disk;
mod state;
mod states;
mod strace;

use std::path::PathBuf;

pub use disk::CrashDisk;
pub use state::{StateAfterCut, StateEntry};
pub use states::CrashEffort;
pub use strace::{Recorder, TracedDevice, record};

/// A change to the disk or a sync, with absolute paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskOp {
    MakeDir(PathBuf),
    /// A file is opened, and created or truncated if requested.
    Open {
        path: PathBuf,
        /// Whether the file is truncated.
        truncates: bool,
    },
    Write {
        path: PathBuf,
        /// Page cache: 0 for the file itself or the whole device, 1 for its partition.
        cache: u8,
        /// `None` for the end of the file.
        offset: Option<u64>,
        data: Vec<u8>,
    },
    SetLength(PathBuf, u64),
    /// A file or directory is renamed within its directory.
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    Sync {
        path: PathBuf,
        /// Page cache, as for a write.
        cache: u8,
    },
}
