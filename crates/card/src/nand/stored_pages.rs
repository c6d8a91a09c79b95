//! Stores the logical page number of every physical page, like the spare area of flash.
//!
//! Layers that place pages anywhere need one number per page. Layers that map erase blocks or parts
//! of them mostly keep pages in order, in runs as long as what they map. Such a run needs only the
//! logical page of its first position and one bit per programmed position, so that copying it
//! touches a few words instead of hundreds of numbers. A run switches to one number per page when a
//! page is programmed out of order, until it is erased. Limit: copies between runs with different
//! alignment, or across the end of a run, are done page by page.
use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::large_table::LargeTable;
use crate::model::{CardModel, LayerKind};

/// Marks a run with one number per page.
const LISTED: u32 = u32::MAX;

/// The stored page numbers. A number is one more than the logical page; 0 means erased.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredPages {
    /// By page; 0 for all pages of a run that is in order.
    listed: LargeTable<u32>,
    runs: Option<Runs>,
}

/// Runs of pages that may be in order.
#[derive(Debug, Serialize, Deserialize)]
struct Runs {
    pages_per_run: u32,
    words_per_run: u32,
    /// By run: the number of its first position, 0 for an empty run, or [`LISTED`]; then one bit
    /// per position, set if it is programmed and in order. One table for both, because each access
    /// to another table on a large card waits for memory.
    states: LargeTable<u64>,
}

/// The result of copying a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopiedRun {
    pub pages: u32,
    /// Index of the last copied page, relative to the first requested one.
    pub last: u32,
}

impl StoredPages {
    pub fn new(model: &CardModel) -> Self {
        let pages = model.total_blocks() * model.pages_per_block();
        let pages_per_run = match model.layer.kind {
            LayerKind::PageMapped => None,
            LayerKind::BlockMapped | LayerKind::LogBlock => Some(model.pages_per_block()),
            LayerKind::UpdateLog => Some(model.pages_per_block() / model.chunks_per_block()),
        };
        Self {
            listed: LargeTable::new(pages as usize),
            runs: pages_per_run.map(|pages_per_run| Runs::new(pages, pages_per_run)),
        }
    }

    /// The number of a page.
    #[inline]
    pub fn get(&self, page: u32) -> u32 {
        self.runs
            .as_ref()
            .and_then(|runs| runs.get(page))
            .unwrap_or_else(|| self.listed[page as usize])
    }

    /// Sets the number of an erased page.
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

    /// The numbers of consecutive pages.
    pub fn all(&self, pages: Range<u32>) -> Cow<'_, [u32]> {
        let none_in_order = self.runs.as_ref().is_none_or(|runs| runs.all_listed(&pages));
        if none_in_order {
            Cow::Borrowed(&self.listed[pages.start as usize..pages.end as usize])
        } else {
            Cow::Owned(pages.map(|page| self.get(page)).collect())
        }
    }

    /// Copies the numbers of `count` pages from `from` to erased pages from `to`.
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
            last: u32::try_from(last).expect("a run is not longer than a block"),
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

    /// Clears `count` pages from `first`: all programmed pages of a block.
    pub fn erase(&mut self, first: u32, count: u32) {
        let pages = first as usize..(first + count) as usize;
        match &mut self.runs {
            Some(runs) => runs.erase(first, count, &mut self.listed),
            None => self.listed[pages].fill(0),
        }
    }

    /// Memory when the whole card is in use.
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

    /// The number of a page; `None` if its run is listed.
    fn get(&self, page: u32) -> Option<u32> {
        let (run, place) = self.split(page);
        let (base, programmed) = (self.base(run), &self.state(run)[1..]);
        if base == LISTED {
            return None;
        }
        let word = programmed[place as usize / 64];
        Some(if word >> (place % 64) & 1 == 1 { base + place } else { 0 })
    }

    /// Records a page if it is in order within its run; returns whether it is.
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

    /// Whether a page that implies `base` for the first position is in order.
    fn takes(&self, run: usize, base: u32) -> bool {
        matches!(self.base(run), here if here == base || here == 0)
    }

    /// Converts a run to one number per page.
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

    /// Copies within runs that are in order; otherwise does nothing and returns `None`.
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

/// Converts a base to the number of the first position.
fn number(base: u64) -> u32 {
    u32::try_from(base).expect("it is a page's number")
}

/// Up to 64 bits from bit `start`.
fn load(words: &[u64], start: usize, count: u32) -> u64 {
    let (word, shift) = (start / 64, start % 64);
    let low = words[word] >> shift;
    let beyond = shift + count as usize > 64;
    let high = if beyond { words[word + 1] << (64 - shift) } else { 0 };
    (low | high) & (u64::MAX >> (64 - count))
}

/// Sets bits from bit `start`.
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

    /// Runs of 100 pages, and the same with single pages.
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
    fn runs_store_the_same_as_single_pages() {
        for gap in [1, 2, 3, 70] {
            for (from, to, count) in [(0, 200, 100), (3, 203, 90), (5, 230, 66), (40, 300, 60)] {
                let mut stored = both();
                let copied = stored.each_mut().map(|stored| {
                    for page in (0..100).step_by(gap) {
                        stored.put(page, 1000 + page);
                    }
                    let first = stored.copy(from, to, count);
                    stored.put(399, 5);
                    let again = stored.copy(from, 100 + from, 1);
                    let other = stored.copy(399, 399 - 100, 1);
                    (first.pages, first.last * u32::from(first.pages > 0), again.pages, other)
                });
                assert_eq!(copied[0], copied[1]);
                assert_same(&stored);
                stored.iter_mut().for_each(|stored| stored.erase(0, 100));
                stored.iter_mut().for_each(|stored| stored.erase(200, 200));
                assert_same(&stored);
                let [runs, _] = &stored;
                assert!(runs.listed[..100].iter().all(|&number| number == 0));
            }
        }
    }

    #[test]
    fn an_out_of_order_page_does_not_affect_others() {
        let mut stored = both();
        stored.iter_mut().for_each(|stored| {
            (0..70).for_each(|page| stored.put(page, 301 + page));
            stored.put(75, 7);
            stored.put(76, 377);
            stored.copy(60, 160, 40);
            stored.copy(0, 200, 50);
            stored.copy(0, 250, 50);
        });
        assert_same(&stored);
        let [runs, _] = stored;
        let bases = runs.runs.map(|runs| [0, 1, 2, 3].map(|run| runs.base(run)));
        assert_eq!(bases, Some([LISTED, LISTED, LISTED, 0]));
    }
}
