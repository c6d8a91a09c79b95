//! What a cut did to a card.

use serde::{Deserialize, Serialize};

use super::class::FaultClass;

/// A class of damage that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// Which.
    pub class: FaultClass,
    /// How often, in [`Damage::unit`].
    pub count: u64,
    /// What was counted, in the plural.
    pub unit: DamageUnit,
}

/// What the damage of a class is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DamageUnit {
    /// Mapped pages, or parts of one.
    Pages,
    /// Sectors of 512 bytes.
    Sectors,
    /// Whole cards.
    Cards,
}

/// A class that was asked for and could not happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbsentFault {
    /// Which.
    pub class: FaultClass,
    /// Why not.
    pub reason: String,
}

/// What a cut did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutReport {
    /// When it was, in the card's time.
    pub at_ns: u64,
    /// What its chances were drawn from.
    pub seed: u64,
    /// The damage, in the order of the classes.
    pub happened: Vec<Damage>,
    /// What was asked for and could not happen.
    pub absent: Vec<AbsentFault>,
    /// Bytes of the cache that were lost.
    pub lost_cache_bytes: u64,
    /// Of the lost entries of the cache, those that came before a flush that was only a barrier.
    pub flushed_entries_lost: u64,
    /// Sectors that a torn write took along although it did not write them.
    pub collateral_sectors: u64,
}

impl CutReport {
    pub(super) fn new(at_ns: u64, seed: u64) -> Self {
        Self {
            at_ns,
            seed,
            happened: Vec::new(),
            absent: Vec::new(),
            lost_cache_bytes: 0,
            flushed_entries_lost: 0,
            collateral_sectors: 0,
        }
    }

    /// Whether nothing happened but what a device does that keeps its promises. It says no as well
    /// where flushed sectors beside a torn write are no longer what they were, and where a host
    /// took a mere barrier for a flush.
    pub fn is_honest(&self) -> bool {
        self.happened.iter().all(|damage| damage.class.is_honest())
            && self.collateral_sectors == 0
            && self.flushed_entries_lost == 0
    }

    /// How often a class happened; 0 when it did not.
    pub fn count(&self, class: FaultClass) -> u64 {
        self.happened.iter().find(|damage| damage.class == class).map_or(0, |damage| damage.count)
    }

    pub(super) fn add(&mut self, class: FaultClass, count: u64, unit: DamageUnit) {
        if count == 0 {
            return;
        }
        match self.happened.binary_search_by_key(&class, |damage| damage.class) {
            Ok(at) => self.happened[at].count = self.happened[at].count.max(count),
            Err(at) => self.happened.insert(at, Damage { class, count, unit }),
        }
    }

    pub(super) fn missing(&mut self, class: FaultClass, reason: &str) {
        self.absent.push(AbsentFault { class, reason: reason.to_owned() });
    }
}
