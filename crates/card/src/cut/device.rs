//! Faults of devices that violate their specification: classes 4 to 10.
//!
//! *Paired pages*: in an erase block with several bits per cell, an upper page shares cells with
//! a lower page that was programmed earlier. Counted in write units of one die, even ones from 2 on
//! are upper, and their lower page is three positions earlier (two for the first): the "distance 3"
//! scheme of Linux (`nand_pairing_dist3_get_info` in `drivers/mtd/nand/raw/nand_base.c`). The same
//! rule is used for three and four bits per cell, which understates the effect. *Folding window*:
//! the card breaks with probability 1/4; otherwise each page of the last written erase block is
//! lost with probability 1/2.

use std::collections::BTreeMap;

use flashfit_device::random::Random;

use super::{AbsentFault, Cut, DamageUnit, EnabledFault, FaultClass};
use crate::layer::{PageWrite, TranslationLayer};
use crate::nand::contents::PageContent;
use crate::request_parts::in_memory;

/// Time after a write during which SD cards were observed to keep working (OLPC, 2010).
const FOLDING_WINDOW_NS: u64 = 1_600_000_000;
const NOT_IN_NAND: &str = "what was written last is not in the NAND";

impl Cut<'_> {
    pub(super) fn device_faults(&mut self) {
        for class in FaultClass::ALL {
            let Some(fault) = self.options.fault(class) else { continue };
            let outcome = match class {
                FaultClass::LostCache | FaultClass::TornWrite | FaultClass::TornSector => continue,
                FaultClass::PairedPage => self.paired_page(),
                FaultClass::Rollback => self.roll_back(fault),
                FaultClass::HalfMerge => self.half_merge(),
                FaultClass::FoldingWindow => self.folding_window(fault),
                FaultClass::WeakPage => self.weak_page(fault),
                FaultClass::StaleDiscard => Ok(self.stale_discard(fault)),
                FaultClass::Brick => {
                    self.report.add(class, 1, DamageUnit::Cards);
                    continue;
                }
            };
            match outcome {
                Ok(pages) => self.report.add(class, pages, DamageUnit::Pages),
                Err(reason) => self.report.missing(class, reason),
            }
        }
    }

    fn paired_page(&mut self) -> Result<u64, &'static str> {
        if self.card.model.nand.cell.bits() == 1 {
            return Err("cells of one bit share no pages");
        }
        let interrupted = self.interrupted.iter().rev();
        let lower = interrupted.filter_map(|&page| self.lower_write_unit(page)).next();
        let lower = lower.ok_or("no upper page was being programmed")?;
        let mut destroyed = 0;
        let per_write_unit = self.card.nand.pages_per_write_unit();
        for page in lower * per_write_unit..(lower + 1) * per_write_unit {
            destroyed += u64::from(self.destroy(page));
        }
        Ok(destroyed)
    }

    /// The write unit that shares its cells with that of an upper page.
    fn lower_write_unit(&self, page: u32) -> Option<u32> {
        let nand = &self.card.nand;
        let unit = nand.block_of(page);
        if nand.is_pslc(unit) {
            return None;
        }
        let (dies, write_unit) = (self.card.model.nand.dies, page / nand.pages_per_write_unit());
        let first = nand.page_at(unit, 0) / nand.pages_per_write_unit();
        let on_die = (write_unit - first) / dies;
        let distance = match on_die {
            2 => 2,
            upper if upper % 2 == 0 && upper > 0 => 3,
            _ => return None,
        };
        Some(write_unit - distance * dies)
    }

    /// Makes a physical page unreadable; returns whether it had valid data.
    fn destroy(&mut self, page: u32) -> bool {
        let Some(logical_page) = self.logical_page(page) else { return false };
        let card = &mut *self.card;
        let lost = PageContent::lost(card.nand.page_bytes());
        card.nand.contents_mut().replace(page, lost);
        card.layer.locate(&card.nand, logical_page) == Some(page)
    }

    fn roll_back(&mut self, fault: EnabledFault) -> Result<u64, &'static str> {
        if self.card.journal.window_ns() == 0 {
            return Err(AbsentFault::NO_HISTORY);
        }
        let window_ns = fault.value_or_default() * 1_000_000;
        let since_ns = self.at_ns().saturating_sub(window_ns);
        let mut pages = std::collections::BTreeSet::new();
        for program in self.card.journal.take_programs().into_iter().rev() {
            if program.done_ns >= since_ns && self.set(program.logical_page, program.before) {
                pages.insert(program.logical_page);
            }
        }
        Ok(pages.len() as u64)
    }

    fn half_merge(&mut self) -> Result<u64, &'static str> {
        let at_ns = self.at_ns();
        let copies = self.card.journal.copies().iter();
        let under_way: Vec<u32> =
            copies.filter(|copy| copy.done_ns > at_ns).map(|copy| copy.to).collect();
        if under_way.is_empty() {
            return Err("no merge was under way");
        }
        let done = self.random(FaultClass::HalfMerge).below(under_way.len() as u64);
        let mut pages = 0;
        for &page in &under_way[in_memory(done)..] {
            let Some(logical_page) = self.logical_page(page) else { continue };
            let card = &mut *self.card;
            if card.layer.locate(&card.nand, logical_page) == Some(page) {
                card.nand.contents_mut().replace(page, PageContent::Zeros);
                pages += 1;
            }
        }
        Ok(pages)
    }

    fn folding_window(&mut self, fault: EnabledFault) -> Result<u64, &'static str> {
        let last = self.card.last_write.ok_or("nothing was ever written")?;
        if self.at_ns().saturating_sub(last.done_ns) > FOLDING_WINDOW_NS {
            return Err("the last write is more than 1.6 s ago");
        }
        let mut random = self.random(FaultClass::FoldingWindow);
        if random.below(1000) >= fault.value_or_default() {
            return Err("it went well by chance");
        }
        if random.below(4) == 0 {
            self.report.add(FaultClass::Brick, 1, DamageUnit::Cards);
            return Ok(0);
        }
        let found = self.card.layer.locate(&self.card.nand, last.logical_page);
        let page = found.ok_or(NOT_IN_NAND)?;
        let first = self.card.nand.page_at(self.card.nand.block_of(page), 0);
        let count = self.card.nand.pages_per_block();
        let lost = (first..first + count).filter(|&other| other == page || random.below(2) == 0);
        let lost: Vec<u32> = lost.collect();
        Ok(lost.into_iter().filter(|&page| self.destroy(page)).count() as u64)
    }

    fn weak_page(&mut self, fault: EnabledFault) -> Result<u64, &'static str> {
        let last = self.card.last_write.ok_or("nothing was ever written")?;
        let found = self.card.layer.locate(&self.card.nand, last.logical_page);
        let page = found.ok_or(NOT_IN_NAND)?;
        let reads = u32::try_from(fault.value_or_default()).unwrap_or(u32::MAX);
        self.card.nand.contents_mut().weaken(page, reads);
        Ok(1)
    }

    /// Maps discarded pages again, to any copy that is still in the NAND; one in four is corrupted.
    fn stale_discard(&mut self, fault: EnabledFault) -> u64 {
        let mut random = self.random(FaultClass::StaleDiscard);
        let thousandths = fault.value_or_default();
        let mut pages = 0;
        for logical_page in self.card.zeroed.pages() {
            if random.below(1000) < thousandths {
                self.card.zeroed.clear(logical_page);
                pages += 1;
            }
        }
        for (logical_page, copies) in self.unmapped_copies() {
            let chosen = random.below(copies.len() as u64);
            let page = copies[in_memory(chosen)];
            // Remapping earlier pages may have erased this one.
            let still_there = self.card.nand.logical_page(page) == Some(logical_page);
            if random.below(1000) < thousandths && still_there {
                let old = self.card.nand.content(page);
                let garbled = random.below(4) == 0;
                self.map_again(logical_page, if garbled { self.garbage(&mut random) } else { old });
                pages += 1;
            }
        }
        self.card.layer.settle(&mut self.card.nand);
        pages
    }

    /// Unmapped logical pages and the physical pages that still contain them.
    fn unmapped_copies(&self) -> BTreeMap<u32, Vec<u32>> {
        let card = &*self.card;
        let mut copies: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for page in 0..card.nand.block_count() * card.nand.pages_per_block() {
            let Some(logical_page) = self.logical_page(page) else { continue };
            if card.layer.locate(&card.nand, logical_page).is_none() {
                copies.entry(logical_page).or_default().push(page);
            }
        }
        copies
    }

    fn map_again(&mut self, logical_page: u32, content: PageContent) {
        let write = PageWrite::whole(logical_page, self.card.nand.page_bytes());
        self.card.put_page(write, |_| content);
    }

    fn garbage(&self, random: &mut Random) -> PageContent {
        let words = (0..self.card.nand.page_bytes().div_ceil(8)).map(|_| random.next_u64());
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        PageContent::from_bytes(&bytes[..in_memory(self.card.nand.page_bytes())])
    }
}
