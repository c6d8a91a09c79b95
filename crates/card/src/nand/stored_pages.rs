//! Which logical page each page of the flash holds, as its spare area tells.
//!
//! Where pages can be anywhere there is a number for each. Layers that map erase blocks, or parts
//! of them, mostly have their pages in order in runs as long as what they map: of such a run only
//! the logical page of its first place is kept, and a bit for each place that is programmed, so
//! that copying it touches some words and not hundreds of numbers. A run gets a number for each
//! page when a page is programmed that is out of order, until it is erased. Limits: copies between
//! runs that do not begin alike, or reach over the end of one, go page by page.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::large_table::LargeTable;
use crate::model::{CardModel, LayerKind};

/// Of a run: its pages have a number each.
const LISTED: u32 = u32::MAX;

/// What the pages hold. Everywhere here a page's number is one more than that of its logical page,
/// and 0 test beds for nothing.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredPages {
    /// By page; 0 throughout a run that is not listed.
    listed: LargeTable<u32>,
    runs: Option<Runs>,
}

/// Pages that may be in order, run by run.
#[derive(Debug, Serialize, Deserialize)]
struct Runs {
    pages_per_run: u32,
    words_per_run: u32,
    /// By run; the number that belongs to its first place, 0 while nothing is in it, or [`LISTED`].
    /// Behind it a bit for each place, set where it is programmed and in order. Both are in one
    /// table because on a large card each look into another is a wait for memory.
    states: LargeTable<u64>,
}

/// What was copied of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopiedRun {
    /// How many pages.
    pub pages: u32,
    /// The last of them, counted from the first that was asked for.
    pub last: u32,
}

impl StoredPages {
    /// Of a card that was never used.
    pub fn new(model: &CardModel) -> Self {
        let pages = model.total_units() * model.pages_per_unit();
        let pages_per_run = match model.layer.kind {
            LayerKind::PageMapped => None,
            LayerKind::BlockMapped | LayerKind::LogBlock => Some(model.pages_per_unit()),
            LayerKind::UpdateLog => Some(model.pages_per_unit() / model.chunks_per_unit()),
        };
        Self {
            listed: LargeTable::new(pages as usize),
            runs: pages_per_run.map(|pages_per_run| Runs::new(pages, pages_per_run)),
        }
    }

    /// A page's number.
    #[inline]
    pub fn get(&self, page: u32) -> u32 {
        self.runs
            .as_ref()
            .and_then(|runs| runs.get(page))
            .unwrap_or_else(|| self.listed[page as usize])
    }

    /// Gives a page, which has none, its number.
    #[inline]
    pub fn put(&mut self, page: u32, number: u32) {
        if let Some(runs) = &mut self.runs {
            if runs.put(page, number) {
                return;
            }
            runs.list(page, &mut self.listed);
        }
        self.listed[page as usize] = number;
    }

    /// The numbers of pages side by side.
    pub fn all(&self, pages: Range<u32>) -> Cow<'_, [u32]> {
        let none_in_order = self.runs.as_ref().is_none_or(|runs| runs.all_listed(&pages));
        if none_in_order {
            Cow::Borrowed(&self.listed[pages.start as usize..pages.end as usize])
        } else {
            Cow::Owned(pages.map(|page| self.get(page)).collect())
        }
    }

    /// Gives the numbers of `count` pages from `from` on to as many from `to` on, which have none.
    pub fn copy(&mut self, from: u32, to: u32, count: u32) -> CopiedRun {
        let copied = match &mut self.runs {
            Some(runs) => runs.copy(from, to, count),
            None => return self.copy_listed(from, to, count),
        };
        copied.unwrap_or_else(|| self.copy_each(from, to, count))
    }

    fn copy_listed(&mut self, from: u32, to: u32, count: u32) -> CopiedRun {
        let run = from as usize..(from + count) as usize;
        self.listed.copy_within(run.clone(), to as usize);
        let run = &self.listed[run];
        let last = run.iter().rposition(|&number| number != 0).unwrap_or(0);
        CopiedRun {
            pages: run.iter().map(|&number| u32::from(number != 0)).sum(),
            last: u32::try_from(last).expect("a run is not longer than a unit"),
        }
    }

    fn copy_each(&mut self, from: u32, to: u32, count: u32) -> CopiedRun {
        let mut copied = CopiedRun::default();
        for at in 0..count {
            let number = self.get(from + at);
            if number != 0 {
                self.put(to + at, number);
                copied = CopiedRun { pages: copied.pages + 1, last: at };
            }
        }
        copied
    }

    /// Takes the numbers of `count` pages from `first` on, all that were programmed of a unit.
    pub fn erase(&mut self, first: u32, count: u32) {
        let pages = first as usize..(first + count) as usize;
        match &mut self.runs {
            Some(runs) => runs.erase(first, count, &mut self.listed),
            None => self.listed[pages].fill(0),
        }
    }

    /// The bytes of memory that this takes when all of the card is in use.
    pub fn memory_bytes(&self) -> usize {
        self.listed.memory_bytes() + self.runs.as_ref().map_or(0, Runs::memory_bytes)
    }
}

impl Runs {
    fn new(pages: u32, pages_per_run: u32) -> Self {
        let runs = pages.div_ceil(pages_per_run) as usize;
        let words_per_run = 1 + pages_per_run.div_ceil(u64::BITS);
        let states = LargeTable::new(runs * words_per_run as usize);
        Self { pages_per_run, words_per_run, states }
    }

    fn split(&self, page: u32) -> (usize, u32) {
        ((page / self.pages_per_run) as usize, page % self.pages_per_run)
    }

    fn state(&self, run: usize) -> &[u64] {
        let words = self.words_per_run as usize;
        &self.states[run * words..(run + 1) * words]
    }

    fn state_mut(&mut self, run: usize) -> &mut [u64] {
        let words = self.words_per_run as usize;
        &mut self.states[run * words..(run + 1) * words]
    }

    fn base(&self, run: usize) -> u32 {
        number(self.state(run)[0])
    }

    /// A page's number; `None` where it is listed.
    fn get(&self, page: u32) -> Option<u32> {
        let (run, place) = self.split(page);
        let (base, programmed) = (self.base(run), &self.state(run)[1..]);
        if base == LISTED {
            return None;
        }
        let word = programmed[place as usize / 64];
        Some(if word >> (place % 64) & 1 == 1 { base + place } else { 0 })
    }

    /// Whether the page is in order in its run, which is noted then.
    fn put(&mut self, page: u32, number: u32) -> bool {
        let (run, place) = self.split(page);
        let base = number.checked_sub(place).filter(|&base| base != 0);
        let in_order = base.is_some_and(|base| self.takes(run, base));
        if let Some(base) = base.filter(|_| in_order) {
            let state = self.state_mut(run);
            state[0] = u64::from(base);
            state[1 + place as usize / 64] |= 1 << (place % 64);
        }
        in_order
    }

    /// Whether pages with this number of the first place are in order in a run.
    fn takes(&self, run: usize, base: u32) -> bool {
        matches!(self.base(run), here if here == base || here == 0)
    }

    /// Gives each page of the run that a page is in its number.
    fn list(&mut self, page: u32, listed: &mut [u32]) {
        let (run, place) = self.split(page);
        let (first, state) = ((page - place) as usize, self.state_mut(run));
        let base = number(std::mem::replace(&mut state[0], u64::from(LISTED)));
        if base == LISTED {
            return;
        }
        for (word, bits) in (0_u32..).zip(&mut state[1..]) {
            while *bits != 0 {
                let place = word * 64 + bits.trailing_zeros();
                listed[first + place as usize] = base + place;
                *bits &= *bits - 1;
            }
        }
    }

    fn all_listed(&self, pages: &Range<u32>) -> bool {
        let (first, end) = (self.split(pages.start).0, pages.end.div_ceil(self.pages_per_run));
        (first..end as usize).all(|run| self.base(run) == LISTED)
    }

    /// Copies within runs that are in order; `None`, and nothing done, elsewhere.
    fn copy(&mut self, from: u32, to: u32, count: u32) -> Option<CopiedRun> {
        let ((from, from_place), (to, to_place)) = (self.split(from), self.split(to));
        let base = self.base(from);
        let whole = from_place.max(to_place) + count <= self.pages_per_run;
        if base == LISTED || !whole {
            return None;
        }
        if base == 0 {
            return Some(CopiedRun::default());
        }
        let new_base = (base + from_place).checked_sub(to_place).filter(|&base| base != 0);
        let new_base = new_base.filter(|&base| self.takes(to, base))?;
        let bits_of =
            |run: usize, place: u32| (run * self.words_per_run as usize + 1) * 64 + place as usize;
        let (from, to_bit) = (bits_of(from, from_place), bits_of(to, to_place));
        let mut copied = CopiedRun::default();
        for at in (0..count).step_by(64) {
            let bits = load(&self.states, from + at as usize, (count - at).min(64));
            store(&mut self.states, to_bit + at as usize, bits);
            if bits != 0 {
                copied.pages += bits.count_ones();
                copied.last = at + bits.ilog2();
            }
        }
        if copied.pages > 0 {
            self.state_mut(to)[0] = u64::from(new_base);
        }
        Some(copied)
    }

    fn erase(&mut self, first: u32, count: u32, listed: &mut [u32]) {
        let end = first + count;
        for run in self.split(first).0..end.div_ceil(self.pages_per_run) as usize {
            if self.base(run) == LISTED {
                let start = run * self.pages_per_run as usize;
                let run_end = start + self.pages_per_run as usize;
                listed[start..run_end.min(end as usize)].fill(0);
            }
            self.state_mut(run).fill(0);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.states.memory_bytes()
    }
}

/// What test beds for the first place of a run.
fn number(base: u64) -> u32 {
    u32::try_from(base).expect("it is a page's number")
}

/// Up to 64 bits from bit `start` on.
fn load(words: &[u64], start: usize, count: u32) -> u64 {
    let (word, shift) = (start / 64, start % 64);
    let low = words[word] >> shift;
    let beyond = shift + count as usize > 64;
    let high = if beyond { words[word + 1] << (64 - shift) } else { 0 };
    (low | high) & (u64::MAX >> (64 - count))
}

/// Sets bits from bit `start` on.
fn store(words: &mut [u64], start: usize, bits: u64) {
    let (word, shift) = (start / 64, start % 64);
    words[word] |= bits << shift;
    let high = if shift == 0 { 0 } else { bits >> (64 - shift) };
    if high != 0 {
        words[word + 1] |= high;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u32 = 4 * 100;

    /// Runs of a hundred pages, and the same page by page.
    fn both() -> [StoredPages; 2] {
        [Some(Runs::new(PAGES, 100)), None]
            .map(|runs| StoredPages { listed: LargeTable::new(PAGES as usize), runs })
    }

    fn assert_same([runs, each]: &[StoredPages; 2]) {
        for page in 0..PAGES {
            assert_eq!(runs.get(page), each.get(page), "page {page}");
        }
        for (start, end) in [(0, PAGES), (90, 110), (100, 200), (50, 114)] {
            assert_eq!(runs.all(start..end), each.all(start..end));
        }
    }

    #[test]
    fn runs_hold_the_same_as_single_pages() {
        for gap in [1, 2, 3, 70] {
            for (from, to, count) in [(0, 200, 100), (3, 203, 90), (5, 230, 66), (40, 300, 60)] {
                let mut held = both();
                let copied = held.each_mut().map(|held| {
                    for page in (0..100).step_by(gap) {
                        held.put(page, 1000 + page);
                    }
                    let first = held.copy(from, to, count);
                    held.put(399, 5);
                    let again = held.copy(from, 100 + from, 1);
                    let other = held.copy(399, 399 - 100, 1);
                    (first.pages, first.last * u32::from(first.pages > 0), again.pages, other)
                });
                assert_eq!(copied[0], copied[1]);
                assert_same(&held);
                held.iter_mut().for_each(|held| held.erase(0, 100));
                held.iter_mut().for_each(|held| held.erase(200, 200));
                assert_same(&held);
                let [runs, _] = &held;
                assert!(runs.listed[..100].iter().all(|&number| number == 0));
            }
        }
    }

    #[test]
    fn a_page_out_of_order_changes_nothing_of_the_others() {
        let mut held = both();
        held.iter_mut().for_each(|held| {
            (0..70).for_each(|page| held.put(page, 301 + page));
            held.put(75, 7);
            held.put(76, 377);
            held.copy(60, 160, 40);
            held.copy(0, 200, 50);
            held.copy(0, 250, 50);
        });
        assert_same(&held);
        let [runs, _] = held;
        let bases = runs.runs.map(|runs| [0, 1, 2, 3].map(|run| runs.base(run)));
        assert_eq!(bases, Some([LISTED, LISTED, LISTED, 0]));
    }
}
