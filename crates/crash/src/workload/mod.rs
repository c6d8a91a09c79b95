//! What is done to a file system before the power cut, one operation after another.
//!
//! Files are written in whole sectors that say whose they are ([`crate::content`]). Nodes (files
//! and directories) are numbered in the order of their creation; the root is node 0.

mod execute;
mod files;
mod generator;
mod kind;
mod metadata;
mod program;
mod sqlite;

use serde::{Deserialize, Serialize};

pub use execute::{Execution, LogPosition};
pub use kind::{CrashWorkload, WorkloadError};
pub use program::{ProgramLimit, ProgramWorkload, WORK_LIMIT, each_line, run_program};
pub use sqlite::{SqliteJournal, SqliteMode, SqliteSync, grade};

/// One operation. Paths are relative to the mount point.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    MakeDir {
        path: String,
    },
    RemoveDir {
        path: String,
    },
    Create {
        path: String,
    },
    /// Writes sectors; `synchronous` with `O_SYNC`.
    Write {
        path: String,
        sector: u32,
        sectors: u32,
        synchronous: bool,
    },
    /// Changes the size, in sectors.
    Truncate {
        path: String,
        sectors: u32,
    },
    /// Allocates sectors without writing them, which may make the file longer.
    Allocate {
        path: String,
        sector: u32,
        sectors: u32,
    },
    /// Starts writing back the data of a file, without waiting and without a promise.
    StartWriteback {
        path: String,
    },
    Fsync {
        path: String,
    },
    Fdatasync {
        path: String,
    },
    FsyncDir {
        path: String,
    },
    /// Replaces `to` if it exists.
    Rename {
        from: String,
        to: String,
    },
    Link {
        from: String,
        to: String,
    },
    Unlink {
        path: String,
    },
    /// Syncs the whole file system.
    SyncAll,
    /// A program reports that something is durable: a transaction, or whatever the line says.
    Acknowledge {
        line: String,
    },
}

impl Operation {
    /// Whether its return promises that something survives a power cut.
    pub fn is_sync(&self) -> bool {
        match self {
            Self::Fsync { .. } | Self::Fdatasync { .. } | Self::FsyncDir { .. } | Self::SyncAll => {
                true
            }
            Self::Acknowledge { .. } => true,
            Self::Write { synchronous, .. } => *synchronous,
            _ => false,
        }
    }
}

impl Operation {
    /// The same in the root: directories become a part of the names.
    #[must_use]
    pub fn flattened(&self) -> Self {
        let flat = |path: &String| path.replace('/', "-");
        let mut operation = self.clone();
        match &mut operation {
            Self::Create { path }
            | Self::Write { path, .. }
            | Self::Truncate { path, .. }
            | Self::Allocate { path, .. }
            | Self::StartWriteback { path }
            | Self::Fsync { path }
            | Self::Fdatasync { path }
            | Self::Unlink { path } => *path = flat(path),
            Self::FsyncDir { path } => path.clear(),
            Self::Rename { from, to } | Self::Link { from, to } => {
                (*from, *to) = (flat(from), flat(to));
            }
            Self::MakeDir { .. }
            | Self::RemoveDir { .. }
            | Self::SyncAll
            | Self::Acknowledge { .. } => {}
        }
        operation
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::MakeDir { path } => write!(f, "mkdir {path}"),
            Self::RemoveDir { path } => write!(f, "rmdir {path}"),
            Self::Create { path } => write!(f, "create {path}"),
            Self::Write { path, sector, sectors, synchronous } => {
                let how = if *synchronous { " with O_SYNC" } else { "" };
                write!(f, "write {path}{how}, {sectors} sectors from {sector}")
            }
            Self::Truncate { path, sectors } => write!(f, "truncate {path} to {sectors} sectors"),
            Self::Allocate { path, sector, sectors } => {
                write!(f, "fallocate {path}, {sectors} sectors from {sector}")
            }
            Self::StartWriteback { path } => write!(f, "start writeback of {path}"),
            Self::Fsync { path } => write!(f, "fsync {path}"),
            Self::Fdatasync { path } => write!(f, "fdatasync {path}"),
            Self::FsyncDir { path } => {
                write!(f, "fsync directory {}", if path.is_empty() { "/" } else { path })
            }
            Self::Rename { from, to } => write!(f, "rename {from} to {to}"),
            Self::Link { from, to } => write!(f, "link {from} to {to}"),
            Self::Unlink { path } => write!(f, "unlink {path}"),
            Self::SyncAll => f.write_str("sync"),
            Self::Acknowledge { line } => write!(f, "acknowledged: {line}"),
        }
    }
}

/// An operation as it ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedOperation {
    pub operation: Operation,
    /// Its number in the workload, which stays when a workload is shortened.
    pub number: u32,
    /// The position in the log before it began.
    pub begin: u32,
    /// The position after it returned.
    pub end: u32,
    /// The inode number of what it created.
    pub inode: Option<u64>,
    /// The error number that it returned; it then had no effect.
    pub error: Option<i32>,
}
