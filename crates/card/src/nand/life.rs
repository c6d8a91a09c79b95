//! When erase blocks fail, and when the device has no blocks left to replace them.
//!
//! A block fails at an erasure, when its erase count reaches its own endurance: the rated one with
//! a spread, or less for a block that fails early. The controller retires it as soon as the
//! translation layer can do without it; until then the block is used. When a block fails and no
//! spare block is left, the device is worn out: it completes the request and accepts no more
//! writes, as eMMC and SD controllers do (JESD84-B51, section 6.6.35: pre-EOL information counts
//! reserved blocks). Limits: no errors before a failure, no loss of data, no retention; a block of
//! a zone or of the pSLC area cannot be replaced, so its failure is the end.

use std::collections::BTreeSet;
use std::ops::Range;

use flashfit_device::random::Random;

use crate::model::{CardModel, WearOutModel};

const THOUSAND: u64 = 1000;
/// The sum of so many uniform numbers has nearly a normal distribution; with 12 its variance is 1.
const UNIFORMS: u64 = 12;

/// The state of a device's spare erase blocks.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, schemars::JsonSchema, serde::Serialize, serde::Deserialize,
)]
pub struct SpareBlocks {
    /// Erase blocks that failed and were replaced.
    pub retired: u32,
    /// Failed erase blocks that can still be replaced.
    pub left: u32,
    /// Whether the device accepts no more writes.
    pub worn_out: bool,
}

/// The endurance of all erase blocks.
#[derive(Debug)]
pub struct BlockLives {
    /// Erasures until each block fails.
    limits: Vec<u32>,
    /// Blocks that spare ones can replace.
    replaceable: Range<u32>,
    /// Failed blocks that are used until others are free.
    waiting: BTreeSet<u32>,
    spares: SpareBlocks,
}

impl BlockLives {
    /// `None` for a model whose blocks never fail. `bad` are the blocks that are not in use, and
    /// `erases` the erase counts.
    pub fn new(
        model: &CardModel,
        bad: impl Fn(u32) -> bool,
        erases: impl Fn(u32) -> u32,
    ) -> Option<Self> {
        let wear_out = model.nand.wear_out?;
        let mut random = Random::new(wear_out.seed);
        let good: Vec<u32> = model.good_blocks().collect();
        let mut rated = vec![model.nand.endurance_cycles; model.total_blocks() as usize];
        // The pSLC area has the first good blocks.
        let pslc = model.nand.pslc.as_ref().map_or(0, |pslc| pslc.units as usize);
        for &block in &good[..pslc] {
            rated[block as usize] =
                model.nand.pslc.as_ref().map_or(0, |pslc| pslc.endurance_cycles);
        }
        let limits: Vec<u32> =
            rated.iter().map(|&rated| limit(wear_out, rated, &mut random)).collect();
        let zone = model.zone.as_ref().map_or(0, |zone| zone.units + zone.spare_units);
        let end = good[good.len() - zone as usize - 1] + 1;
        let all = model.nand.spare_units - model.needed_spare_units();
        let retired = (0..model.total_blocks()).filter(|&block| bad(block)).count();
        let retired = retired as u32 - model.nand.factory_bad_units;
        let left = all - retired;
        // While spare blocks are left, a failed block in use only waits to be replaced.
        let failed = |block: u32| !bad(block) && erases(block) >= limits[block as usize];
        let waiting: BTreeSet<u32> = good.iter().copied().filter(|&block| failed(block)).collect();
        let irreplaceable = |block: &u32| good[..pslc].contains(block) || *block >= end;
        let worn_out = left == 0 && !waiting.is_empty() || waiting.iter().any(irreplaceable);
        let spares = SpareBlocks { retired, left, worn_out };
        Some(Self { limits, replaceable: 0..end, waiting, spares })
    }

    pub fn spares(&self) -> SpareBlocks {
        self.spares
    }

    /// Whether a block with this erase count has failed.
    pub fn has_failed(&self, block: u32, erases: u32) -> bool {
        erases >= self.limits[block as usize]
    }

    pub fn can_be_replaced(&self, block: u32) -> bool {
        self.replaceable.contains(&block)
    }

    /// Takes a failed block out of use; `false` if it must be used further.
    pub fn retire(&mut self, block: u32, is_pslc: bool, can_spare: bool) -> bool {
        if is_pslc || !self.replaceable.contains(&block) || self.spares.left == 0 {
            self.spares.worn_out = true;
            return false;
        }
        if can_spare {
            self.spares.left -= 1;
            self.spares.retired += 1;
            self.waiting.remove(&block);
        } else {
            self.waiting.insert(block);
        }
        self.spares.worn_out |= self.spares.left == 0 && !self.waiting.is_empty();
        can_spare
    }
}

fn limit(wear_out: WearOutModel, rated: u64, random: &mut Random) -> u32 {
    let sum: u64 = (0..UNIFORMS).map(|_| random.below(THOUSAND + 1)).sum();
    let spread = u64::from(wear_out.spread_thousandths);
    // 1 plus the spread times a number with mean 0 and variance 1, in millionths.
    let share =
        (THOUSAND * THOUSAND + spread * sum).saturating_sub(spread * THOUSAND * UNIFORMS / 2);
    let is_early = random.below(THOUSAND) < u64::from(wear_out.early_thousandths);
    let early = random.below(THOUSAND * THOUSAND);
    let share = if is_early { early.min(share) } else { share };
    let cycles = u128::from(rated) * u128::from(share) / u128::from(THOUSAND * THOUSAND);
    u32::try_from(cycles).unwrap_or(u32::MAX).max(1)
}
