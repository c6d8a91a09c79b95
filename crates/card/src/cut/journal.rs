//! What was programmed lately, and what was there before: what a cut can undo.
//!
//! Always kept for requests that may still be under way, where contents are kept at all; for
//! longer only when asked for ([`crate::Card::record_history`]). Limits: it holds at most
//! [`MAX_HELD_BYTES`]; what is older counts as done for good.

use std::collections::VecDeque;
use std::ops::Range;

use crate::nand::contents::PageContent;
use crate::request_parts::in_memory;

/// Old contents held for the sake of a cut that may never come.
const MAX_HELD_BYTES: u64 = 256 << 20;

/// A logical page that was programmed.
#[derive(Debug)]
pub struct ProgrammedPage {
    /// When that was done, in the card's time.
    pub done_ns: u64,
    /// Which logical page.
    pub logical_page: u32,
    /// Where in the NAND.
    pub page: u32,
    /// The write unit of that.
    pub write_unit: u32,
    /// What the logical page read as before.
    pub before: PageContent,
}

/// A page that was copied by the card itself.
#[derive(Debug)]
pub struct CopiedPage {
    /// When that was done at the latest, in the card's time.
    pub done_ns: u64,
    /// To where in the NAND.
    pub to: u32,
}

/// The recent past of a card, oldest first.
#[derive(Debug, Default)]
pub struct RecentWrites {
    window_ns: u64,
    programs: VecDeque<ProgrammedPage>,
    copies: VecDeque<CopiedPage>,
    held_bytes: u64,
}

impl RecentWrites {
    /// Keeps what was done so long ago, too.
    pub fn keep_for(&mut self, window_ns: u64) {
        self.window_ns = window_ns;
    }

    /// For how long what is done is kept.
    pub fn window_ns(&self) -> u64 {
        self.window_ns
    }

    /// Forgets what was done before a time, less the window.
    pub fn forget_before(&mut self, now_ns: u64) {
        let old = |done_ns: u64| done_ns.saturating_add(self.window_ns) <= now_ns;
        while self.programs.front().is_some_and(|program| old(program.done_ns)) {
            let program = self.programs.pop_front().expect("there is a first one");
            self.held_bytes -= held(&program.before);
        }
        while self.copies.front().is_some_and(|copy| old(copy.done_ns)) {
            self.copies.pop_front();
        }
    }

    /// Notes a program operation. The pages of a write unit are done together.
    pub fn programmed(&mut self, program: ProgrammedPage) {
        let together = self.programs.iter_mut().rev();
        for earlier in together.take_while(|earlier| earlier.write_unit == program.write_unit) {
            earlier.done_ns = program.done_ns;
        }
        self.held_bytes += held(&program.before);
        self.programs.push_back(program);
        while self.held_bytes > MAX_HELD_BYTES {
            let Some(oldest) = self.programs.pop_front() else { break };
            self.held_bytes -= held(&oldest.before);
        }
    }

    /// Notes copies.
    pub fn copied(&mut self, done_ns: u64, copies: impl Iterator<Item = (u32, u32)>) {
        self.copies.extend(copies.map(|(_, to)| CopiedPage { done_ns, to }));
    }

    /// A range of bytes was discarded: whatever a cut undoes, it is zeros.
    pub fn discarded(&mut self, range: &Range<u64>, page_bytes: u64) {
        for program in &mut self.programs {
            let start = u64::from(program.logical_page) * page_bytes;
            let inside = range.start.max(start)..range.end.min(start + page_bytes);
            if !inside.is_empty() && program.before != PageContent::Zeros {
                self.held_bytes -= held(&program.before);
                let zeros = vec![0; in_memory(inside.end - inside.start)];
                let place = in_memory(inside.start - start);
                let inside = place..place + zeros.len();
                program.before = program.before.with(page_bytes, inside, &zeros);
                self.held_bytes += held(&program.before);
            }
        }
    }

    /// Takes out everything programmed, oldest first.
    pub fn take_programs(&mut self) -> VecDeque<ProgrammedPage> {
        self.held_bytes = 0;
        std::mem::take(&mut self.programs)
    }

    /// Puts back what was taken out.
    pub fn put_programs(&mut self, programs: VecDeque<ProgrammedPage>) {
        self.held_bytes = programs.iter().map(|program| held(&program.before)).sum();
        self.programs = programs;
    }

    /// What was copied, oldest first.
    pub fn copies(&self) -> &VecDeque<CopiedPage> {
        &self.copies
    }

    /// Forgets everything, but not for how long to keep it.
    pub fn clear(&mut self) {
        *self = Self { window_ns: self.window_ns, ..Self::default() };
    }
}

fn held(content: &PageContent) -> u64 {
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
    fn the_past_is_kept_for_its_window() {
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
        journal.forget_before(149);
        assert_eq!((journal.programs.len(), journal.held_bytes), (2, 1024));
        journal.forget_before(160);
        assert_eq!((journal.programs.len(), journal.copies().len()), (1, 0));
        assert_eq!(journal.held_bytes, 512);
    }

    #[test]
    fn what_was_discarded_is_zeros_in_all_of_the_past() {
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
        assert_eq!(journal.held_bytes, 2048);
        let before: Vec<PageContent> =
            journal.take_programs().into_iter().map(|p| p.before).collect();
        let half = PageContent::Zeros.with(1024, 0..512, &[1; 512]);
        assert_eq!(before, [half, PageContent::Zeros, PageContent::from_bytes(&[1; 1024])]);
    }
}
