//! The free erase blocks, least worn first: dynamic wear leveling.
//!
//! A block is erased when it is taken, unless its owner has erased it already. A block that fails
//! is retired if enough others are free; otherwise it is used once more. Limit: dynamic wear
//! leveling only evens out blocks that are reused; blocks with static data need static wear
//! leveling.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::nand::Nand;

type Pop = fn(&mut BTreeSet<(u32, u32)>) -> Option<(u32, u32)>;

/// Free erase blocks, ordered by wear and then by number.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct FreeBlocks {
    by_wear: BTreeSet<(u32, u32)>,
}

impl FreeBlocks {
    /// The first `count` blocks of a new card.
    pub fn all(count: u32) -> Self {
        Self::of(0..count)
    }

    /// These blocks of a new card.
    pub fn of(blocks: impl Iterator<Item = u32>) -> Self {
        Self { by_wear: blocks.map(|block| (0, block)).collect() }
    }

    pub fn len(&self) -> usize {
        self.by_wear.len()
    }

    /// The least worn free block.
    pub fn first(&self) -> Option<u32> {
        self.by_wear.first().map(|&(_, block)| block)
    }

    /// Erase count of the most worn free block.
    pub fn most_erases(&self) -> Option<u32> {
        self.by_wear.last().map(|&(erases, _)| erases)
    }

    /// Returns a block, unless it failed and can be retired.
    pub fn put(&mut self, nand: &mut Nand, block: u32) {
        if nand.has_failed(block) && nand.retire(block, !self.by_wear.is_empty()) {
            return;
        }
        let new = self.by_wear.insert((nand.erases_of(block), block));
        assert!(new, "block {block} is given back twice");
    }

    /// Takes the least worn block and erases it if necessary.
    pub fn take(&mut self, nand: &mut Nand) -> u32 {
        self.take_by(nand, BTreeSet::pop_first)
    }

    /// Takes the most worn block, for static data, and erases it if necessary.
    pub fn take_most_worn(&mut self, nand: &mut Nand) -> u32 {
        self.take_by(nand, BTreeSet::pop_last)
    }

    fn take_by(&mut self, nand: &mut Nand, pop: Pop) -> u32 {
        loop {
            let (_, block) =
                pop(&mut self.by_wear).expect("a checked model never runs out of blocks");
            if !nand.is_erased(block) {
                nand.erase(block);
            }
            // One block must be left for a collection after another one is taken instead.
            let can_spare = self.by_wear.len() >= 2;
            if !(nand.has_failed(block) && nand.retire(block, can_spare)) {
                return block;
            }
        }
    }
}
