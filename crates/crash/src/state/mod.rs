//! A crash state: what a device may contain after a power cut at some position of a log.
//!
//! Everything before the last flush is there. Of the later writes, a volatile cache may have lost
//! any, in any combination; of one of them, only some write units may be there, from its start, to
//! its end, or any. Whether that is what a correct device does depends on the size of the parts: a
//! device that tears below its write unit is faulty. A write that bypasses the cache (forced unit
//! access) is there when it has returned, and may be torn while it is under way.

mod build;
mod enumerate;
mod faulty_card;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::log::CrashLog;

pub use build::{BuiltState, StateBuilder};
pub use enumerate::{ENUMERATION, Enumeration, IN_ORDER, enumerate};
pub use faulty_card::FaultyCard;

/// A state of the device after a power cut.
#[derive(Debug, Clone, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
pub struct CrashState {
    /// How many requests had arrived.
    pub position: u32,
    /// The requests since the last flush whose effect was lost, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<u32>,
    /// The request of which only a part is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torn: Option<TornWrite>,
    /// The requests during the recovery of this state that arrived before a second power cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryCut>,
    /// The seed of a power cut of the campaign's simulated card, which then decides what is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_seed: Option<u64>,
}

/// A write of which some parts are there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
pub struct TornWrite {
    pub entry: u32,
    pub unit_sectors: u32,
    /// The sectors of its first unit that lie before the write: units begin at multiples of their
    /// size on the device.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped_sectors: u32,
    /// The numbers of the units that are there, counted from the one with the start of the write.
    pub kept_units: Vec<u32>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl TornWrite {
    /// Whether a sector is there, counted from the start of the write.
    pub fn keeps(&self, sector: u32) -> bool {
        let unit = (self.skipped_sectors + sector) / self.unit_sectors.max(1);
        self.kept_units.contains(&unit)
    }
}

/// A second power cut while the file system recovers from the first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
pub struct RecoveryCut {
    /// How many requests of the recovery had arrived.
    pub position: u32,
    /// Whether those since the last flush are lost.
    pub drops_unflushed: bool,
}

impl CrashState {
    /// A power cut that loses nothing.
    pub fn complete(position: u32) -> Self {
        Self { position, dropped: Vec::new(), torn: None, recovery: None, cut_seed: None }
    }

    /// Whether something is lost that a flush came after.
    pub fn ignores_flush(&self, log: &CrashLog) -> bool {
        let torn = self.torn.iter().map(|torn| torn.entry);
        let first = self.dropped.iter().copied().chain(torn).min().unwrap_or(self.position);
        (first..self.position).any(|entry| log.entries[entry as usize].is_flush())
    }

    /// Why it is not a state of this log; `None` if it is one.
    pub fn fault(&self, log: &CrashLog) -> Option<String> {
        if self.position > log.end() {
            return Some(format!("the log has {} entries", log.end()));
        }
        // The next request may be under way, and torn.
        let is_outside = |entry: &u32| *entry > self.position || *entry >= log.end();
        let torn = self.torn.iter().map(|torn| torn.entry).find(is_outside);
        let dropped = self.dropped.iter().copied().find(|entry| *entry >= self.position);
        dropped
            .or(torn)
            .map(|entry| format!("entry {entry} comes after the power cut at {}", self.position))
    }

    /// The write that was under way at the power cut, and of which only parts are there.
    pub(crate) fn torn_under_way(&self) -> Option<&TornWrite> {
        self.torn.as_ref().filter(|torn| torn.entry == self.position)
    }
}

/// Which flushes a device honors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlushFault {
    /// All, as it must.
    #[default]
    None,
    /// All but one, chosen at random for every state.
    One,
    /// None.
    All,
}

/// What is lost at a position.
pub(crate) fn window(log: &CrashLog, position: u32, ignored: impl Fn(u32) -> bool) -> Vec<u32> {
    let start = (0..position)
        .rev()
        .find(|entry| log.entries[*entry as usize].is_flush() && !ignored(*entry));
    let first = start.map_or(0, |flush| flush + 1);
    let is_volatile = |entry: &u32| match &log.entries[*entry as usize] {
        crate::log::LogEntry::Write(write) => !write.is_durable,
        crate::log::LogEntry::Discard { .. } => true,
        crate::log::LogEntry::Flush => false,
    };
    (first..position).filter(is_volatile).collect()
}
