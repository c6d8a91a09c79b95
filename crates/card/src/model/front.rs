//! The sections of a card file that precede the translation layer: `[bus]`, `[queue]`, `[cache]`,
//! `[discard]`, `[background]`, `[noise]`.

use flashfit_device::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusModel {
    /// Only shown to users; does not affect times.
    #[serde(default)]
    pub kind: BusKind,
    /// Overhead of every request, in nanoseconds.
    pub command_ns: u64,
    pub bytes_per_second: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BusKind {
    #[default]
    Sd,
    Emmc,
    Usb,
    Sata,
}

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueModel {
    /// Number of requests served concurrently, 1 to 32.
    pub depth: u32,
}

impl Default for QueueModel {
    fn default() -> Self {
        Self { depth: 1 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheModel {
    /// Capacity for unwritten data.
    pub bytes: Bytes,
    /// Order of write-back to the NAND.
    #[serde(default)]
    pub order: CacheOrder,
    /// Time of a flush in addition to the writes, in nanoseconds.
    #[serde(default)]
    pub flush_ns: u64,
    /// Whether this is the controller's internal buffer, which is not declared to hosts. It
    /// collects one mapped unit that is written in consecutive parts, until the unit is complete or
    /// something else is written. It is never flushed, so a power cut loses it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undeclared: bool,
}

/// Write-back order of a volatile cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheOrder {
    /// Any order; a power cut may keep any part of the unflushed data.
    #[default]
    Unordered,
    /// Order of arrival; a power cut keeps the oldest part.
    Ordered,
    /// Order of arrival between flushes, any order between two flushes: a flush is only a barrier
    /// and does not wait for the NAND.
    Barrier,
}

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscardModel {
    /// Only whole blocks of this size are unmapped.
    pub granularity: Bytes,
}

/// Background work in idle time.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackgroundModel {
    /// Idle time before it starts, in nanoseconds.
    pub after_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoiseModel {
    /// Seed of the noise generator.
    pub seed: u64,
    /// Maximum random delay of a request, in thousandths of its time.
    #[serde(default)]
    pub jitter_thousandths: u32,
    /// On average one request in this many stalls; 0 for none.
    #[serde(default)]
    pub stall_every: u32,
    /// Duration of a stall, in nanoseconds.
    #[serde(default)]
    pub stall_ns: u64,
}
