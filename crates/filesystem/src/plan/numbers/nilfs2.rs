//! NILFS2: the segment, which is written from its start to its end and cleaned as a whole.
//!
//! Source: mkfs.nilfs2(8): at least 16 blocks, and a power of two.

use flashfit_device::Bytes;

use super::super::arithmetic::power_in;
use super::super::document::NumberUnit;
use super::{PlacementContext, PlacementNumbers, multiple};

const MIN_BLOCKS: u64 = 16;
/// With fewer segments on the device the cleaner has no room to work.
const MIN_SEGMENTS: u64 = 32;

pub(super) fn fit(site: &PlacementContext) -> PlacementNumbers {
    let mut fitted = PlacementNumbers::default();
    let Some(erase_block) = site.erase_block_bytes else { return fitted };
    let least = MIN_BLOCKS * site.block_bytes;
    let mut segment = power_in(erase_block).max(least);
    while segment > least && site.place.size_bytes / segment < MIN_SEGMENTS {
        segment /= 2;
    }
    let reason = if segment == erase_block {
        format!("a segment is one erase block of {}", Bytes(segment))
    } else if segment > erase_block {
        format!(
            "{}, the least segment that mkfs.nilfs2 takes",
            multiple("erase block", segment, erase_block)
        )
    } else {
        format!(
            "the largest power of two that divides the erase block of {} and leaves at least \
             {MIN_SEGMENTS} segments",
            Bytes(erase_block)
        )
    };
    fitted.set("segment_blocks", segment / site.block_bytes);
    fitted.add("segment_bytes", segment, NumberUnit::Bytes, reason);
    fitted
}
