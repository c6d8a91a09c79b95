//! Blocks of 4 KiB, each content stored once and named by a number.
//!
//! Numbers are equal if and only if contents are equal (up to a collision of 128 bits of SHA-256),
//! so states are compared without looking at bytes. Never-written blocks of a device are not
//! stored: their content is derived from their place ([`crate::content`]), so that a file system
//! that shows old data of the device is noticed.

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::content;

pub const BLOCK_BYTES: usize = 4096;
pub const SECTOR_BYTES: usize = 512;
pub const BLOCK_SECTORS: u32 = 8;

pub type Block = [u8; BLOCK_BYTES];

/// The number of a content in its [`BlockPool`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockId(u32);

const UNWRITTEN: u32 = 1 << 31;

impl BlockId {
    pub const ZERO: Self = Self(0);

    /// The content of a block of the device that was never written.
    pub fn unwritten(block: u32) -> Self {
        assert!(block < UNWRITTEN, "devices have fewer blocks");
        Self(UNWRITTEN | block)
    }

    pub fn number(self) -> u32 {
        self.0
    }
}

/// The contents of blocks.
#[derive(Debug, Clone, Default)]
pub struct BlockPool {
    /// Without the zeros, which have the number 0.
    blocks: Vec<Box<Block>>,
    ids: HashMap<[u8; 16], BlockId>,
}

impl BlockPool {
    /// The number of a content, which is stored if it is new.
    pub fn intern(&mut self, content: &Block) -> BlockId {
        if content.iter().all(|byte| *byte == 0) {
            return BlockId::ZERO;
        }
        let mut key = [0; 16];
        key.copy_from_slice(&Sha256::digest(content)[..16]);
        *self.ids.entry(key).or_insert_with(|| {
            self.blocks.push(Box::new(*content));
            BlockId(u32::try_from(self.blocks.len()).expect("fewer than 2^31 blocks"))
        })
    }

    /// Copies the content of `id`.
    pub fn read(&self, id: BlockId, content: &mut Block) {
        match id.0 {
            0 => content.fill(0),
            number if number & UNWRITTEN != 0 => content::unwritten(number & !UNWRITTEN, content),
            number => content.copy_from_slice(&self.blocks[number as usize - 1][..]),
        }
    }

    /// `old` with some sectors replaced by those of `new`.
    pub fn overlay(&mut self, old: BlockId, new: BlockId, sectors: Range<u32>) -> BlockId {
        if sectors == (0..BLOCK_SECTORS) || old == new {
            return new;
        }
        let (mut result, mut source) = ([0; BLOCK_BYTES], [0; BLOCK_BYTES]);
        self.read(old, &mut result);
        self.read(new, &mut source);
        let bytes = sectors.start as usize * SECTOR_BYTES..sectors.end as usize * SECTOR_BYTES;
        result[bytes.clone()].copy_from_slice(&source[bytes]);
        self.intern(&result)
    }

    /// Whether `id` has a content here.
    pub fn contains(&self, id: BlockId) -> bool {
        id.0 & UNWRITTEN != 0 || id.0 as usize <= self.blocks.len()
    }

    /// The stored contents, in the order of their numbers from 1.
    pub fn stored(&self) -> impl ExactSizeIterator<Item = &Block> {
        self.blocks.iter().map(AsRef::as_ref)
    }

    /// How many contents are stored.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_contents_have_one_number() {
        let mut pool = BlockPool::default();
        assert_eq!(pool.intern(&[0; BLOCK_BYTES]), BlockId::ZERO);
        let one = pool.intern(&[1; BLOCK_BYTES]);
        assert_eq!(pool.intern(&[1; BLOCK_BYTES]), one);
        assert_ne!(pool.intern(&[2; BLOCK_BYTES]), one);
        assert_eq!(pool.len(), 2);
        assert!(pool.contains(one) && pool.contains(BlockId::unwritten(7)));
        assert!(!pool.contains(BlockId(3)));
    }

    #[test]
    fn sectors_of_a_block_are_replaced() {
        let mut pool = BlockPool::default();
        let one = pool.intern(&[1; BLOCK_BYTES]);
        let mixed = pool.overlay(BlockId::ZERO, one, 2..3);
        let mut content = [9; BLOCK_BYTES];
        pool.read(mixed, &mut content);
        let ones = content.iter().filter(|byte| **byte == 1).count();
        assert_eq!((ones, content[1024], content[1023]), (512, 1, 0));
        assert_eq!(pool.overlay(mixed, one, 0..8), one);
    }
}
