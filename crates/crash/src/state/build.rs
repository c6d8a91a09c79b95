//! Builds the contents of crash states from a log, in ascending order of their positions.

use std::sync::Arc;

use flashfit_card::FaultClass;

use super::{CrashState, TornWrite};
use crate::blocks::{BLOCK_SECTORS, BlockId, BlockPool};
use crate::device::DiskContents;
use crate::log::{CrashLog, LogEntry, blocks_of};

/// The contents of one state.
#[derive(Debug, Clone)]
pub struct BuiltState {
    pub contents: DiskContents,
    /// Equal for equal contents; different for different ones, up to a collision of 128 bits.
    pub fingerprint: u128,
    /// What a simulated card did at its power cut.
    pub happened: Vec<FaultClass>,
}

/// Builds states of one log.
#[derive(Debug)]
pub struct StateBuilder {
    base: Arc<Vec<BlockId>>,
    /// How many entries are in `base`.
    applied: u32,
    fingerprint: u128,
}

impl StateBuilder {
    pub fn new(log: &CrashLog) -> Self {
        let fingerprint = (0..).zip(&log.base).map(|(block, id)| mark(block, *id));
        Self {
            base: Arc::new(log.base.clone()),
            applied: 0,
            fingerprint: fingerprint.fold(0, u128::wrapping_add),
        }
    }

    /// The contents of `state`; new mixtures of blocks are added to `pool`. Positions that go back
    /// cost a start from the beginning.
    pub fn build(
        &mut self,
        log: &CrashLog,
        pool: &mut BlockPool,
        state: &CrashState,
    ) -> BuiltState {
        let torn = state.torn.iter().map(|torn| torn.entry);
        let first = state.dropped.iter().copied().chain(torn).min();
        let first = first.unwrap_or(state.position).min(state.position);
        if first < self.applied {
            *self = Self::new(log);
        }
        self.advance(log, pool, first);
        let mut built = BuiltState {
            contents: DiskContents { base: Arc::clone(&self.base), ..DiskContents::default() },
            fingerprint: self.fingerprint,
            happened: Vec::new(),
        };
        for entry in first..state.position {
            if state.dropped.binary_search(&entry).is_ok() {
                continue;
            }
            let torn = state.torn.as_ref().filter(|torn| torn.entry == entry);
            built.apply(pool, &log.entries[entry as usize], torn);
        }
        if let Some(torn) = state.torn_under_way() {
            built.apply(pool, &log.entries[torn.entry as usize], Some(torn));
        }
        built
    }

    fn advance(&mut self, log: &CrashLog, pool: &mut BlockPool, to: u32) {
        if self.applied == to {
            return;
        }
        let base = Arc::make_mut(&mut self.base);
        for entry in &log.entries[self.applied as usize..to as usize] {
            for (block, sectors, new) in pieces(entry) {
                let old = base[block as usize];
                let new = pool.overlay(old, new, sectors);
                base[block as usize] = new;
                self.fingerprint = exchanged(self.fingerprint, block, old, new);
            }
        }
        self.applied = to;
    }
}

impl BuiltState {
    /// Applies a request, or the parts of it that are there.
    pub fn apply(&mut self, pool: &mut BlockPool, entry: &LogEntry, torn: Option<&TornWrite>) {
        let Some((start, _)) = entry.range() else { return };
        for (block, sectors, new) in pieces(entry) {
            let mut result = self.contents.block(block);
            let old = result;
            match torn {
                None => result = pool.overlay(old, new, sectors),
                Some(torn) => {
                    for sector in sectors {
                        let place = u64::from(block) * u64::from(BLOCK_SECTORS);
                        let place = place + u64::from(sector) - start;
                        if torn.keeps(u32::try_from(place).expect("requests are small")) {
                            result = pool.overlay(result, new, sector..sector + 1);
                        }
                    }
                }
            }
            self.fingerprint = exchanged(self.fingerprint, block, old, result);
            self.contents.changed.insert(block, result);
        }
    }
}

/// The blocks that a request changes, with their sectors and their new contents.
fn pieces(entry: &LogEntry) -> Vec<(u32, std::ops::Range<u32>, BlockId)> {
    match entry {
        LogEntry::Write(write) => blocks_of(write.sector, write.sectors)
            .zip(&write.blocks)
            .map(|((block, sectors), id)| (block, sectors, *id))
            .collect(),
        LogEntry::Discard { sector, sectors } => blocks_of(*sector, *sectors)
            .map(|(block, sectors)| (block, sectors, BlockId::ZERO))
            .collect(),
        LogEntry::Flush => Vec::new(),
    }
}

fn exchanged(fingerprint: u128, block: u32, old: BlockId, new: BlockId) -> u128 {
    fingerprint.wrapping_sub(mark(block, old)).wrapping_add(mark(block, new))
}

/// A random number of a block with a content.
fn mark(block: u32, id: BlockId) -> u128 {
    let seed = u64::from(block) << 32 | u64::from(id.number());
    let mut random = flashfit_numbers::SplitMix64::new(seed);
    u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())
}
