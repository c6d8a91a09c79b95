//! f2fs, from its first superblock.
//!
//! Source: `struct f2fs_super_block` in the kernel's include/linux/f2fs_fs.h, at byte 1024.

use super::Read;
use super::bytes::{le32, power};

const AT: usize = 1024;
const MAGIC: u64 = 0xf2f5_2010;
/// The names of mkfs.f2fs(8), from the lowest bit on.
const FEATURES: [&str; 15] = [
    "encrypt",
    "blkzoned",
    "atomic_write",
    "extra_attr",
    "project_quota",
    "inode_checksum",
    "flexible_inline_xattr",
    "quota",
    "inode_crtime",
    "lost_found",
    "verity",
    "sb_checksum",
    "casefold",
    "compression",
    "ro",
];

pub(super) fn parse(bytes: &[u8]) -> Option<Read> {
    let field = |at: usize| le32(bytes, AT + at);
    if field(0)? != MAGIC {
        return None;
    }
    let block_bytes = power(field(16)?)?;
    let segment_bytes = block_bytes.checked_mul(power(field(20)?)?)?;
    let main_start_bytes = field(92)?.checked_mul(block_bytes)?;
    let mut read =
        Read { block_bytes, data_start_bytes: Some(main_start_bytes), ..Read::default() };
    read.number("block_bytes", block_bytes, "superblock: log_blocksize");
    let section_bytes = field(24)?.checked_mul(segment_bytes)?;
    read.number("section_bytes", section_bytes, "superblock: segs_per_sec");
    read.number("zone_sections", field(28)?, "superblock: secs_per_zone");
    read.number("main_start_bytes", main_start_bytes, "superblock: main_blkaddr");
    let main_bytes = field(68)?.checked_mul(segment_bytes)?;
    read.number("main_bytes", main_bytes, "superblock: segment_count_main");
    let bits = field(2180)?;
    let set = FEATURES.iter().enumerate().filter(|(bit, _)| bits & (1 << bit) != 0);
    read.features = set.map(|(_, name)| (*name).to_owned()).collect();
    Some(read)
}
