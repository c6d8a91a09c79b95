//! The effects of a power cut on a correct device: classes 1 and 2, and class 3, which is class 2
//! in smaller pieces.
//!
//! A request in progress has reached the NAND up to the time of the power cut: completed program
//! operations persist, those in progress each persist or not, the rest does not. A write unit
//! persists as a whole: sectors that the request did not write keep their old content, unless the
//! device lets a torn write unit destroy them; then the whole write unit is unreadable.

use std::collections::{BTreeSet, VecDeque};

use flashfit_device::random::Random;

use super::journal::ProgrammedPage;
use super::{Cut, DamageUnit, FaultClass};
use crate::cache::DirtyPage;
use crate::layer::TranslationLayer;
use crate::model::CacheOrder;
use crate::nand::contents::{DAMAGE_BYTES, PageContent};

/// The outcome of the pages of one write unit that were programmed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PowerCutOutcome {
    Persisted,
    Gone,
    /// Some sectors persist.
    InPart,
    /// The write unit is unreadable.
    Destroyed,
}

impl Cut<'_> {
    pub(super) fn honest(&mut self) {
        let torn = self.tear();
        self.lose_cache(torn);
    }

    /// Undoes incomplete program operations; returns whether anything is missing.
    fn tear(&mut self) -> bool {
        let mut programs = self.card.journal.take_programs();
        let at_ns = self.at_ns();
        let under_way = programs.iter().position(|program| program.done_ns > at_ns);
        let mut anything_missing = false;
        if let Some(first) = under_way {
            let torn = programs.split_off(first);
            let outcomes = self.outcomes(&torn);
            anything_missing =
                outcomes.iter().any(|&outcome| outcome != PowerCutOutcome::Persisted);
            programs.extend(self.undo(torn, &outcomes));
        } else if self.options.fault(FaultClass::TornSector).is_some() {
            self.report.missing(FaultClass::TornSector, "no write was under way");
        }
        self.card.journal.put_programs(programs);
        anything_missing
    }

    /// The outcome of each program operation, equal for all pages of a write unit.
    fn outcomes(&mut self, torn: &VecDeque<ProgrammedPage>) -> Vec<PowerCutOutcome> {
        let mut random = self.random(FaultClass::TornWrite);
        let in_order = self.card.cache.as_ref().is_some_and(|c| c.order() != CacheOrder::Unordered);
        // The number of write units that are programmed concurrently.
        let dies = if in_order { 1 } else { self.card.model.nand.dies };
        let (mut outcomes, mut busy, mut last) = (Vec::new(), 0, None);
        for program in torn {
            let same = last.replace(program.write_unit) == Some(program.write_unit);
            let outcome = match outcomes.last() {
                Some(&outcome) if same => outcome,
                _ if program.done_ns <= self.at_ns() => PowerCutOutcome::Persisted,
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
            outcomes.push(outcome);
        }
        outcomes
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
            PowerCutOutcome::Persisted
        } else {
            PowerCutOutcome::Gone
        }
    }

    /// Restores the previous content of pages that did not persist, newest first, because a page
    /// holds its newest persisted content. Returns the remaining program operations.
    fn undo(
        &mut self,
        torn: VecDeque<ProgrammedPage>,
        outcomes: &[PowerCutOutcome],
    ) -> Vec<ProgrammedPage> {
        let mut settled = BTreeSet::new();
        let (mut remain, mut pages) = (Vec::new(), BTreeSet::new());
        let (mut torn_sectors, mut sectors) = (0, self.random(FaultClass::TornSector));
        for (program, &outcome) in torn.into_iter().zip(outcomes).rev() {
            let logical_page = program.logical_page;
            if outcome == PowerCutOutcome::Persisted || settled.contains(&logical_page) {
                settled.insert(logical_page);
                remain.push(program);
                continue;
            }
            pages.insert(logical_page);
            let content = match outcome {
                PowerCutOutcome::InPart => {
                    settled.insert(logical_page);
                    let (content, count) = self.partial_content(&program, &mut sectors);
                    torn_sectors += count;
                    content
                }
                PowerCutOutcome::Destroyed => {
                    settled.insert(logical_page);
                    self.report.collateral_sectors += self.untouched_sectors(&program);
                    PageContent::lost(self.card.nand.page_bytes())
                }
                PowerCutOutcome::Persisted | PowerCutOutcome::Gone => program.before,
            };
            self.set(logical_page, content);
        }
        self.report.add(FaultClass::TornWrite, pages.len() as u64, DamageUnit::Pages);
        self.report.add(FaultClass::TornSector, torn_sectors, DamageUnit::Sectors);
        remain.reverse();
        remain
    }

    /// The content of a page of which only some sectors persist, and how many do not.
    fn partial_content(&self, program: &ProgrammedPage, random: &mut Random) -> (PageContent, u64) {
        let page_bytes = self.card.nand.page_bytes();
        let now = self.nand_content(program.logical_page).to_vec(page_bytes);
        let parts = now.chunks(DAMAGE_BYTES).enumerate();
        let there: Vec<_> = parts.filter(|_| random.below(2) == 0).collect();
        let missing = now.len().div_ceil(DAMAGE_BYTES) - there.len();
        let there = there.into_iter().map(|(at, part)| (at * DAMAGE_BYTES, part));
        (program.before.with_all(page_bytes, there), missing as u64)
    }

    /// Sectors of a program operation that keep their old content.
    fn untouched_sectors(&self, program: &ProgrammedPage) -> u64 {
        let page_bytes = self.card.nand.page_bytes();
        let now = self.nand_content(program.logical_page).to_vec(page_bytes);
        let before = program.before.to_vec(page_bytes);
        let pairs = now.chunks(DAMAGE_BYTES).zip(before.chunks(DAMAGE_BYTES));
        pairs.filter(|(now, before)| now == before).count() as u64
    }

    /// Loses the cache, except what it had already written back.
    fn lose_cache(&mut self, torn: bool) {
        let mut random = self.random(FaultClass::LostCache);
        let kept = self.options.fault(FaultClass::LostCache).and_then(|fault| fault.value);
        let Some(cache) = &mut self.card.cache else { return };
        // If a program operation is missing, an ordered cache has written nothing after it.
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

    pub(super) fn nand_content(&self, logical_page: u32) -> PageContent {
        let found = self.card.layer.locate(&self.card.nand, logical_page);
        found.map_or(PageContent::Zeros, |page| self.card.nand.content(page))
    }

    /// Changes the content of a logical page if it is mapped.
    pub(super) fn set(&mut self, logical_page: u32, content: PageContent) -> bool {
        let found = self.card.layer.locate(&self.card.nand, logical_page);
        if let Some(page) = found {
            self.card.nand.contents_mut().replace(page, content);
        }
        found.is_some()
    }
}
