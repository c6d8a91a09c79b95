//! What a device does that keeps its promises: classes 1 and 2, and class 3, which is class 2 in
//! smaller pieces.
//!
//! A request under way has reached the NAND as far as the time of the cut: what was programmed by
//! then is there; of the write units that the dies were programming each is there or not; the rest
//! is not. A write unit comes and goes as a whole: sectors of it that the request did not write
//! are as they were before, unless the device lets a torn write unit take them along. Then nothing
//! of the write unit can be read any more.

use std::collections::{BTreeSet, VecDeque};

use flashfit_device::random::Random;

use super::journal::ProgrammedPage;
use super::{Cut, DamageUnit, FaultClass};
use crate::cache::DirtyPage;
use crate::layer::TranslationLayer;
use crate::model::CacheOrder;
use crate::nand::contents::{DAMAGE_BYTES, PageContent};

/// What became of the pages of one write unit that were programmed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PowerCutOutcome {
    There,
    Gone,
    /// Some sectors of it are there.
    InPart,
    /// Nothing of it can be read.
    Destroyed,
}

impl Cut<'_> {
    pub(super) fn honest(&mut self) {
        let torn = self.tear();
        self.lose_cache(torn);
    }

    /// Undoes what had not been programmed yet; returns whether something is not there.
    fn tear(&mut self) -> bool {
        let mut programs = self.card.journal.take_programs();
        let at_ns = self.at_ns();
        let under_way = programs.iter().position(|program| program.done_ns > at_ns);
        let mut anything_gone = false;
        if let Some(first) = under_way {
            let torn = programs.split_off(first);
            let fates = self.fates(&torn);
            anything_gone = fates.iter().any(|&fate| fate != PowerCutOutcome::There);
            programs.extend(self.undo(torn, &fates));
        } else if self.options.fault(FaultClass::TornSector).is_some() {
            self.report.missing(FaultClass::TornSector, "no write was under way");
        }
        self.card.journal.put_programs(programs);
        anything_gone
    }

    /// The fate of each program operation, the same for all pages of a write unit.
    fn fates(&mut self, torn: &VecDeque<ProgrammedPage>) -> Vec<PowerCutOutcome> {
        let mut random = self.random(FaultClass::TornWrite);
        let in_order = self.card.cache.as_ref().is_some_and(|c| c.order() != CacheOrder::Unordered);
        // So many write units are being programmed at a time.
        let dies = if in_order { 1 } else { self.card.model.nand.dies };
        let (mut fates, mut busy, mut last) = (Vec::new(), 0, None);
        for program in torn {
            let same = last.replace(program.write_unit) == Some(program.write_unit);
            let fate = match fates.last() {
                Some(&fate) if same => fate,
                _ if program.done_ns <= self.at_ns() => PowerCutOutcome::There,
                _ => {
                    busy += 1;
                    if busy > dies {
                        PowerCutOutcome::Gone
                    } else {
                        self.interrupted.push(program.page);
                        self.chance(&mut random)
                    }
                }
            };
            fates.push(fate);
        }
        fates
    }

    fn chance(&self, random: &mut Random) -> PowerCutOutcome {
        let collateral = self.options.fault(FaultClass::TornWrite);
        let collateral = collateral.map_or(0, super::EnabledFault::value_or_default);
        let (there, destroyed) = (random.below(2) == 0, random.below(1000) < collateral);
        if destroyed {
            PowerCutOutcome::Destroyed
        } else if self.options.fault(FaultClass::TornSector).is_some() {
            PowerCutOutcome::InPart
        } else if there {
            PowerCutOutcome::There
        } else {
            PowerCutOutcome::Gone
        }
    }

    /// Gives each page what it held before, but for what is there; from the newest on, because a
    /// page holds the newest that is there. Returns the programs that remain.
    fn undo(
        &mut self,
        torn: VecDeque<ProgrammedPage>,
        fates: &[PowerCutOutcome],
    ) -> Vec<ProgrammedPage> {
        let mut settled = BTreeSet::new();
        let (mut remain, mut pages) = (Vec::new(), BTreeSet::new());
        let (mut torn_sectors, mut sectors) = (0, self.random(FaultClass::TornSector));
        for (program, &fate) in torn.into_iter().zip(fates).rev() {
            let logical_page = program.logical_page;
            if fate == PowerCutOutcome::There || settled.contains(&logical_page) {
                settled.insert(logical_page);
                remain.push(program);
                continue;
            }
            pages.insert(logical_page);
            let content = match fate {
                PowerCutOutcome::InPart => {
                    settled.insert(logical_page);
                    let (content, count) = self.in_part(&program, &mut sectors);
                    torn_sectors += count;
                    content
                }
                PowerCutOutcome::Destroyed => {
                    settled.insert(logical_page);
                    self.report.collateral_sectors += self.untouched_sectors(&program);
                    PageContent::lost(self.card.nand.page_bytes())
                }
                PowerCutOutcome::There | PowerCutOutcome::Gone => program.before,
            };
            self.set(logical_page, content);
        }
        self.report.add(FaultClass::TornWrite, pages.len() as u64, DamageUnit::Pages);
        self.report.add(FaultClass::TornSector, torn_sectors, DamageUnit::Sectors);
        remain.reverse();
        remain
    }

    /// What a torn page holds when only some of its sectors are there, and how many are not.
    fn in_part(&self, program: &ProgrammedPage, random: &mut Random) -> (PageContent, u64) {
        let page_bytes = self.card.nand.page_bytes();
        let now = self.nand_content(program.logical_page).to_vec(page_bytes);
        let parts = now.chunks(DAMAGE_BYTES).enumerate();
        let there: Vec<_> = parts.filter(|_| random.below(2) == 0).collect();
        let missing = now.len().div_ceil(DAMAGE_BYTES) - there.len();
        let there = there.into_iter().map(|(at, part)| (at * DAMAGE_BYTES, part));
        (program.before.with_all(page_bytes, there), missing as u64)
    }

    /// How many sectors of a program operation are as they were before it.
    fn untouched_sectors(&self, program: &ProgrammedPage) -> u64 {
        let page_bytes = self.card.nand.page_bytes();
        let now = self.nand_content(program.logical_page).to_vec(page_bytes);
        let before = program.before.to_vec(page_bytes);
        let pairs = now.chunks(DAMAGE_BYTES).zip(before.chunks(DAMAGE_BYTES));
        pairs.filter(|(now, before)| now == before).count() as u64
    }

    /// What is not in the NAND yet is lost, but for what the cache had written back of itself.
    fn lose_cache(&mut self, torn: bool) {
        let mut random = self.random(FaultClass::LostCache);
        let kept = self.options.fault(FaultClass::LostCache).and_then(|fault| fault.value);
        let Some(cache) = &mut self.card.cache else { return };
        // Behind what did not reach the NAND, nothing of an ordered cache has.
        let stopped = torn && cache.order() != CacheOrder::Unordered;
        let loss = cache.lose(&mut random, if stopped { Some(0) } else { kept });
        self.report.lost_cache_bytes = loss.lost_bytes;
        self.report.flushed_entries_lost = loss.flushed_lost;
        self.report.add(FaultClass::LostCache, loss.lost, DamageUnit::Pages);
        for dirty in &loss.kept {
            self.card.write_back(dirty, DirtyPage::bytes(dirty));
        }
        self.card.layer.settle(&mut self.card.nand);
    }

    /// A logical page as the NAND has it.
    pub(super) fn nand_content(&self, logical_page: u32) -> PageContent {
        let found = self.card.layer.locate(&self.card.nand, logical_page);
        found.map_or(PageContent::Zeros, |page| self.card.nand.content(page))
    }

    /// Lets a logical page hold something else, where it is mapped.
    pub(super) fn set(&mut self, logical_page: u32, content: PageContent) -> bool {
        let found = self.card.layer.locate(&self.card.nand, logical_page);
        if let Some(page) = found {
            self.card.nand.contents_mut().replace(page, content);
        }
        found.is_some()
    }
}
