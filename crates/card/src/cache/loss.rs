//! Decides which part of a cache survives a power cut.

use flashfit_device::random::Random;

use super::{DirtyPage, WriteCache};
use crate::model::CacheOrder;

/// The parts of a cache that reached the NAND before a power cut, and those lost.
#[derive(Debug, Default)]
pub struct CacheLoss {
    /// Dirty pages that reached the NAND, in order.
    pub kept: Vec<DirtyPage>,
    /// Number of lost pages or parts of pages.
    pub lost: u64,
    /// Number of lost bytes.
    pub lost_bytes: u64,
    /// Lost entries that a barrier flush had covered.
    pub flushed_lost: u64,
}

impl WriteCache {
    /// Empties the cache as a power cut does. `kept_thousandths` is the share that reached the
    /// NAND; it is random if `None`.
    pub fn lose(&mut self, random: &mut Random, kept_thousandths: Option<u64>) -> CacheLoss {
        let share = kept_thousandths.unwrap_or_else(|| random.below(1001)).min(1000);
        let count = self.entries.len() as u64;
        let prefix = kept_thousandths.map_or_else(|| random.below(count + 1), |n| count * n / 1000);
        let turning = self.entries.values().nth(usize::try_from(prefix).unwrap_or(usize::MAX));
        let turning_epoch = turning.map_or(u64::MAX, |entry| entry.epoch);
        let mut loss = CacheLoss::default();
        let entries = std::mem::take(&mut self.entries).into_values();
        for (place, entry) in (0_u64..).zip(entries) {
            let chance = random.below(1000) < share;
            let kept = match self.order {
                CacheOrder::Unordered => chance,
                CacheOrder::Ordered => place < prefix,
                CacheOrder::Barrier => {
                    entry.epoch < turning_epoch || (entry.epoch == turning_epoch && chance)
                }
            };
            loss.add(entry, kept, self.epoch);
        }
        self.by_page.clear();
        self.dirty_bytes = 0;
        loss
    }
}

impl CacheLoss {
    fn add(&mut self, entry: DirtyPage, kept: bool, epoch: u64) {
        if kept {
            self.kept.push(entry);
        } else {
            self.lost += 1;
            self.lost_bytes += entry.bytes();
            self.flushed_lost += u64::from(entry.epoch < epoch);
        }
    }
}
