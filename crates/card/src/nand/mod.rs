//! The flash itself: erase units of pages that are read, programmed once in ascending order, and
//! erased together; each operation is counted and takes its time on its die.
//!
//! A *page* here is what a translation layer maps (the card model's map unit). Write units of one
//! or more such pages are programmed at once: the pages of one write unit that are programmed one
//! after the other cost one program operation, until [`Nand::close_write_unit`] says that what is
//! programmed must not wait for more. The write units of an erase unit lie on the dies in turn, and
//! dies work at the same time. A programmed page bears the number of the logical page that it
//! holds, as the spare area of a real one does, and its contents ([`contents`]).
//! Limits: no read disturb, no errors in use; a write unit's read serves only the operations of one
//! request. Source of the rules: ONFI 4.x, "page programming order" (pages in a block are
//! programmed from the least to the most significant address, each once between erasures).

pub mod contents;
mod schedule;

use serde::{Deserialize, Serialize};

use crate::counters::ErasesPerUnit;
use crate::model::CardModel;
use contents::{Content, Contents, Keep};
use schedule::Schedule;

/// No page, or no unit, in a table of them.
pub const NONE: u32 = u32::MAX;

/// An erase unit's state.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Unit {
    erases: u32,
    next_page: u32,
    pslc: bool,
}

/// What the NAND counts. Programs and reads are counted in write units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NandCounters {
    /// Write units read.
    pub reads: u64,
    /// Write units programmed.
    pub programs: u64,
    /// Erase units erased.
    pub erases: u64,
}

/// How long operations take, in nanoseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Times {
    read_ns: u64,
    program_ns: u64,
    erase_ns: u64,
}

/// The flash of a card.
#[derive(Debug, Serialize, Deserialize)]
pub struct Nand {
    pages_per_unit: u32,
    pages_per_write_unit: u32,
    pages_per_pslc_unit: u32,
    page_bytes: u64,
    multi_bit: Times,
    one_bit: Times,
    units: Vec<Unit>,
    /// By page; one more than the number of the logical page, 0 where nothing is.
    holds: Vec<u32>,
    /// The write unit that more pages can be added to without another program operation.
    open_write_unit: u32,
    /// The write unit whose data was read last in this request.
    read_write_unit: u32,
    schedule: Schedule,
    contents: Contents,
    /// What the next program operation writes.
    #[serde(skip)]
    register: Content,
    counters: NandCounters,
}

impl Nand {
    /// New flash: erased, without wear.
    pub fn new(model: &CardModel, keep: Keep) -> Self {
        let units = model.total_units() as usize;
        let pages_per_unit = model.pages_per_unit();
        let nand = &model.nand;
        let multi_bit =
            Times { read_ns: nand.read_ns, program_ns: nand.program_ns, erase_ns: nand.erase_ns };
        let one_bit = nand.pslc.as_ref().map_or(multi_bit, |pslc| Times {
            read_ns: pslc.read_ns,
            program_ns: pslc.program_ns,
            erase_ns: pslc.erase_ns,
        });
        let write_units = pages_per_unit / model.pages_per_write_unit();
        Self {
            pages_per_unit,
            pages_per_write_unit: model.pages_per_write_unit(),
            pages_per_pslc_unit: write_units / nand.cell.bits() * model.pages_per_write_unit(),
            page_bytes: model.map_unit_bytes(),
            multi_bit,
            one_bit,
            units: vec![Unit::default(); units],
            holds: vec![0; units * pages_per_unit as usize],
            open_write_unit: NONE,
            read_write_unit: NONE,
            schedule: Schedule::new(nand.dies),
            contents: Contents::new(keep, model.map_unit_bytes()),
            register: Content::Zeros,
            counters: NandCounters::default(),
        }
    }

    /// Pages in an erase unit of several bits a cell.
    pub fn pages_per_unit(&self) -> u32 {
        self.pages_per_unit
    }

    /// How many pages this erase unit can hold, as it is used now.
    pub fn pages_in(&self, unit: u32) -> u32 {
        if self.units[unit as usize].pslc { self.pages_per_pslc_unit } else { self.pages_per_unit }
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

    /// All erase units.
    pub fn unit_count(&self) -> u32 {
        u32::try_from(self.units.len()).expect("a checked model has fewer pages than 2^32")
    }

    /// The number of the page at `place` of `unit`.
    pub fn page_at(&self, unit: u32, place: u32) -> u32 {
        unit * self.pages_per_unit + place
    }

    /// The erase unit of a page.
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

    /// Something else than the flash keeps the card busy for so long.
    pub fn wait(&mut self, time_ns: u64) {
        self.schedule.wait(time_ns);
    }

    fn times(&self, unit: u32) -> Times {
        if self.units[unit as usize].pslc { self.one_bit } else { self.multi_bit }
    }

    /// Reads a page.
    ///
    /// # Panics
    /// When the page is erased.
    pub fn read(&mut self, page: u32) {
        assert!(self.holds[page as usize] != 0, "page {page} is read while erased");
        let write_unit = page / self.pages_per_write_unit;
        if write_unit == self.read_write_unit {
            return;
        }
        self.read_write_unit = write_unit;
        self.counters.reads += 1;
        let read_ns = self.times(self.unit_of(page)).read_ns;
        self.schedule.read(write_unit, read_ns);
    }

    /// What the next [`Nand::program`] writes.
    pub fn load(&mut self, content: Content) {
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

    /// Copies a page to an erased one.
    ///
    /// # Panics
    /// As [`Nand::read`] and [`Nand::program`].
    pub fn copy(&mut self, from: u32, to: u32) {
        self.schedule.independent();
        self.read(from);
        let logical_page = self.holds[from as usize] - 1;
        self.put(to, logical_page);
        self.contents.copy(from, to);
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
        self.holds[page as usize] = logical_page + 1;
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
        let first = unit as usize * self.pages_per_unit as usize;
        self.holds[first..first + used as usize].fill(0);
        self.contents.erase(self.page_at(unit, 0), used);
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
        self.units[unit as usize].pslc = pslc;
    }

    /// Whether the unit is used with one bit per cell.
    pub fn is_pslc(&self, unit: u32) -> bool {
        self.units[unit as usize].pslc
    }

    /// The logical page that a page holds; `None` while it is erased.
    pub fn logical_page(&self, page: u32) -> Option<u32> {
        self.holds[page as usize].checked_sub(1)
    }

    /// The bytes of a page; [`Content::Zeros`] where contents are not kept.
    pub fn content(&self, page: u32) -> Content {
        self.contents.get(page)
    }

    /// The contents of all pages.
    pub fn contents_mut(&mut self) -> &mut Contents {
        &mut self.contents
    }

    /// Whether the bytes are kept at all.
    pub fn keeps_contents(&self) -> bool {
        self.contents.keep() != Keep::Nothing
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

    /// The spread of wear.
    pub fn erases_per_unit(&self) -> ErasesPerUnit {
        let erases = || self.units.iter().map(|unit| u64::from(unit.erases));
        let total: u64 = erases().sum();
        ErasesPerUnit {
            least: erases().min().unwrap_or(0),
            mean_thousandths: total * 1000 / u64::from(self.unit_count()),
            most: erases().max().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{SMALL, parse, small_but};

    fn nand() -> Nand {
        Nand::new(&parse(SMALL).unwrap(), Keep::InMemory)
    }

    fn time(nand: &mut Nand, work: impl FnOnce(&mut Nand)) -> u64 {
        let start = nand.finished_ns();
        nand.begin(start);
        work(nand);
        nand.finished_ns() - start
    }

    #[test]
    fn operations_take_their_time_and_are_counted() {
        let mut nand = nand();
        assert_eq!(time(&mut nand, |nand| nand.program(0, 7)), 700);
        assert_eq!(time(&mut nand, |nand| nand.read(0)), 50);
        assert_eq!(time(&mut nand, |nand| nand.copy(0, 16)), 750);
        assert_eq!(nand.logical_page(16), Some(7));
        assert_eq!(time(&mut nand, |nand| nand.erase(0)), 3000);
        assert_eq!(nand.logical_page(0), None);
        assert_eq!(nand.counters(), NandCounters { reads: 2, programs: 2, erases: 1 });
        let spread = nand.erases_per_unit();
        assert_eq!((spread.least, spread.mean_thousandths, spread.most), (0, 50, 1));
    }

    #[test]
    fn pages_of_one_write_unit_are_programmed_and_read_at_once() {
        let model = small_but(&[
            ("page = \"4KiB\"", "page = \"8KiB\"\nplanes = 2"),
            ("[discard]", "map_unit = \"4KiB\"\n[discard]"),
        ]);
        let mut nand = Nand::new(&model.unwrap(), Keep::InMemory);
        let both = time(&mut nand, |nand| {
            nand.program(0, 1);
            nand.program(1, 2);
        });
        assert_eq!((both, nand.next_place(0)), (700, 2));
        nand.close_write_unit();
        assert_eq!(nand.next_place(0), 4);
        let reads = time(&mut nand, |nand| {
            nand.read(0);
            nand.read(1);
        });
        assert_eq!(reads, 50);
        assert_eq!(nand.counters(), NandCounters { reads: 1, programs: 1, erases: 0 });
    }

    #[test]
    fn dies_work_at_the_same_time() {
        let mut nand =
            Nand::new(&small_but(&[("[bus]", "dies = 2\n[bus]")]).unwrap(), Keep::InMemory);
        let two = time(&mut nand, |nand| {
            nand.program(0, 1);
            nand.program(1, 2);
        });
        assert_eq!(two, 700);
        assert_eq!(time(&mut nand, |nand| nand.program(2, 3)), 700);
    }

    #[test]
    fn contents_go_where_the_page_goes() {
        let mut nand = nand();
        nand.load(Content::from_bytes(&[5; 4096]));
        nand.program(0, 7);
        nand.program(1, 8);
        nand.copy(0, 16);
        nand.erase(0);
        assert_eq!(nand.content(16), Content::from_bytes(&[5; 4096]));
        assert_eq!(nand.content(1), Content::Zeros);
    }

    #[test]
    #[should_panic(expected = "programmed again")]
    fn a_page_is_not_programmed_twice() {
        let mut nand = nand();
        nand.program(3, 0);
        nand.program(3, 0);
    }

    #[test]
    #[should_panic(expected = "behind one")]
    fn pages_are_programmed_in_ascending_order() {
        let mut nand = nand();
        nand.program(3, 0);
        nand.program(2, 0);
    }

    #[test]
    #[should_panic(expected = "while erased")]
    fn an_erased_page_is_not_read() {
        nand().read(0);
    }
}
