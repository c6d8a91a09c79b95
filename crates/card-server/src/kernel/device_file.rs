//! The file of a FUSE file system with one file, under a loop device, and what the loop driver
//! asks of it.

use std::time::{Duration, SystemTime};

use fuser::{FileAttr, FileType, INodeNo};

/// The number of the file.
pub const FILE: INodeNo = INodeNo(2);
/// Nothing about the file ever changes.
pub const FOREVER: Duration = Duration::from_secs(1 << 30);
/// The largest write that the kernel is to send; a real mmc host has 512 KiB.
pub const MAX_WRITE_BYTES: u32 = 1 << 20;
/// The mode of fallocate(2) for a discard, or for zeros that may be discarded.
pub const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
/// The mode of fallocate(2) for zeros.
pub const ZERO_RANGE: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;

/// The attributes of the file of `file_bytes`, or of the directory that contains it.
pub fn attributes(node: INodeNo, file_bytes: u64) -> FileAttr {
    let file = node == FILE;
    let epoch = SystemTime::UNIX_EPOCH;
    let size = if file { file_bytes } else { 0 };
    FileAttr {
        ino: node,
        size,
        blocks: size / 512,
        atime: epoch,
        mtime: epoch,
        ctime: epoch,
        crtime: epoch,
        kind: if file { FileType::RegularFile } else { FileType::Directory },
        perm: if file { 0o600 } else { 0o700 },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}
