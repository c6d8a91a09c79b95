//! Sectors that say whose they are: file, version and place, so that a sector found after a power
//! cut is recognized wherever it is.

use flashfit_numbers::SplitMix64;
use serde::{Deserialize, Serialize};

use crate::blocks::{BLOCK_SECTORS, Block, SECTOR_BYTES};

const MAGIC: [u8; 8] = *b"ffcrash1";
const HEAD_BYTES: usize = 24;
/// The number of no file, for what the device contained before.
const UNWRITTEN_FILE: u32 = u32::MAX;

/// Whose data a sector is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SectorTag {
    pub file: u32,
    /// The operation that wrote it.
    pub version: u32,
    /// Its place in the file, in sectors.
    pub sector: u32,
}

/// What a sector was found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SectorContent {
    Zero,
    /// As written.
    Data(SectorTag),
    /// What the device contained before the file system was made.
    Unwritten,
    Unknown,
}

pub fn fill(tag: SectorTag, sector: &mut [u8]) {
    assert_eq!(sector.len(), SECTOR_BYTES, "a whole sector");
    sector[..8].copy_from_slice(&MAGIC);
    sector[8..12].copy_from_slice(&tag.file.to_le_bytes());
    sector[12..16].copy_from_slice(&tag.version.to_le_bytes());
    sector[16..20].copy_from_slice(&tag.sector.to_le_bytes());
    sector[20..HEAD_BYTES].fill(0);
    let seed = u64::from(tag.file) << 40 ^ u64::from(tag.version) << 20 ^ u64::from(tag.sector);
    let mut random = SplitMix64::new(seed);
    for word in sector[HEAD_BYTES..].chunks_exact_mut(8) {
        word.copy_from_slice(&random.next_u64().to_le_bytes());
    }
}

/// What a sector is. A part of a sector is unknown.
pub fn parse(sector: &[u8]) -> SectorContent {
    if sector.iter().all(|byte| *byte == 0) {
        return SectorContent::Zero;
    }
    if sector.len() != SECTOR_BYTES || sector[..8] != MAGIC {
        return SectorContent::Unknown;
    }
    let number = |at: usize| {
        u32::from_le_bytes(sector[at..at + 4].try_into().expect("four bytes of a sector"))
    };
    let tag = SectorTag { file: number(8), version: number(12), sector: number(16) };
    let mut expected = [0; SECTOR_BYTES];
    fill(tag, &mut expected);
    match sector == expected {
        true if tag.file == UNWRITTEN_FILE => SectorContent::Unwritten,
        true => SectorContent::Data(tag),
        false => SectorContent::Unknown,
    }
}

/// The content of a block that was never written.
pub fn unwritten(block: u32, content: &mut Block) {
    for (sector, bytes) in (0..BLOCK_SECTORS).zip(content.chunks_exact_mut(SECTOR_BYTES)) {
        let sector = block.wrapping_mul(BLOCK_SECTORS).wrapping_add(sector);
        fill(SectorTag { file: UNWRITTEN_FILE, version: 0, sector }, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_is_recognized_and_a_changed_byte_is_noticed() {
        let tag = SectorTag { file: 3, version: 14, sector: 15 };
        let mut sector = [0; SECTOR_BYTES];
        assert_eq!(parse(&sector), SectorContent::Zero);
        fill(tag, &mut sector);
        assert_eq!(parse(&sector), SectorContent::Data(tag));
        for byte in [0, 9, 13, 17, 21, 30, 511] {
            let mut other = sector;
            other[byte] ^= 0x40;
            assert_eq!(parse(&other), SectorContent::Unknown, "byte {byte}");
        }
        assert_eq!(parse(&sector[..100]), SectorContent::Unknown);
    }

    #[test]
    fn what_was_never_written_is_recognized() {
        let mut block = [0; 4096];
        unwritten(1 << 20, &mut block);
        assert_eq!(parse(&block[512..1024]), SectorContent::Unwritten);
    }
}
