//! Whether a file system has no space left because of what it contains.
//!
//! What is in files is compared with the size as statvfs(3) reports it. Limits: the size includes
//! metadata and reserves, which differ between file systems, so the comparison is coarse: a
//! recovery that loses free space is noticed only where files occupy little. Of nilfs2, old
//! versions of files, which cannot be counted here, may have filled it.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

/// With less free space, a file system is full: its own structures take some.
const FULL_BYTES: u64 = 1 << 20;
/// A full file system has at least one part of so many in files. btrfs and f2fs of the smallest
/// sizes leave files a third and less.
const PARTS: u64 = 8;
/// Of `st_blocks` (inode(7)).
const BLOCK_BYTES: u64 = 512;
const INODE_BLOCKS: u64 = 1;

/// Whether users have less than 1 MiB left. ext4 counts as free what it reserves for root.
pub(super) fn is_full(root: &Path) -> bool {
    rustix::fs::statvfs(root)
        .is_ok_and(|found| found.f_bavail.saturating_mul(found.f_frsize) < FULL_BYTES)
}

/// Whether its files occupy so much that they may have filled it.
pub(super) fn may_be_filled_by_files(root: &Path, kind: &str) -> bool {
    if kind == "nilfs2" {
        return true;
    }
    let Ok(found) = rustix::fs::statvfs(root) else { return false };
    let size_bytes = found.f_blocks.saturating_mul(found.f_frsize);
    occupied_bytes(root).is_ok_and(|occupied| occupied >= size_bytes / PARTS)
}

/// What files and directories below `root` occupy, each once, even if damage made a cycle.
fn occupied_bytes(root: &Path) -> io::Result<u64> {
    let mut seen = BTreeSet::new();
    let mut blocks: u64 = 0;
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            let found = fs::symlink_metadata(&path)?;
            // A subvolume of btrfs has its own device number.
            if !seen.insert((found.dev(), found.ino())) {
                continue;
            }
            // xfs and btrfs make inodes of free space.
            blocks = blocks.saturating_add(found.blocks()).saturating_add(INODE_BLOCKS);
            if found.is_dir() {
                dirs.push(path);
            }
        }
    }
    Ok(blocks.saturating_mul(BLOCK_BYTES))
}
