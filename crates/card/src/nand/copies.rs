//! Copies single pages and runs of pages.
//!
//! A merge copies hundreds of consecutive pages. The result equals that of single copies; only the
//! simulator's work is reduced. A copied page is transferred through the controller, which checks
//! and corrects it, for `copy_ns` of the model. Limit: the die waits during the transfer. Source:
//! data sheet of the Numonyx NAND01G-B2B, section 6.4, "Copy back program" (data moved within a die
//! is not checked, so such copies should be limited).

use super::Nand;
use super::stored_pages::CopiedRun;

impl Nand {
    /// Copies a page to an erased page.
    ///
    /// # Panics
    /// See [`Nand::read`] and [`Nand::program`].
    pub fn copy(&mut self, from: u32, to: u32) {
        self.schedule.independent();
        self.read_for_copy(from);
        let logical_page = self.stored.get(from) - 1;
        self.put(to, logical_page);
        self.contents.copy(from, to);
    }

    /// Copies the programmed pages among `count` pages from `from` to the pages from `to`; each run
    /// lies within one erase block.
    ///
    /// # Panics
    /// See [`Nand::copy`].
    pub fn copy_run(&mut self, from: u32, to: u32, count: u32) {
        if count == 0 {
            return;
        }
        let plain = self.pages_per_write_unit == 1
            && !self.is_pslc(self.block_of(from))
            && !self.is_pslc(self.block_of(to));
        if plain && self.schedule.on_same_die(from, to) {
            self.copy_many(from, to, count);
        } else {
            self.copy_each(from, to, count);
        }
    }

    fn copy_each(&mut self, from: u32, to: u32, count: u32) {
        for at in 0..count {
            if self.stored.get(from + at) != 0 {
                self.copy(from + at, to + at);
            }
        }
    }

    fn copy_many(&mut self, from: u32, to: u32, count: u32) {
        let block = self.block_of(to);
        let place = to % self.pages_per_block;
        assert!(
            place >= self.blocks[block as usize].next_page && place + count <= self.pages_per_block,
            "{count} pages from page {to} on are not erased, or not of one block"
        );
        let CopiedRun { pages: copied, last } = self.stored.copy(from, to, count);
        if copied == 0 {
            return;
        }
        let reads_ns = self.multi_bit.read_ns + self.copy_ns;
        let programs_ns = self.multi_bit.program_ns;
        if copied == count || self.schedule.dies() == 1 {
            self.schedule.copies(to, copied, reads_ns, programs_ns);
        } else {
            for page in (to..to + count).filter(|&page| self.stored.get(page) != 0) {
                self.schedule.copies(page, 1, reads_ns, programs_ns);
            }
        }
        self.blocks[block as usize].next_page = place + last + 1;
        self.counters.reads += u64::from(copied);
        self.counters.programs += u64::from(copied);
        self.read_write_unit = from + last;
        self.open_write_unit = super::NONE;
        if self.keeps_contents() {
            for at in 0..count {
                if self.stored.get(to + at) != 0 {
                    self.contents.copy(from + at, to + at);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::tests::small_with;
    use crate::nand::Nand;
    use crate::nand::contents::{PageContent, RetentionPolicy};

    fn used(dies: u32) -> Nand {
        let dies = format!("dies = {dies}\ncopy_ns = 30\n[bus]");
        let model = small_with(&[("[bus]", dies.as_str())]).unwrap();
        let mut nand = Nand::new(&model, RetentionPolicy::InMemory);
        for place in [0, 1, 2, 5, 6, 9, 10, 11, 12, 13] {
            nand.load(PageContent::from_bytes(&[place as u8 + 1; 4096]));
            nand.program(place, 100 + place);
        }
        let at_ns = nand.finished_ns();
        nand.begin(at_ns);
        nand
    }

    #[test]
    fn copying_a_run_equals_copying_its_pages() {
        for dies in [1, 2, 4] {
            for (from, count) in [(0, 16), (1, 3), (3, 2), (5, 8)] {
                let (mut run, mut each) = (used(dies), used(dies));
                run.copy_run(from, 16 + from, count);
                each.copy_each(from, 16 + from, count);
                assert_eq!(run.counters(), each.counters());
                assert_eq!(run.finished_ns(), each.finished_ns(), "{dies} dies, {count} pages");
                assert_eq!(run.next_place(1), each.next_place(1));
                for page in 16..32 {
                    assert_eq!(run.logical_page(page), each.logical_page(page));
                    assert_eq!(run.content(page), each.content(page));
                }
            }
        }
    }

    #[test]
    fn a_copied_page_is_transferred_through_the_controller() {
        let mut nand = used(1);
        let start_ns = nand.finished_ns();
        nand.copy(0, 16);
        assert_eq!(nand.finished_ns() - start_ns, 50 + 30 + 700);
    }

    #[test]
    #[should_panic(expected = "not erased")]
    fn a_run_is_not_copied_over_another() {
        let mut nand = used(1);
        nand.copy_run(0, 16, 8);
        nand.copy_run(0, 16, 8);
    }
}
