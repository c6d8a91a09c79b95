//! The sections of a card file on what lies before the translation layer: `[bus]`, `[queue]`,
//! `[cache]`, `[discard]`, `[background]`, `[noise]`.

use flashfit_device::Bytes;
use serde::{Deserialize, Serialize};

/// The bus of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusModel {
    /// Which one; it is told to users and changes no time.
    #[serde(default)]
    pub kind: BusKind,
    /// What every request costs, in nanoseconds.
    pub command_ns: u64,
    /// How fast data passes, in bytes per second.
    pub bytes_per_second: u64,
}

/// The kinds of bus.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BusKind {
    /// SD and microSD.
    #[default]
    Sd,
    /// eMMC.
    Emmc,
    /// USB mass storage.
    Usb,
    /// SATA.
    Sata,
}

/// The command queue of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueModel {
    /// How many requests it works on at once: 1, or up to 32.
    pub depth: u32,
}

impl Default for QueueModel {
    fn default() -> Self {
        Self { depth: 1 }
    }
}

/// The volatile write cache of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheModel {
    /// How much unwritten data it holds.
    pub bytes: Bytes,
    /// In which order it reaches the NAND.
    #[serde(default)]
    pub order: CacheOrder,
    /// What a flush costs beyond the writing, in nanoseconds.
    #[serde(default)]
    pub flush_ns: u64,
    /// Whether it is the controller's own buffer, of which hosts are not told: it holds one mapped
    /// unit that is written in parts one behind the other, until it is whole or something else is
    /// written. As it is never flushed, a loss of power takes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undeclared: bool,
}

/// The order in which a volatile cache is written back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheOrder {
    /// Any; after a cut any part of what was not flushed may be there.
    #[default]
    Unordered,
    /// That of arrival; after a cut the oldest part of it is there.
    Ordered,
    /// That of arrival between flushes, any within them: a flush is only a barrier, nothing waits
    /// for the NAND.
    Barrier,
}

/// How a card takes discards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscardModel {
    /// Only whole units of this size change the mapping.
    pub granularity: Bytes,
}

/// What a card does in idle time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackgroundModel {
    /// How long after the last request it begins, in nanoseconds.
    pub after_ns: u64,
}

/// How the times of a card vary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoiseModel {
    /// The seed of its own generator.
    pub seed: u64,
    /// The most that a request takes longer by chance, in thousandths of its time.
    #[serde(default)]
    pub jitter_thousandths: u32,
    /// One request in so many stalls, on average; 0 means none does.
    #[serde(default)]
    pub stall_every: u32,
    /// How long a stall lasts, in nanoseconds.
    #[serde(default)]
    pub stall_ns: u64,
}
