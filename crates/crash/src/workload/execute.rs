//! Carries out operations on a mounted file system.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::FallocateFlags;

use super::{LoggedOperation, Operation};
use crate::blocks::SECTOR_BYTES;
use crate::content::{SectorTag, fill};
use crate::model::Namespace;

/// Where the log of the device is.
pub trait LogPosition {
    /// How many requests have arrived.
    fn position(&self) -> u32;
}

/// Operations in progress on one file system.
pub struct Execution<'a> {
    root: &'a Path,
    namespace: Namespace,
    done: Vec<LoggedOperation>,
}

impl<'a> Execution<'a> {
    /// On an empty file system that is mounted at `root`.
    pub fn new(root: &'a Path) -> Self {
        Self { root, namespace: Namespace::default(), done: Vec::new() }
    }

    /// Carries out one operation; an error of the file system is recorded, not returned.
    pub fn run(&mut self, number: u32, operation: &Operation, log: &dyn LogPosition) {
        let begin = log.position();
        let result = self.carry_out(number, operation);
        let (inode, error) = match result {
            Ok(inode) => (inode, None),
            Err(error) => (None, Some(error.raw_os_error().unwrap_or(libc::EIO))),
        };
        let end = log.position();
        let done =
            LoggedOperation { operation: operation.clone(), number, begin, end, inode, error };
        self.namespace.apply(&done);
        self.done.push(done);
    }

    /// The operation that returned last.
    pub fn last(&self) -> Option<&LoggedOperation> {
        self.done.last()
    }

    /// What was done.
    pub fn finish(self) -> Vec<LoggedOperation> {
        self.done
    }

    fn carry_out(&self, number: u32, operation: &Operation) -> io::Result<Option<u64>> {
        let at = |path: &String| self.root.join(path);
        let open = |path: &String| OpenOptions::new().read(true).write(true).open(at(path));
        let bytes = |sectors: u32| u64::from(sectors) * SECTOR_BYTES as u64;
        match operation {
            Operation::MakeDir { path } => {
                fs::create_dir(at(path))?;
                return Ok(Some(fs::symlink_metadata(at(path))?.ino()));
            }
            Operation::Create { path } => {
                let file = OpenOptions::new().write(true).create_new(true).open(at(path))?;
                return Ok(Some(file.metadata()?.ino()));
            }
            Operation::RemoveDir { path } => fs::remove_dir(at(path))?,
            Operation::Write { path, sector, sectors, synchronous } => {
                let node = self.namespace.node_at(path).ok_or(io::ErrorKind::NotFound)?;
                let mut data = vec![0; *sectors as usize * SECTOR_BYTES];
                for (sector, out) in (*sector..).zip(data.chunks_exact_mut(SECTOR_BYTES)) {
                    fill(SectorTag { file: node, version: number, sector }, out);
                }
                let flags = if *synchronous { libc::O_SYNC } else { 0 };
                let file = OpenOptions::new().write(true).custom_flags(flags).open(at(path))?;
                file.write_all_at(&data, bytes(*sector))?;
            }
            Operation::Truncate { path, sectors } => open(path)?.set_len(bytes(*sectors))?,
            Operation::Allocate { path, sector, sectors } => {
                let (offset, length) = (bytes(*sector), bytes(*sectors));
                rustix::fs::fallocate(open(path)?, FallocateFlags::empty(), offset, length)?;
            }
            Operation::StartWriteback { path } => start_writeback(&open(path)?)?,
            Operation::Fsync { path } => open(path)?.sync_all()?,
            Operation::Fdatasync { path } => open(path)?.sync_data()?,
            Operation::FsyncDir { path } => File::open(at(path))?.sync_all()?,
            Operation::Rename { from, to } => fs::rename(at(from), at(to))?,
            Operation::Link { from, to } => fs::hard_link(at(from), at(to))?,
            Operation::Unlink { path } => fs::remove_file(at(path))?,
            Operation::Acknowledge { .. } => {}
            Operation::SyncAll => rustix::fs::syncfs(File::open(self.root)?)?,
        }
        Ok(None)
    }
}

#[expect(unsafe_code, reason = "sync_file_range has no safe interface here")]
fn start_writeback(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open for the length of the call, and no pointer is passed.
    let result =
        unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
