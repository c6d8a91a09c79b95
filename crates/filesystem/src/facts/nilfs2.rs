//! nilfs2, from its first superblock.
//!
//! Source: `struct nilfs_super_block` in the kernel's include/uapi/linux/nilfs2_ondisk.h, at byte
//! 1024. Segments lie at multiples of their size from the start of the node on, so no area begins
//! anywhere else.

use super::Read;
use super::bytes::{le16, le32, power};

const AT: usize = 1024;
const MAGIC: u64 = 0x3434;

pub(super) fn parse(bytes: &[u8]) -> Option<Read> {
    if le16(bytes, AT + 6)? != MAGIC {
        return None;
    }
    // The field counts from blocks of 1 KiB.
    let block_bytes = power(le32(bytes, AT + 20)?.checked_add(10)?)?;
    let segment_bytes = le32(bytes, AT + 48)?.checked_mul(block_bytes)?;
    let mut read = Read { block_bytes, ..Read::default() };
    read.number("block_bytes", block_bytes, "superblock: s_log_block_size");
    read.number("segment_bytes", segment_bytes, "superblock: s_blocks_per_segment");
    Some(read)
}
