//! Maps chunks to slots of erase blocks, and selects blocks to collect.

use serde::{Deserialize, Serialize};

use crate::large_table::LargeTable;

/// The chunk map. Slots are numbered over all erase blocks.
#[derive(Debug, Serialize, Deserialize)]
pub struct Chunks {
    /// By chunk: one more than its slot, or 0.
    slots: LargeTable<u32>,
    /// By slot: one more than its current chunk, or 0.
    current: LargeTable<u32>,
    blocks: Vec<Block>,
    /// Complete blocks with obsolete slots, by their number of current chunks.
    collectable: Vec<Vec<u32>>,
    slots_per_block: u32,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Block {
    current: u32,
    complete: bool,
    /// Index among the collectable blocks with as many current chunks.
    index: u32,
}

impl Chunks {
    pub fn new(capacity_blocks: u32, total_blocks: u32, slots_per_block: u32) -> Self {
        Self {
            slots: LargeTable::new(capacity_blocks as usize * slots_per_block as usize),
            current: LargeTable::new(total_blocks as usize * slots_per_block as usize),
            blocks: vec![Block::default(); total_blocks as usize],
            collectable: vec![Vec::new(); slots_per_block as usize],
            slots_per_block,
        }
    }

    pub fn slots_per_block(&self) -> u32 {
        self.slots_per_block
    }

    /// The number of a slot of an erase block.
    pub fn slot_at(&self, block: u32, index: u32) -> u32 {
        block * self.slots_per_block + index
    }

    /// The slot of a chunk; `None` if it was never completed.
    pub fn slot_of(&self, chunk: u32) -> Option<u32> {
        self.slots[chunk as usize].checked_sub(1)
    }

    pub fn is_current(&self, slot: u32) -> bool {
        self.current[slot as usize] != 0
    }

    /// Maps a chunk to a slot.
    pub fn put(&mut self, chunk: u32, slot: u32) {
        self.forget(chunk);
        self.slots[chunk as usize] = slot + 1;
        self.current[slot as usize] = chunk + 1;
        self.change(slot / self.slots_per_block, |block| block.current += 1);
    }

    /// Moves the chunk of one slot to another. The chunk map is not read to find it, because on a
    /// large card that waits for memory.
    pub fn relocate(&mut self, from: u32, to: u32) {
        let current = std::mem::take(&mut self.current[from as usize]);
        let chunk = current.checked_sub(1).expect("only a slot with a chunk is emptied");
        self.change(from / self.slots_per_block, |block| block.current -= 1);
        self.slots[chunk as usize] = to + 1;
        self.current[to as usize] = current;
        self.change(to / self.slots_per_block, |block| block.current += 1);
    }

    pub fn forget(&mut self, chunk: u32) {
        if let Some(slot) = std::mem::take(&mut self.slots[chunk as usize]).checked_sub(1) {
            self.current[slot as usize] = 0;
            self.change(slot / self.slots_per_block, |block| block.current -= 1);
        }
    }

    /// Marks a block as full.
    pub fn complete(&mut self, block: u32) {
        self.change(block, |block| block.complete = true);
    }

    fn change(&mut self, number: u32, change: impl FnOnce(&mut Block)) {
        let block = &mut self.blocks[number as usize];
        let before = *block;
        change(block);
        let after = *block;
        let slots_per_block = self.slots_per_block;
        let worth = |block: Block| block.complete && block.current < slots_per_block;
        if worth(before) {
            self.remove(before);
        }
        if worth(after) {
            let as_worth = &mut self.collectable[after.current as usize];
            self.blocks[number as usize].index = index_of(as_worth.len());
            as_worth.push(number);
        }
    }

    /// Removes a collectable block; the last one of its kind takes its index.
    fn remove(&mut self, block: Block) {
        let alike = &mut self.collectable[block.current as usize];
        alike.swap_remove(block.index as usize);
        if let Some(&moved) = alike.get(block.index as usize) {
            self.blocks[moved as usize].index = block.index;
        }
    }

    /// Takes a complete block with the fewest current chunks for collection.
    pub fn take_victim(&mut self) -> Option<u32> {
        let victim = self.collectable.iter_mut().find_map(Vec::pop)?;
        self.blocks[victim as usize].complete = false;
        Some(victim)
    }
}

fn index_of(length: usize) -> u32 {
    u32::try_from(length).expect("there are fewer blocks than 2^32")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_complete_block_with_the_fewest_current_chunks_is_collected() {
        let mut chunks = Chunks::new(4, 6, 2);
        for (chunk, slot) in [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)] {
            chunks.put(chunk, slot);
        }
        chunks.complete(0);
        chunks.complete(1);
        assert_eq!(chunks.take_victim(), None);
        chunks.put(1, 5);
        chunks.forget(2);
        chunks.forget(3);
        assert_eq!((chunks.slot_of(1), chunks.is_current(1)), (Some(5), false));
        assert_eq!(chunks.take_victim(), Some(1));
        assert_eq!(chunks.take_victim(), Some(0));
        assert_eq!(chunks.take_victim(), None);
        chunks.relocate(0, 6);
        assert_eq!(
            (chunks.slot_of(0), chunks.is_current(0), chunks.is_current(6)),
            (Some(6), false, true)
        );
    }
}
