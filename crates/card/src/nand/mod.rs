//! The flash itself: erase blocks of pages that are read, programmed once in ascending order, and
//! erased together; each operation is counted and takes its time on its die.
//!
//! A *page* here is what a translation layer maps (the card model's map unit). Write units of one
//! or more such pages are programmed at once: the pages of one write unit that are programmed one
//! after the other cost one program operation, until [`Nand::close_write_unit`] says that what is
//! programmed must not wait for more. The write units of an erase block lie on the dies in turn,
//! and dies work at the same time. A programmed page bears the number of the logical page that it
//! holds, as the spare area of a real one does, and its contents ([`contents`]). Units that were
//! bad from the beginning hold nothing. Limits: no read disturb, no errors in use; beyond its rated
//! endurance a unit works as before, and is only counted; a write unit's read serves only the
//! operations of one request. Source of the rules: ONFI 4.x, "page programming order" (pages in a
//! block are programmed from the least to the most significant address, each once between
//! erasures).

pub mod contents;
mod copies;
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
use schedule::DieSchedule;
use stored_pages::StoredPages;

/// No page, or no unit, in a table of them.
pub const NONE: u32 = u32::MAX;

/// An erase block's state.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Unit {
    erases: u32,
    next_page: u32,
    cells: Cells,
}

/// How the cells of an erase block are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Cells {
    /// With all the bits they have.
    #[default]
    MultiBit,
    /// With one bit each.
    OneBit,
    /// Not at all.
    Bad,
}

/// What the NAND counts. Programs and reads are counted in write units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NandCounters {
    /// Write units read.
    pub reads: u64,
    /// Write units programmed.
    pub programs: u64,
    /// Erase blocks erased.
    pub erases: u64,
}

/// How long operations take, in nanoseconds, and how often they can be done.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Ratings {
    read_ns: u64,
    program_ns: u64,
    erase_ns: u64,
    /// How many erasures a unit is rated for.
    endurance_cycles: u64,
}

/// The flash of a card.
#[derive(Debug, Serialize, Deserialize)]
pub struct Nand {
    pages_per_unit: u32,
    pages_per_write_unit: u32,
    pages_per_pslc_unit: u32,
    page_bytes: u64,
    multi_bit: Ratings,
    one_bit: Ratings,
    /// What a copied write unit takes on its way through the controller.
    copy_ns: u64,
    units: Vec<Unit>,
    held: StoredPages,
    /// The write unit that more pages can be added to without another program operation.
    open_write_unit: u32,
    /// The write unit whose data was read last in this request.
    read_write_unit: u32,
    schedule: DieSchedule,
    contents: PageBytes,
    /// What the next program operation writes.
    #[serde(skip)]
    register: PageContent,
    counters: NandCounters,
}

impl Nand {
    /// New flash: erased, without wear.
    pub fn new(model: &CardModel, keep: RetentionPolicy) -> Self {
        let units = model.total_units() as usize;
        let pages_per_unit = model.pages_per_unit();
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
        let mut states = vec![Unit::default(); units];
        for bad in model.factory_bad_units() {
            states[bad as usize].cells = Cells::Bad;
        }
        let write_units = pages_per_unit / model.pages_per_write_unit();
        Self {
            pages_per_unit,
            pages_per_write_unit: model.pages_per_write_unit(),
            pages_per_pslc_unit: write_units / nand.cell.bits() * model.pages_per_write_unit(),
            page_bytes: model.map_unit_bytes(),
            multi_bit,
            one_bit,
            copy_ns: nand.copy_ns,
            units: states,
            held: StoredPages::new(model),
            open_write_unit: NONE,
            read_write_unit: NONE,
            schedule: DieSchedule::new(nand.dies),
            contents: PageBytes::new(keep, model.map_unit_bytes()),
            register: PageContent::Zeros,
            counters: NandCounters::default(),
        }
    }

    /// Pages in an erase block of several bits a cell.
    pub fn pages_per_unit(&self) -> u32 {
        self.pages_per_unit
    }

    /// How many pages this erase block can hold, as it is used now.
    pub fn pages_in(&self, unit: u32) -> u32 {
        match self.units[unit as usize].cells {
            Cells::MultiBit => self.pages_per_unit,
            Cells::OneBit => self.pages_per_pslc_unit,
            Cells::Bad => 0,
        }
    }

    /// Pages in a write unit.
    pub fn pages_per_write_unit(&self) -> u32 {
        self.pages_per_write_unit
    }

    /// The size of a page, in bytes.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// The size of a write unit, in bytes.
    pub fn write_unit_bytes(&self) -> u64 {
        self.page_bytes * u64::from(self.pages_per_write_unit)
    }

    /// All erase blocks.
    pub fn unit_count(&self) -> u32 {
        u32::try_from(self.units.len()).expect("a checked model has fewer pages than 2^32")
    }

    /// The number of the page at `place` of `unit`.
    pub fn page_at(&self, unit: u32, place: u32) -> u32 {
        unit * self.pages_per_unit + place
    }

    /// The erase block of a page.
    pub fn unit_of(&self, page: u32) -> u32 {
        page / self.pages_per_unit
    }

    /// From now on operations begin at `at_ns` of the card's time or when their die is free.
    pub fn begin(&mut self, at_ns: u64) {
        self.read_write_unit = NONE;
        self.schedule.begin(at_ns);
    }

    /// The operations asked for from now on wait for `at_ns` too, within the same request.
    pub fn not_before(&mut self, at_ns: u64) {
        self.schedule.not_before(at_ns);
    }

    /// When everything asked for since [`Nand::begin`] is done.
    pub fn finished_ns(&self) -> u64 {
        self.schedule.finished_ns()
    }

    /// The operations asked for from now on wait for everything that was read.
    pub fn wait_for_data(&mut self) {
        self.schedule.wait_for_data();
    }

    /// Something else than the flash keeps the card busy for so long.
    pub fn wait(&mut self, time_ns: u64) {
        self.schedule.wait(time_ns);
    }

    fn times(&self, unit: u32) -> Ratings {
        if self.units[unit as usize].cells == Cells::OneBit { self.one_bit } else { self.multi_bit }
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
        assert!(self.held.get(page) != 0, "page {page} is read while erased");
        let write_unit = page / self.pages_per_write_unit;
        if write_unit == self.read_write_unit {
            return;
        }
        self.read_write_unit = write_unit;
        self.counters.reads += 1;
        let read_ns = self.times(self.unit_of(page)).read_ns + more_ns;
        self.schedule.read(write_unit, read_ns);
    }

    /// What the next [`Nand::program`] writes.
    pub fn load(&mut self, content: PageContent) {
        self.register = content;
    }

    /// Programs an erased page with what was loaded.
    ///
    /// # Panics
    /// When the page, or one behind it in its unit, is programmed already.
    pub fn program(&mut self, page: u32, logical_page: u32) {
        let content = std::mem::take(&mut self.register);
        self.put(page, logical_page);
        self.contents.put(page, content);
    }

    /// Programs an erased page and the rest of its write unit with what is the layer's own, a piece
    /// of its map. The number tells the layer what it is; no logical page has it.
    ///
    /// # Panics
    /// As [`Nand::program`].
    pub fn program_own(&mut self, page: u32, number: u32) {
        self.close_write_unit();
        self.put(page, number);
        self.contents.put(page, PageContent::Zeros);
        self.close_write_unit();
    }

    fn put(&mut self, page: u32, logical_page: u32) {
        let number = self.unit_of(page);
        let place = page % self.pages_per_unit;
        assert!(place < self.pages_in(number), "page {page} lies behind its unit's end");
        let unit = &mut self.units[number as usize];
        assert!(
            place >= unit.next_page,
            "page {page} is programmed again or behind one that was programmed"
        );
        unit.next_page = place + 1;
        self.held.put(page, logical_page + 1);
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

    /// What was programmed is not to wait for more: the rest of the open write unit stays empty.
    pub fn close_write_unit(&mut self) {
        self.open_write_unit = NONE;
    }

    /// The first place of `unit` that can be programmed.
    pub fn next_place(&self, unit: u32) -> u32 {
        let next = self.units[unit as usize].next_page;
        let open = self.page_at(unit, next.saturating_sub(1)) / self.pages_per_write_unit;
        if next == 0 || open == self.open_write_unit {
            next
        } else {
            next.next_multiple_of(self.pages_per_write_unit)
        }
    }

    /// Erases a unit.
    pub fn erase(&mut self, unit: u32) {
        let state = &mut self.units[unit as usize];
        let used = state.next_page;
        state.next_page = 0;
        state.erases = state.erases.saturating_add(1);
        let first = self.page_at(unit, 0);
        self.held.erase(first, used);
        self.contents.erase(first, used);
        self.counters.erases += 1;
        let erase_ns = self.times(unit).erase_ns;
        self.schedule.on_all_dies(erase_ns);
    }

    /// Uses an erased unit with one bit per cell, or with all of them.
    ///
    /// # Panics
    /// When the unit is not erased.
    pub fn use_as_pslc(&mut self, unit: u32, pslc: bool) {
        assert!(self.is_erased(unit), "unit {unit} changes its use while it holds data");
        assert!(!self.is_bad(unit), "unit {unit} is bad");
        self.units[unit as usize].cells = if pslc { Cells::OneBit } else { Cells::MultiBit };
    }

    /// Whether the unit is used with one bit per cell.
    pub fn is_pslc(&self, unit: u32) -> bool {
        self.units[unit as usize].cells == Cells::OneBit
    }

    /// Whether the unit was bad from the beginning.
    pub fn is_bad(&self, unit: u32) -> bool {
        self.units[unit as usize].cells == Cells::Bad
    }

    /// The logical page that a page holds; `None` while it is erased.
    pub fn logical_page(&self, page: u32) -> Option<u32> {
        self.held.get(page).checked_sub(1)
    }

    /// What pages side by side in a unit hold: one more than the logical page, 0 while erased.
    pub fn held(&self, unit: u32, places: Range<u32>) -> Cow<'_, [u32]> {
        self.held.all(self.page_at(unit, places.start)..self.page_at(unit, places.end))
    }

    /// The bytes of a page; [`PageContent::Zeros`] where contents are not kept.
    pub fn content(&self, page: u32) -> PageContent {
        self.contents.get(page)
    }

    /// The contents of all pages.
    pub fn contents(&self) -> &PageBytes {
        &self.contents
    }

    /// The contents of all pages.
    pub fn contents_mut(&mut self) -> &mut PageBytes {
        &mut self.contents
    }

    /// Whether the bytes are kept at all.
    pub fn keeps_contents(&self) -> bool {
        self.contents.keep() != RetentionPolicy::Nothing
    }

    /// Whether nothing is programmed in a unit.
    pub fn is_erased(&self, unit: u32) -> bool {
        self.units[unit as usize].next_page == 0
    }

    /// How often a unit was erased.
    pub fn erases_of(&self, unit: u32) -> u32 {
        self.units[unit as usize].erases
    }

    /// What was counted.
    pub fn counters(&self) -> NandCounters {
        self.counters
    }

    /// The spread of wear over the units that are not bad.
    pub fn erases_per_unit(&self) -> ErasesPerBlock {
        let erases = || self.good().map(|unit| u64::from(unit.erases));
        let (total, units): (u64, u64) = (erases().sum(), erases().count() as u64);
        ErasesPerBlock {
            least: erases().min().unwrap_or(0),
            mean_thousandths: (total * 1000).checked_div(units).unwrap_or(0),
            most: erases().max().unwrap_or(0),
        }
    }

    /// Units that were erased more often than they are rated for, each after its use now.
    pub fn units_beyond_rating(&self) -> u64 {
        let rating = |unit: &Unit| match unit.cells {
            Cells::OneBit => self.one_bit.endurance_cycles,
            _ => self.multi_bit.endurance_cycles,
        };
        self.good().filter(|unit| u64::from(unit.erases) > rating(unit)).count() as u64
    }

    fn good(&self) -> impl Iterator<Item = &Unit> {
        self.units.iter().filter(|unit| unit.cells != Cells::Bad)
    }

    /// The bytes of memory that the accounts of units and pages take when all of the card is in
    /// use, without the contents.
    pub fn memory_bytes(&self) -> usize {
        self.units.capacity() * size_of::<Unit>() + self.held.memory_bytes()
    }
}
