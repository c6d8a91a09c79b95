//! What is written: blocks that name the test, the file and their position in it, filled with
//! pseudo-random bytes, so that nothing can compress or share them.

use std::time::{SystemTime, UNIX_EPOCH};

use flashfit_numbers::SplitMix64;

/// A block, which one write command cannot split.
pub const BLOCK: usize = 4096;
const MARK: &[u8; 8] = b"flashfit";
const HEAD: usize = 32;

/// The number of a test of one file system: another one each time, so that old contents of the
/// flash are not taken for new ones.
pub fn run_number(seed: u64, volume: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
    let process = u64::from(std::process::id());
    SplitMix64::new(seed ^ now ^ process.rotate_left(32) ^ volume.rotate_left(48)).next_u64()
}

/// Where a block belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPlace {
    pub run: u64,
    pub file: u64,
    pub offset: u64,
}

/// What was read instead of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherContent {
    /// The block of another place of this test.
    Elsewhere(BlockPlace),
    /// Only zeros or only ones.
    Empty,
    /// What was there before, or noise.
    Unknown,
}

/// Fills whole blocks from this place on.
pub fn fill(blocks: &mut [u8], place: BlockPlace) {
    for (block, number) in blocks.chunks_exact_mut(BLOCK).zip(0..) {
        fill_one(block, BlockPlace { offset: place.offset + number * BLOCK as u64, ..place });
    }
}

fn fill_one(block: &mut [u8], place: BlockPlace) {
    block[..8].copy_from_slice(MARK);
    block[8..16].copy_from_slice(&place.run.to_le_bytes());
    block[16..24].copy_from_slice(&place.file.to_le_bytes());
    block[24..HEAD].copy_from_slice(&place.offset.to_le_bytes());
    let mut random =
        SplitMix64::new(place.run ^ place.file.rotate_left(40) ^ place.offset.rotate_left(20));
    for word in block[HEAD..].chunks_exact_mut(8) {
        word.copy_from_slice(&random.next_u64().to_le_bytes());
    }
}

/// What a block contains that is not that of this place; `None` if it is.
pub fn compare(block: &[u8], place: BlockPlace) -> Option<OtherContent> {
    let mut expected = [0; BLOCK];
    fill_one(&mut expected, place);
    if block == expected {
        return None;
    }
    let first = block[0];
    if (first == 0 || first == 0xff) && block.iter().all(|byte| *byte == first) {
        return Some(OtherContent::Empty);
    }
    let number = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("8 bytes"));
    let found = BlockPlace { run: number(8), file: number(16), offset: number(24) };
    fill_one(&mut expected, found);
    let is_ours = found.run == place.run && block == expected;
    Some(if is_ours { OtherContent::Elsewhere(found) } else { OtherContent::Unknown })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_told_from_all_others() {
        let place = BlockPlace { run: 7, file: 3, offset: 8192 };
        let mut blocks = vec![0; 2 * BLOCK];
        fill(&mut blocks, place);
        let next = BlockPlace { offset: 8192 + BLOCK as u64, ..place };
        assert_eq!(compare(&blocks[..BLOCK], place), None);
        assert_eq!(compare(&blocks[BLOCK..], next), None);
        assert_eq!(compare(&blocks[BLOCK..], place), Some(OtherContent::Elsewhere(next)));
        for empty in [0, 0xff] {
            assert_eq!(compare(&[empty; BLOCK], place), Some(OtherContent::Empty));
        }
        // One flipped bit, and a block of an older test.
        blocks[100] ^= 1;
        assert_eq!(compare(&blocks[..BLOCK], place), Some(OtherContent::Unknown));
        let mut old = vec![0; BLOCK];
        fill(&mut old, BlockPlace { run: 6, ..place });
        assert_eq!(compare(&old, place), Some(OtherContent::Unknown));
    }
}
