//! The format of dm-log-writes, in both directions.
//!
//! Source: `drivers/md/dm-log-writes.c` of Linux, `src/log-writes` of xfstests and
//! `block/blklogwrites.c` of QEMU. A super block, then entries of one sector, each followed by its
//! data; all numbers are little-endian and sectors have the size that the super block gives. A
//! flush of an entry comes before its own write. A mark becomes an acknowledgment with its text.
//!
//! The format has no contents from before the first entry, so an export begins with writes of what
//! mkfs left, up to a mark.

mod error;
mod reader;
mod writer;

pub use error::DmLogError;
pub use reader::DmLogStart;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;
const HEAD_BYTES: usize = 32;
/// Ends the writes of what was there before.
const BASE_MARK: &str = "flashfit: made";
