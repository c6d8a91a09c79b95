//! Reports the effects of a power cut.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::class::FaultClass;

/// A class of damage that occurred.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Damage {
    pub class: FaultClass,
    /// How often, in [`Damage::unit`].
    pub count: u64,
    pub unit: DamageUnit,
}

/// The unit in which the damage of a class is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DamageUnit {
    /// Mapped pages or parts of them.
    Pages,
    /// Sectors of 512 bytes.
    Sectors,
    Cards,
}

/// An enabled class that could not occur.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct AbsentFault {
    pub class: FaultClass,
    pub reason: String,
}

impl AbsentFault {
    pub(super) const NO_HISTORY: &str = "the card keeps no history";

    /// Whether it could occur on a card that keeps what was overwritten.
    pub fn needs_history(&self) -> bool {
        self.reason == Self::NO_HISTORY
    }
}

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct CutReport {
    /// Time of the power cut, in the card's time.
    pub at_ns: u64,
    pub seed: u64,
    /// Damage in the order of the classes.
    pub happened: Vec<Damage>,
    /// Enabled classes that could not occur.
    pub absent: Vec<AbsentFault>,
    pub lost_cache_bytes: u64,
    /// Lost cache entries that a barrier flush had covered.
    pub flushed_entries_lost: u64,
    /// Unwritten sectors destroyed by a torn write.
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

    /// Whether a correct device may show this result. `false` also if a torn write destroyed
    /// flushed neighboring sectors, or if entries covered by a barrier flush were lost, because a
    /// host may have relied on the barrier as a flush.
    pub fn is_honest(&self) -> bool {
        self.happened.iter().all(|damage| damage.class.is_honest())
            && self.collateral_sectors == 0
            && self.flushed_entries_lost == 0
    }

    /// How often a class occurred.
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
