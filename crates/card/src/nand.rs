//! The flash itself: erase units of pages that are read, programmed once in ascending order, and
//! erased together; each operation is counted and takes its time.
//!
//! A programmed page bears a stamp, as the spare area of a real one does: which logical page it
//! holds and when that was written by the host. The bytes are not here but in
//! [`crate::store`]. Limits: no read disturb, no bad units, no errors; one operation at a time.
//! Source of the rules: ONFI 4.x, "page programming order" (pages in a block are programmed
//! from the least to the most significant address, each once between erasures).

use crate::counters::ErasesPerUnit;
use crate::model::CardModel;

/// What a programmed page says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// The logical page it holds.
    pub logical_page: u32,
    /// Which host write wrote it, from 1; 0 means that the page is erased.
    sequence: u64,
}

impl Stamp {
    /// Which of the host's page writes wrote it, counted from 1.
    pub fn sequence(self) -> u64 {
        self.sequence
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Unit {
    erases: u32,
    /// Pages before this one cannot be programmed any more.
    next_page: u32,
}

/// The totals of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NandCounters {
    /// Pages read.
    pub pages_read: u64,
    /// Pages programmed.
    pub pages_programmed: u64,
    /// Erase units erased.
    pub erases: u64,
}

/// The erase units of a card. A page is addressed by its number over all units.
#[derive(Debug)]
pub struct Nand {
    pages_per_unit: u32,
    page_bytes: u64,
    read_ns: u64,
    program_ns: u64,
    erase_ns: u64,
    units: Vec<Unit>,
    stamps: Vec<Stamp>,
    sequence: u64,
    counters: NandCounters,
}

impl Nand {
    /// Flash as it leaves the factory: all erased, no wear.
    pub fn new(model: &CardModel) -> Self {
        let units = model.total_units() as usize;
        let pages = units * model.pages_per_unit() as usize;
        Self {
            pages_per_unit: model.pages_per_unit(),
            page_bytes: model.nand.page.0,
            read_ns: model.nand.read_ns,
            program_ns: model.nand.program_ns,
            erase_ns: model.nand.erase_ns,
            units: vec![Unit::default(); units],
            stamps: vec![Stamp::default(); pages],
            sequence: 0,
            counters: NandCounters::default(),
        }
    }

    /// Pages in an erase unit.
    pub fn pages_per_unit(&self) -> u32 {
        self.pages_per_unit
    }

    /// The size of a page, in bytes.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// The number of erase units.
    pub fn unit_count(&self) -> u32 {
        u32::try_from(self.units.len()).expect("a checked model has fewer than 2^32 pages")
    }

    /// The page at a place in an erase unit.
    pub fn page_at(&self, unit: u32, place: u32) -> u32 {
        unit * self.pages_per_unit + place
    }

    /// Reads a page; returns the time it takes.
    ///
    /// # Panics
    /// When the page is erased: a layer has no reason to read it.
    pub fn read(&mut self, page: u32) -> u64 {
        assert!(self.stamp(page).is_some(), "page {page} is read while erased");
        self.counters.pages_read += 1;
        self.read_ns
    }

    /// Programs a page with what the host writes to `logical_page`; returns the time it takes.
    ///
    /// # Panics
    /// When the page, or a later one of its unit, was programmed since the last erasure.
    pub fn program(&mut self, page: u32, logical_page: u32) -> u64 {
        self.sequence += 1;
        self.put(page, Stamp { logical_page, sequence: self.sequence })
    }

    /// Copies a page, by way of the controller; returns the time it takes.
    ///
    /// # Panics
    /// As [`Nand::read`] and [`Nand::program`].
    pub fn copy(&mut self, from: u32, to: u32) -> u64 {
        let stamp = self.stamps[from as usize];
        self.read(from) + self.put(to, stamp)
    }

    fn put(&mut self, page: u32, stamp: Stamp) -> u64 {
        let unit = &mut self.units[(page / self.pages_per_unit) as usize];
        let place = page % self.pages_per_unit;
        assert!(
            place >= unit.next_page,
            "page {page} is programmed again or behind one that was programmed"
        );
        unit.next_page = place + 1;
        self.stamps[page as usize] = stamp;
        self.counters.pages_programmed += 1;
        self.program_ns
    }

    /// Erases a unit; returns the time it takes.
    pub fn erase(&mut self, unit: u32) -> u64 {
        let state = &mut self.units[unit as usize];
        state.next_page = 0;
        state.erases = state.erases.saturating_add(1);
        let first = unit as usize * self.pages_per_unit as usize;
        self.stamps[first..first + self.pages_per_unit as usize].fill(Stamp::default());
        self.counters.erases += 1;
        self.erase_ns
    }

    /// What a page holds; `None` when it is erased.
    pub fn stamp(&self, page: u32) -> Option<Stamp> {
        Some(self.stamps[page as usize]).filter(|stamp| stamp.sequence > 0)
    }

    /// Whether no page of a unit was programmed since its last erasure.
    pub fn is_erased(&self, unit: u32) -> bool {
        self.units[unit as usize].next_page == 0
    }

    /// How often a unit has been erased.
    pub fn erases_of(&self, unit: u32) -> u32 {
        self.units[unit as usize].erases
    }

    /// The totals since the factory.
    pub fn counters(&self) -> NandCounters {
        self.counters
    }

    /// How the erasures are spread over the units.
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
    use crate::model::tests::{SMALL, parse};

    fn nand() -> Nand {
        Nand::new(&parse(SMALL).unwrap())
    }

    #[test]
    fn operations_take_their_time_and_are_counted() {
        let mut nand = nand();
        assert_eq!(nand.program(0, 7), 700);
        assert_eq!(nand.read(0), 50);
        assert_eq!(nand.copy(0, 16), 750);
        assert_eq!(nand.stamp(16), nand.stamp(0));
        assert_eq!(nand.erase(0), 3000);
        assert_eq!(nand.stamp(0), None);
        let expected = NandCounters { pages_read: 2, pages_programmed: 2, erases: 1 };
        assert_eq!(nand.counters(), expected);
        let spread = nand.erases_per_unit();
        assert_eq!((spread.least, spread.mean_thousandths, spread.most), (0, 50, 1));
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
