//! Selects the erase block to collect next, and counts the valid pages of each.
//!
//! Closed blocks are in lists: one per number of valid pages, or a single one for FIFO. A block
//! moves to the end of its list whenever one of its pages becomes invalid, so the front of each
//! list changed longest ago. Greedy and FIFO find their victim in constant time; cost-benefit
//! compares only the fronts of the lists, which is exact and depends on the pages per block but not
//! on the number of blocks. Age is counted in pages written since the last invalidation.
//!
//! On a large card the simulator mostly waits for memory. Greedy therefore only lists blocks with
//! fewer valid pages than a horizon, which is raised when none is left; for others it only updates
//! the count.
//! Sources: Kawaguchi, Nishioka and Motoda, "A flash-memory based file system" (USENIX 1995), for
//! cost-benefit as age times (1 - u) / 2u; Desnoyers, "Analytic modeling of SSD write performance"
//! (SYSTOR 2012), for greedy and FIFO (called LRU there).

use serde::{Deserialize, Serialize};

use crate::model::Collection;
use crate::nand::NONE;

/// Flag in a count of valid pages: the block is closed.
const CLOSED: u32 = 1 << 31;
/// When the horizon is raised, at least one in this many closed blocks falls below it.
const LISTED_SHARE: u32 = 16;

/// An erase block, or the head of a list. An unlisted block has no neighbors.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Node {
    before: u32,
    after: u32,
    /// Time of the last invalidation or of closing.
    changed: u64,
}

/// All blocks of a page-mapped layer, the closed ones in the order of collection.
#[derive(Debug, Serialize, Deserialize)]
pub struct Victims {
    collection: Collection,
    /// By block: the number of valid pages, and the flag [`CLOSED`].
    counts: Vec<u32>,
    /// The blocks, followed by the heads of the lists.
    nodes: Vec<Node>,
    blocks: u32,
    pages_per_block: u32,
    /// All lists before this one are empty.
    lowest: u32,
    /// Closed blocks with fewer valid pages are in the list of their number.
    horizon: u32,
    /// Pages written so far, which serves as the clock.
    now: u64,
}

impl Victims {
    /// All blocks empty and open.
    pub fn new(collection: Collection, blocks: u32, pages_per_block: u32) -> Self {
        let (lists, horizon) = match collection {
            Collection::Greedy => (pages_per_block + 1, 0),
            Collection::CostBenefit => (pages_per_block + 1, pages_per_block + 1),
            Collection::Fifo => (1, 0),
        };
        let block = Node { before: NONE, after: NONE, changed: 0 };
        let mut nodes = vec![block; blocks as usize];
        nodes.extend((blocks..blocks + lists).map(|head| Node {
            before: head,
            after: head,
            ..block
        }));
        Self {
            collection,
            counts: vec![0; blocks as usize],
            nodes,
            blocks,
            pages_per_block,
            lowest: 0,
            horizon,
            now: 0,
        }
    }

    /// Valid pages of a block.
    pub fn valid(&self, block: u32) -> u32 {
        self.counts[block as usize] & !CLOSED
    }

    pub fn memory_bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u32>() + self.nodes.capacity() * size_of::<Node>()
    }

    /// Counts a page of the block as valid.
    pub fn gain(&mut self, block: u32) {
        self.counts[block as usize] += 1;
        self.now += 1;
    }

    /// Counts a page of the block as invalid.
    pub fn lose(&mut self, block: u32) {
        let count = &mut self.counts[block as usize];
        assert!(*count & !CLOSED != 0, "valid pages are counted once");
        *count -= 1;
        if *count & CLOSED != 0 && *count & !CLOSED < self.horizon {
            self.unlink(block);
            self.link(block);
        }
    }

    /// Makes a full block eligible for collection.
    pub fn close(&mut self, block: u32) {
        let count = &mut self.counts[block as usize];
        assert!(*count & CLOSED == 0, "block {block} is closed twice");
        *count |= CLOSED;
        if self.collection == Collection::Fifo || *count & !CLOSED < self.horizon {
            self.link(block);
        }
    }

    /// Makes a block ineligible for collection.
    pub fn remove(&mut self, block: u32) {
        let count = &mut self.counts[block as usize];
        assert!(*count & CLOSED != 0, "block {block} is not closed");
        *count &= !CLOSED;
        self.unlink(block);
    }

    /// The closed block to collect next. It stays closed.
    pub fn choose(&mut self) -> Option<u32> {
        match self.collection {
            Collection::Fifo => self.front(0),
            Collection::Greedy => self.fewest_valid().or_else(|| {
                self.raise_horizon();
                self.fewest_valid()
            }),
            Collection::CostBenefit => self.best_ratio(),
        }
    }

    fn fewest_valid(&mut self) -> Option<u32> {
        while self.lowest < self.horizon {
            if let Some(block) = self.front(self.lowest) {
                return Some(block);
            }
            self.lowest += 1;
        }
        None
    }

    /// Raises the horizon if no closed block is below it.
    fn raise_horizon(&mut self) {
        let mut with_valid = vec![0_u32; self.pages_per_block as usize + 1];
        let closed = |&block: &u32| self.counts[block as usize] & CLOSED != 0;
        let closed: Vec<u32> = (0..self.blocks).filter(closed).collect();
        for &block in &closed {
            with_valid[self.valid(block) as usize] += 1;
        }
        let wanted = self.blocks.div_ceil(LISTED_SHARE);
        let mut listed = 0;
        self.horizon = 0;
        while listed < wanted && self.horizon <= self.pages_per_block {
            listed += with_valid[self.horizon as usize];
            self.horizon += 1;
        }
        for block in closed {
            if self.valid(block) < self.horizon {
                self.link(block);
            }
        }
    }

    fn best_ratio(&mut self) -> Option<u32> {
        let mut best = self.fewest_valid()?;
        let (mut best_gain, mut best_cost) = self.gain_and_cost(best);
        for list in self.lowest + 1..self.pages_per_block {
            let Some(block) = self.front(list) else { continue };
            let (gain, cost) = self.gain_and_cost(block);
            if u128::from(gain) * u128::from(best_cost) > u128::from(best_gain) * u128::from(cost) {
                (best, best_gain, best_cost) = (block, gain, cost);
            }
        }
        Some(best)
    }

    /// Age times pages freed, and pages copied.
    fn gain_and_cost(&self, block: u32) -> (u64, u64) {
        let age = self.now - self.nodes[block as usize].changed + 1;
        let valid = self.valid(block);
        (age * u64::from(self.pages_per_block - valid), u64::from(valid))
    }

    fn front(&self, list: u32) -> Option<u32> {
        let head = self.blocks + list;
        Some(self.nodes[head as usize].after).filter(|&block| block != head)
    }

    /// Removes a block from its list, if it is in one.
    fn unlink(&mut self, block: u32) {
        let Node { before, after, .. } = self.nodes[block as usize];
        if after != NONE {
            self.nodes[before as usize].after = after;
            self.nodes[after as usize].before = before;
            self.nodes[block as usize].after = NONE;
        }
    }

    fn link(&mut self, block: u32) {
        let list = if self.collection == Collection::Fifo { 0 } else { self.valid(block) };
        self.lowest = self.lowest.min(list);
        let head = self.blocks + list;
        let last = std::mem::replace(&mut self.nodes[head as usize].before, block);
        self.nodes[last as usize].after = block;
        self.nodes[block as usize] = Node { before: last, after: head, changed: self.now };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of four pages, closed in ascending order with these numbers of valid pages.
    fn closed(collection: Collection, valid: &[u32]) -> Victims {
        let mut victims = Victims::new(collection, 8, 4);
        for (block, &valid) in (0..).zip(valid) {
            (0..4).for_each(|_| victims.gain(block));
            victims.close(block);
            (valid..4).for_each(|_| victims.lose(block));
        }
        victims
    }

    #[test]
    fn greedy_selects_the_oldest_block_with_the_fewest_valid_pages() {
        let mut victims = closed(Collection::Greedy, &[3, 2, 4, 2]);
        assert_eq!(victims.choose(), Some(1));
        victims.remove(1);
        assert_eq!(victims.choose(), Some(3));
        victims.lose(2);
        (0..2).for_each(|_| victims.lose(0));
        assert_eq!(victims.choose(), Some(0));
        (0..8).filter(|&block| block == 0 || block == 3).for_each(|block| victims.remove(block));
        assert_eq!(victims.choose(), Some(2), "the horizon is raised");
    }

    #[test]
    fn fifo_selects_the_block_filled_first() {
        let mut victims = closed(Collection::Fifo, &[4, 0, 1]);
        assert_eq!(victims.choose(), Some(0));
        victims.remove(0);
        victims.close(0);
        assert_eq!(victims.choose(), Some(1));
    }

    #[test]
    fn cost_benefit_prefers_an_old_block_to_a_slightly_emptier_one() {
        let mut victims = closed(Collection::CostBenefit, &[3, 2]);
        (0..200).for_each(|_| victims.gain(7));
        assert_eq!(victims.choose(), Some(1), "both are about as old");
        victims.lose(1);
        assert_eq!(victims.choose(), Some(0), "the other has just changed");
    }

    #[test]
    fn without_a_closed_block_there_is_no_victim() {
        for collection in [Collection::Greedy, Collection::CostBenefit, Collection::Fifo] {
            let mut victims = closed(collection, &[1]);
            victims.remove(0);
            assert_eq!(victims.choose(), None);
        }
    }
}
