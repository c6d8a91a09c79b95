//! Records recent program operations with the previous contents, so that a power cut can undo them.
//!
//! Kept for requests that may still be in progress, if contents are kept at all; for longer only on
//! request ([`crate::Card::record_history`]). Limit: holds at most [`MAX_STORED_BYTES`]; older
//! operations count as permanent.

use std::collections::VecDeque;
use std::ops::Range;

use crate::nand::contents::PageContent;
use crate::request_parts::in_memory;

/// Limit of previous contents kept in memory.
const MAX_STORED_BYTES: u64 = 256 << 20;

/// A program operation of a logical page.
#[derive(Debug)]
pub struct ProgrammedPage {
    /// Completion time, in the card's time.
    pub done_ns: u64,
    pub logical_page: u32,
    /// Physical page.
    pub page: u32,
    /// Write unit of the physical page.
    pub write_unit: u32,
    /// Previous content of the logical page.
    pub before: PageContent,
}

/// A page copied by the card itself.
#[derive(Debug)]
pub struct CopiedPage {
    /// Latest completion time, in the card's time.
    pub done_ns: u64,
    /// Destination page.
    pub to: u32,
}

/// The recent history of a card, oldest first.
#[derive(Debug, Default)]
pub struct RecentWrites {
    window_ns: u64,
    programs: VecDeque<ProgrammedPage>,
    copies: VecDeque<CopiedPage>,
    stored_bytes: u64,
}

impl RecentWrites {
    /// Keeps operations for at least this long.
    pub fn keep_for(&mut self, window_ns: u64) {
        self.window_ns = window_ns;
    }

    /// How long operations are kept.
    pub fn window_ns(&self) -> u64 {
        self.window_ns
    }

    /// Drops operations that completed before `now_ns` minus the window.
    pub fn drop_before(&mut self, now_ns: u64) {
        let old = |done_ns: u64| done_ns.saturating_add(self.window_ns) <= now_ns;
        while self.programs.front().is_some_and(|program| old(program.done_ns)) {
            let program = self.programs.pop_front().expect("there is a first one");
            self.stored_bytes -= stored_size(&program.before);
        }
        while self.copies.front().is_some_and(|copy| old(copy.done_ns)) {
            self.copies.pop_front();
        }
    }

    /// Records a program operation. The pages of a write unit complete together.
    pub fn programmed(&mut self, program: ProgrammedPage) {
        let together = self.programs.iter_mut().rev();
        for earlier in together.take_while(|earlier| earlier.write_unit == program.write_unit) {
            earlier.done_ns = program.done_ns;
        }
        self.stored_bytes += stored_size(&program.before);
        self.programs.push_back(program);
        while self.stored_bytes > MAX_STORED_BYTES {
            let Some(oldest) = self.programs.pop_front() else { break };
            self.stored_bytes -= stored_size(&oldest.before);
        }
    }

    pub fn copied(&mut self, done_ns: u64, copies: impl Iterator<Item = (u32, u32)>) {
        self.copies.extend(copies.map(|(_, to)| CopiedPage { done_ns, to }));
    }

    /// Records a discard: undoing a write restores zeros in this range.
    pub fn discarded(&mut self, range: &Range<u64>, page_bytes: u64) {
        for program in &mut self.programs {
            let start = u64::from(program.logical_page) * page_bytes;
            let inside = range.start.max(start)..range.end.min(start + page_bytes);
            if !inside.is_empty() && program.before != PageContent::Zeros {
                self.stored_bytes -= stored_size(&program.before);
                let zeros = vec![0; in_memory(inside.end - inside.start)];
                let place = in_memory(inside.start - start);
                let inside = place..place + zeros.len();
                program.before = program.before.with(page_bytes, inside, &zeros);
                self.stored_bytes += stored_size(&program.before);
            }
        }
    }

    /// Removes and returns all program operations, oldest first.
    pub fn take_programs(&mut self) -> VecDeque<ProgrammedPage> {
        self.stored_bytes = 0;
        std::mem::take(&mut self.programs)
    }

    /// Restores operations that were taken.
    pub fn put_programs(&mut self, programs: VecDeque<ProgrammedPage>) {
        self.stored_bytes = programs.iter().map(|program| stored_size(&program.before)).sum();
        self.programs = programs;
    }

    /// Recorded copies, oldest first.
    pub fn copies(&self) -> &VecDeque<CopiedPage> {
        &self.copies
    }

    /// Drops all records but keeps the window.
    pub fn clear(&mut self) {
        *self = Self { window_ns: self.window_ns, ..Self::default() };
    }
}

fn stored_size(content: &PageContent) -> u64 {
    match content {
        PageContent::Zeros => 0,
        PageContent::Bytes(bytes) => bytes.len() as u64,
        PageContent::Damaged(damaged) => damaged.bytes.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_is_kept_for_its_window() {
        let mut journal = RecentWrites::default();
        let program = |done_ns| ProgrammedPage {
            done_ns,
            logical_page: 1,
            page: 2,
            write_unit: u32::try_from(done_ns).unwrap(),
            before: PageContent::from_bytes(&[1; 512]),
        };
        journal.keep_for(100);
        journal.programmed(program(50));
        journal.programmed(program(200));
        journal.copied(60, [(3, 4)].into_iter());
        journal.drop_before(149);
        assert_eq!((journal.programs.len(), journal.stored_bytes), (2, 1024));
        journal.drop_before(160);
        assert_eq!((journal.programs.len(), journal.copies().len()), (1, 0));
        assert_eq!(journal.stored_bytes, 512);
    }

    #[test]
    fn discarded_data_is_zeros_in_all_of_the_history() {
        let mut journal = RecentWrites::default();
        for (logical_page, write_unit) in [(0, 0), (1, 1), (2, 2)] {
            let before = PageContent::from_bytes(&[1; 1024]);
            journal.programmed(ProgrammedPage {
                done_ns: 9,
                logical_page,
                page: 0,
                write_unit,
                before,
            });
        }
        journal.discarded(&(512..2048), 1024);
        assert_eq!(journal.stored_bytes, 2048);
        let before: Vec<PageContent> =
            journal.take_programs().into_iter().map(|p| p.before).collect();
        let half = PageContent::Zeros.with(1024, 0..512, &[1; 512]);
        assert_eq!(before, [half, PageContent::Zeros, PageContent::from_bytes(&[1; 1024])]);
    }
}
