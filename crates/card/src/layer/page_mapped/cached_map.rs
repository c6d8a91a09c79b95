//! A map that does not fit the card's memory: some pieces are cached, the rest is in the NAND.
//!
//! A piece is a write unit of 4-byte entries. The cache has as many pieces as the model's
//! `map_cache` allows, at least one, with CLOCK replacement. Reading or writing a page needs its
//! piece: a miss costs a read if the piece was ever written, and a program operation if the evicted
//! piece is dirty. A lookup waits for its piece; changes by a request and its garbage collection
//! are applied at its end, once per piece. Dirty pieces are only written on eviction, not on a
//! flush: after a power cut the map is rebuilt from the page numbers in the spare areas. Pieces are
//! written to their own erase blocks; the ones with the fewest current pieces are emptied when the
//! map's share of the spare blocks is used up. Limits: entries are cached by whole pieces;
//! rebuilding the map takes no time. Source: Gupta, Kim and Urgaonkar, "DFTL: a flash translation
//! layer employing demand-based selective caching of page-level address mappings" (ASPLOS 2009),
//! simplified to whole translation pages.

use serde::{Deserialize, Serialize};

use super::super::free_blocks::FreeBlocks;
use crate::counters::LayerCounters;
use crate::model::CardModel;
use crate::nand::Nand;

/// A cached piece of the map.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Slot {
    piece: u32,
    changed: bool,
    used: bool,
}

/// The cached pieces of the map, and the location of all pieces in the NAND.
#[derive(Debug, Serialize, Deserialize)]
pub struct CachedMap {
    entries_per_piece: u32,
    slots: Vec<Slot>,
    slot_limit: usize,
    hand: usize,
    /// By piece: one more than its slot, or 0 if it is not cached.
    slot_of: Vec<u32>,
    /// Pieces changed by the current request.
    touched: Vec<u32>,
    stored: StoredPieces,
}

impl CachedMap {
    /// The map of a new card; `None` if it fits in memory.
    pub fn new(model: &CardModel) -> Option<Self> {
        let cache = model.layer.map_cache.as_ref()?;
        let pieces = model.map_pieces() as usize;
        let slot_limit = usize::try_from(cache.0 / model.write_unit_bytes()).unwrap_or(pieces);
        Some(Self {
            entries_per_piece: model.entries_per_map_piece(),
            slots: Vec::new(),
            slot_limit: slot_limit.clamp(1, pieces),
            hand: 0,
            slot_of: vec![0; pieces],
            touched: Vec::new(),
            stored: StoredPieces {
                first_number: model.capacity_blocks() * model.pages_per_block(),
                at: vec![0; pieces],
                blocks: Vec::new(),
                block_limit: model.map_units() as usize,
            },
        })
    }

    /// How many more erase blocks the map may need.
    pub fn blocks_owed(&self) -> usize {
        self.stored.block_limit - self.stored.blocks.len()
    }

    /// Marks a page's entry as changed.
    pub fn change(&mut self, logical_page: u32) {
        let piece = logical_page / self.entries_per_piece;
        if self.touched.last() != Some(&piece) {
            self.touched.push(piece);
        }
    }

    /// Loads a page's entry now.
    pub fn look_up(
        &mut self,
        nand: &mut Nand,
        free: &mut FreeBlocks,
        counters: &mut LayerCounters,
        logical_page: u32,
    ) {
        let piece = logical_page / self.entries_per_piece;
        if self.bring(nand, free, counters, piece, false) {
            nand.wait_for_data();
        }
    }

    /// Applies the changes of the request.
    pub fn settle(&mut self, nand: &mut Nand, free: &mut FreeBlocks, counters: &mut LayerCounters) {
        if self.touched.is_empty() {
            return;
        }
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for &piece in &touched {
            self.bring(nand, free, counters, piece, true);
        }
        touched.clear();
        self.touched = touched;
    }

    /// Caches a piece; returns whether it was read.
    fn bring(
        &mut self,
        nand: &mut Nand,
        free: &mut FreeBlocks,
        counters: &mut LayerCounters,
        piece: u32,
        changed: bool,
    ) -> bool {
        if let Some(slot) = self.slot_of[piece as usize].checked_sub(1) {
            let slot = &mut self.slots[slot as usize];
            slot.used = true;
            slot.changed |= changed;
            return false;
        }
        let slot = self.slot_for(piece, changed);
        if let Some(old) = slot.filter(|old| old.changed) {
            self.stored.write(nand, free, old.piece);
            counters.map_writes += 1;
        }
        let read = self.stored.read(nand, piece);
        counters.map_reads += u64::from(read);
        read
    }

    /// Assigns a slot to a piece and returns the evicted entry.
    fn slot_for(&mut self, piece: u32, changed: bool) -> Option<Slot> {
        let new = Slot { piece, changed, used: true };
        if self.slots.len() < self.slot_limit {
            self.slots.push(new);
            self.slot_of[piece as usize] = number(self.slots.len());
            return None;
        }
        while std::mem::take(&mut self.slots[self.hand].used) {
            self.hand = (self.hand + 1) % self.slot_limit;
        }
        let old = std::mem::replace(&mut self.slots[self.hand], new);
        self.slot_of[old.piece as usize] = 0;
        self.slot_of[piece as usize] = number(self.hand + 1);
        self.hand = (self.hand + 1) % self.slot_limit;
        Some(old)
    }
}

/// An erase block with pieces of the map.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct MapUnit {
    block: u32,
    current: u32,
}

/// The pieces of the map in the NAND.
#[derive(Debug, Serialize, Deserialize)]
struct StoredPieces {
    /// Piece 0 is stored under this number in place of a logical page.
    first_number: u32,
    /// By piece: one more than its first page, or 0 if it was never written.
    at: Vec<u32>,
    /// The last one is open.
    blocks: Vec<MapUnit>,
    block_limit: usize,
}

impl StoredPieces {
    /// Reads a piece; `false` if it was never written.
    fn read(&self, nand: &mut Nand, piece: u32) -> bool {
        let at = self.at[piece as usize].checked_sub(1);
        at.inspect(|&page| nand.read(page)).is_some()
    }

    fn write(&mut self, nand: &mut Nand, free: &mut FreeBlocks, piece: u32) {
        if self.open_place(nand).is_none() {
            self.open_another(nand, free);
        }
        self.append(nand, piece);
    }

    fn open_place(&self, nand: &Nand) -> Option<u32> {
        let block = self.blocks.last()?.block;
        let place = nand.next_place(block);
        (place < nand.pages_per_block()).then(|| nand.page_at(block, place))
    }

    /// Opens a block; if it is the last one the map may use, empties another one into it.
    fn open_another(&mut self, nand: &mut Nand, free: &mut FreeBlocks) {
        self.blocks.push(MapUnit { block: free.take(nand), current: 0 });
        if self.blocks.len() < self.block_limit {
            return;
        }
        let full = 0..self.blocks.len() - 1;
        let victim = full.min_by_key(|&index| self.blocks[index].current);
        let victim = self.blocks[victim.expect("the map has at least three blocks")];
        for place in (0..nand.pages_per_block()).step_by(nand.pages_per_write_unit() as usize) {
            let page = nand.page_at(victim.block, place);
            let number = nand.logical_page(page).expect("a full block has no gaps");
            if self.at[(number - self.first_number) as usize] == page + 1 {
                nand.read(page);
                self.append(nand, number - self.first_number);
            }
        }
        self.blocks.retain(|block| block.block != victim.block);
        free.put(nand, victim.block);
    }

    fn append(&mut self, nand: &mut Nand, piece: u32) {
        let page = self.open_place(nand).expect("there is room in a block just opened");
        nand.program_own(page, self.first_number + piece);
        self.blocks.last_mut().expect("one is open").current += 1;
        let old = std::mem::replace(&mut self.at[piece as usize], page + 1);
        if let Some(old) = old.checked_sub(1) {
            let stored = nand.block_of(old);
            let block = self.blocks.iter_mut().find(|block| block.block == stored);
            block.expect("a current piece is in a block of the map").current -= 1;
        }
    }
}

fn number(slot: usize) -> u32 {
    u32::try_from(slot).expect("there are fewer slots than pages")
}
