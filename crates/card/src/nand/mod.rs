//! The flash: erase blocks of pages that are read, programmed once in ascending order, and erased
//! together. Each operation is counted and occupies its die.
//!
//! A *page* here is the unit that a translation layer maps (the model's map unit). Consecutive
//! pages of one write unit cost one program operation together, until [`Nand::close_write_unit`]
//! prevents that. The write units of an erase block alternate between the dies, which operate in
//! parallel. A programmed page stores its logical page number, like the spare area of real flash,
//! and its contents ([`contents`]). Factory-bad blocks are not used. Limits: no read disturb and no
//! errors in use; blocks fail only with the model's `wear_out` section ([`life`]) and otherwise
//! work beyond their rated endurance; data of a write unit that was read serves only the same
//! request. Source of the rules: ONFI 4.x, "page programming order" (pages of a block are
//! programmed in ascending order, each once between erasures).

pub mod contents;
mod copies;
pub mod life;
mod schedule;
mod stored_pages;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::counters::ErasesPerBlock;
use crate::model::CardModel;
use contents::{PageBytes, PageContent, RetentionPolicy};
use life::{BlockLives, SpareBlocks};
use schedule::DieSchedule;
use stored_pages::StoredPages;

/// Marks the absence of a page or block in a table.
pub const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Block {
    erases: u32,
    next_page: u32,
    cells: Cells,
}

/// Use of the cells of an erase block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Cells {
    /// All bits of each cell.
    #[default]
    MultiBit,
    /// One bit per cell.
    OneBit,
    /// Factory-bad or failed, not used.
    Bad,
}

/// Operation counts, in write units for programs and reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NandCounters {
    pub reads: u64,
    pub programs: u64,
    pub erases: u64,
}

/// The wear of an erase block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockWear {
    pub erases: u32,
    /// Rated erase cycles of its current use.
    pub rated_cycles: u64,
}

/// Operation times in nanoseconds, and endurance.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Ratings {
    read_ns: u64,
    program_ns: u64,
    erase_ns: u64,
    /// Rated erase cycles.
    endurance_cycles: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Nand {
    pages_per_block: u32,
    pages_per_write_unit: u32,
    pages_per_pslc_block: u32,
    page_bytes: u64,
    multi_bit: Ratings,
    one_bit: Ratings,
    /// Time to transfer a copied write unit through the controller.
    copy_ns: u64,
    blocks: Vec<Block>,
    stored: StoredPages,
    /// The write unit that can take more pages without another program operation.
    open_write_unit: u32,
    /// The write unit that this request read last.
    read_write_unit: u32,
    schedule: DieSchedule,
    contents: PageBytes,
    /// The content of the next program operation.
    #[serde(skip)]
    register: PageContent,
    counters: NandCounters,
    /// Computed from the model and the state, see [`Nand::restore_lives`].
    #[serde(skip)]
    lives: Option<BlockLives>,
}

impl Nand {
    /// New flash: erased, without wear.
    pub fn new(model: &CardModel, keep: RetentionPolicy) -> Self {
        let blocks = model.total_blocks() as usize;
        let pages_per_block = model.pages_per_block();
        let nand = &model.nand;
        let multi_bit = Ratings {
            read_ns: nand.read_ns,
            program_ns: nand.program_ns,
            erase_ns: nand.erase_ns,
            endurance_cycles: nand.endurance_cycles,
        };
        let one_bit = nand.pslc.as_ref().map_or(multi_bit, |pslc| Ratings {
            read_ns: pslc.read_ns,
            program_ns: pslc.program_ns,
            erase_ns: pslc.erase_ns,
            endurance_cycles: pslc.endurance_cycles,
        });
        let mut states = vec![Block::default(); blocks];
        for bad in model.factory_bad_units() {
            states[bad as usize].cells = Cells::Bad;
        }
        let write_units = pages_per_block / model.pages_per_write_unit();
        let mut nand = Self {
            pages_per_block,
            pages_per_write_unit: model.pages_per_write_unit(),
            pages_per_pslc_block: write_units / nand.cell.bits() * model.pages_per_write_unit(),
            page_bytes: model.map_unit_bytes(),
            multi_bit,
            one_bit,
            copy_ns: nand.copy_ns,
            blocks: states,
            stored: StoredPages::new(model),
            open_write_unit: NONE,
            read_write_unit: NONE,
            schedule: DieSchedule::new(nand.dies),
            contents: PageBytes::new(keep, model.map_unit_bytes()),
            register: PageContent::Zeros,
            counters: NandCounters::default(),
            lives: None,
        };
        nand.restore_lives(model);
        nand
    }

    /// Computes what is not saved: when blocks fail.
    pub fn restore_lives(&mut self, model: &CardModel) {
        let lives =
            BlockLives::new(model, |block| self.is_bad(block), |block| self.erases_of(block));
        self.lives = lives;
    }

    /// The spare blocks; `None` if blocks never fail.
    pub fn spare_blocks(&self) -> Option<SpareBlocks> {
        self.lives.as_ref().map(BlockLives::spares)
    }

    /// Whether no more writes are accepted.
    pub fn is_worn_out(&self) -> bool {
        self.spare_blocks().is_some_and(|spares| spares.worn_out)
    }

    /// Pages per erase block at full bits per cell.
    pub fn pages_per_block(&self) -> u32 {
        self.pages_per_block
    }

    /// Pages of this erase block in its current use.
    pub fn pages_in(&self, block: u32) -> u32 {
        match self.blocks[block as usize].cells {
            Cells::MultiBit => self.pages_per_block,
            Cells::OneBit => self.pages_per_pslc_block,
            Cells::Bad => 0,
        }
    }

    pub fn pages_per_write_unit(&self) -> u32 {
        self.pages_per_write_unit
    }

    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    pub fn write_unit_bytes(&self) -> u64 {
        self.page_bytes * u64::from(self.pages_per_write_unit)
    }

    /// Number of all erase blocks.
    pub fn block_count(&self) -> u32 {
        u32::try_from(self.blocks.len()).expect("a checked model has fewer pages than 2^32")
    }

    /// The page at index `place` of `block`.
    pub fn page_at(&self, block: u32, place: u32) -> u32 {
        block * self.pages_per_block + place
    }

    /// The erase block of a page.
    pub fn block_of(&self, page: u32) -> u32 {
        page / self.pages_per_block
    }

    /// Begins a request: operations start at `at_ns` of the card's time, or when their die is free.
    pub fn begin(&mut self, at_ns: u64) {
        self.read_write_unit = NONE;
        self.schedule.begin(at_ns);
    }

    /// Further operations of this request start at `at_ns` or later.
    pub fn not_before(&mut self, at_ns: u64) {
        self.schedule.not_before(at_ns);
    }

    /// Completion time of all operations since [`Nand::begin`].
    pub fn finished_ns(&self) -> u64 {
        self.schedule.finished_ns()
    }

    /// Further operations wait for all reads so far.
    pub fn wait_for_data(&mut self) {
        self.schedule.wait_for_data();
    }

    /// Keeps the card busy with work other than flash operations.
    pub fn wait(&mut self, time_ns: u64) {
        self.schedule.wait(time_ns);
    }

    fn times(&self, block: u32) -> Ratings {
        if self.blocks[block as usize].cells == Cells::OneBit {
            self.one_bit
        } else {
            self.multi_bit
        }
    }

    /// Reads a page.
    ///
    /// # Panics
    /// When the page is erased.
    pub fn read(&mut self, page: u32) {
        self.read_taking(page, 0);
    }

    fn read_for_copy(&mut self, page: u32) {
        self.read_taking(page, self.copy_ns);
    }

    fn read_taking(&mut self, page: u32, more_ns: u64) {
        assert!(self.stored.get(page) != 0, "page {page} is read while erased");
        let write_unit = page / self.pages_per_write_unit;
        if write_unit == self.read_write_unit {
            return;
        }
        self.read_write_unit = write_unit;
        self.counters.reads += 1;
        let read_ns = self.times(self.block_of(page)).read_ns + more_ns;
        self.schedule.read(write_unit, read_ns);
    }

    /// Sets the content of the next [`Nand::program`].
    pub fn load(&mut self, content: PageContent) {
        self.register = content;
    }

    /// Programs an erased page with the loaded content.
    ///
    /// # Panics
    /// When the page or a later page of its erase block is already programmed.
    pub fn program(&mut self, page: u32, logical_page: u32) {
        let content = std::mem::take(&mut self.register);
        self.put(page, logical_page);
        self.contents.put(page, content);
    }

    /// Programs an erased page and the rest of its write unit with data of the layer itself, a
    /// piece of its map. `number` identifies it and must not be a logical page.
    ///
    /// # Panics
    /// See [`Nand::program`].
    pub fn program_own(&mut self, page: u32, number: u32) {
        self.close_write_unit();
        self.put(page, number);
        self.contents.put(page, PageContent::Zeros);
        self.close_write_unit();
    }

    fn put(&mut self, page: u32, logical_page: u32) {
        let number = self.block_of(page);
        let place = page % self.pages_per_block;
        assert!(place < self.pages_in(number), "page {page} lies behind its block's end");
        let block = &mut self.blocks[number as usize];
        assert!(
            place >= block.next_page,
            "page {page} is programmed again or behind one that was programmed"
        );
        block.next_page = place + 1;
        self.stored.put(page, logical_page + 1);
        let write_unit = page / self.pages_per_write_unit;
        if write_unit != self.open_write_unit {
            self.open_write_unit = write_unit;
            self.counters.programs += 1;
            let program_ns = self.times(number).program_ns;
            self.schedule.program(write_unit, program_ns);
        }
        if place % self.pages_per_write_unit == self.pages_per_write_unit - 1 {
            self.open_write_unit = NONE;
        }
    }

    /// Completes the open write unit; the rest of it stays empty.
    pub fn close_write_unit(&mut self) {
        self.open_write_unit = NONE;
    }

    /// Index of the next page of `block` that can be programmed.
    pub fn next_place(&self, block: u32) -> u32 {
        let next = self.blocks[block as usize].next_page;
        let open = self.page_at(block, next.saturating_sub(1)) / self.pages_per_write_unit;
        if next == 0 || open == self.open_write_unit {
            next
        } else {
            next.next_multiple_of(self.pages_per_write_unit)
        }
    }

    pub fn erase(&mut self, block: u32) {
        let state = &mut self.blocks[block as usize];
        let used = state.next_page;
        state.next_page = 0;
        state.erases = state.erases.saturating_add(1);
        let first = self.page_at(block, 0);
        self.stored.erase(first, used);
        self.contents.erase(first, used);
        self.counters.erases += 1;
        let erase_ns = self.times(block).erase_ns;
        self.schedule.on_all_dies(erase_ns);
    }

    /// Whether the last erasure of a block failed; it can be used until it is retired.
    pub fn has_failed(&self, block: u32) -> bool {
        let erases = self.erases_of(block);
        self.lives.as_ref().is_some_and(|lives| lives.has_failed(block, erases))
    }

    /// Whether blocks fail and a spare block can replace this one.
    pub fn can_be_replaced(&self, block: u32) -> bool {
        self.lives.as_ref().is_some_and(|lives| lives.can_be_replaced(block))
    }

    /// Retires a failed block without data, if spare blocks are left and the layer can do without
    /// it now. If none is left, the device is worn out.
    pub fn retire(&mut self, block: u32, can_spare: bool) -> bool {
        let is_pslc = self.is_pslc(block);
        let Some(lives) = &mut self.lives else { return false };
        let retired = lives.retire(block, is_pslc, can_spare);
        if retired {
            self.blocks[block as usize].cells = Cells::Bad;
        }
        retired
    }

    /// Switches an erased block between one bit and all bits per cell.
    ///
    /// # Panics
    /// When the block is not erased.
    pub fn use_as_pslc(&mut self, block: u32, pslc: bool) {
        assert!(self.is_erased(block), "block {block} changes its use while it holds data");
        assert!(!self.is_bad(block), "block {block} is bad");
        self.blocks[block as usize].cells = if pslc { Cells::OneBit } else { Cells::MultiBit };
    }

    pub fn is_pslc(&self, block: u32) -> bool {
        self.blocks[block as usize].cells == Cells::OneBit
    }

    pub fn is_bad(&self, block: u32) -> bool {
        self.blocks[block as usize].cells == Cells::Bad
    }

    /// The logical page stored in a page; `None` if it is erased.
    pub fn logical_page(&self, page: u32) -> Option<u32> {
        self.stored.get(page).checked_sub(1)
    }

    /// For consecutive pages of a block, one more than the logical page; 0 if erased.
    pub fn stored(&self, block: u32, places: Range<u32>) -> Cow<'_, [u32]> {
        self.stored.all(self.page_at(block, places.start)..self.page_at(block, places.end))
    }

    /// The bytes of a page; [`PageContent::Zeros`] if contents are not kept.
    pub fn content(&self, page: u32) -> PageContent {
        self.contents.get(page)
    }

    pub fn contents(&self) -> &PageBytes {
        &self.contents
    }

    pub fn contents_mut(&mut self) -> &mut PageBytes {
        &mut self.contents
    }

    /// Whether contents are kept.
    pub fn keeps_contents(&self) -> bool {
        self.contents.keep() != RetentionPolicy::Nothing
    }

    pub fn is_erased(&self, block: u32) -> bool {
        self.blocks[block as usize].next_page == 0
    }

    pub fn erases_of(&self, block: u32) -> u32 {
        self.blocks[block as usize].erases
    }

    pub fn counters(&self) -> NandCounters {
        self.counters
    }

    /// Distribution of wear over the good blocks.
    pub fn erases_per_unit(&self) -> ErasesPerBlock {
        let erases = || self.good().map(|block| u64::from(block.erases));
        let (total, blocks): (u64, u64) = (erases().sum(), erases().count() as u64);
        ErasesPerBlock {
            least: erases().min().unwrap_or(0),
            mean_thousandths: (total * 1000).checked_div(blocks).unwrap_or(0),
            most: erases().max().unwrap_or(0),
        }
    }

    /// Blocks beyond the rated endurance of their current use.
    pub fn units_beyond_rating(&self) -> u64 {
        let rating = |block: &Block| match block.cells {
            Cells::OneBit => self.one_bit.endurance_cycles,
            _ => self.multi_bit.endurance_cycles,
        };
        self.good().filter(|block| u64::from(block.erases) > rating(block)).count() as u64
    }

    /// Erase count and rated endurance of each good block, in ascending order of blocks.
    pub fn wear(&self) -> impl Iterator<Item = BlockWear> {
        self.good().map(|block| BlockWear {
            erases: block.erases,
            rated_cycles: match block.cells {
                Cells::OneBit => self.one_bit.endurance_cycles,
                _ => self.multi_bit.endurance_cycles,
            },
        })
    }

    fn good(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(|block| block.cells != Cells::Bad)
    }

    /// Memory of the tables when the whole card is in use, without contents.
    pub fn memory_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>() + self.stored.memory_bytes()
    }
}
