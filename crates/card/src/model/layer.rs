//! The `[layer]` and `[zone]` sections of a card file.

use flashfit_device::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The translation layer of a card. `kind` determines which other keys are allowed.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerModel {
    pub kind: LayerKind,
    /// Maximum number of open erase blocks; not for page-mapped layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "open_units")]
    pub open_erase_blocks: Option<u32>,
    /// How many of the open erase blocks may be written out of order; by default all. With 0, each
    /// out-of-order write costs a merge. Block-mapped and log-block layers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "open_units_random")]
    pub open_erase_blocks_random: Option<u32>,
    /// Which open erase block is closed when another is written; not for page-mapped layers.
    #[serde(default, skip_serializing_if = "is_least_recent")]
    pub replacement: Replacement,
    /// Additional time of closing an open erase block because another is written, in nanoseconds,
    /// such as for saving the map; not for page-mapped layers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub close_ns: u64,
    /// Maximum number of pages in an out-of-order log of an open erase block; by default as many as
    /// fit. Block-mapped and log-block layers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_pages: Option<u32>,
    /// Whether partial pages that are written in order are collected in a scratch block, which
    /// takes one more spare erase block. Block-mapped and log-block layers only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub scratch: bool,
    /// Erase blocks of the log for small writes; layers with such a log only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_units: Option<u32>,
    /// Largest request that goes to the log; layers with such a log only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_request: Option<Bytes>,
    /// Time of a write to the log in addition to programming, in nanoseconds, such as for saving
    /// the log's map; layers with such a log only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_ns: Option<u64>,
    /// Mapping and rewriting granularity of an update-log layer: a divisor of the erase block and a
    /// multiple of the write units across all dies; by default an eighth of the erase block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Bytes>,
    /// Mapping granularity of a page-mapped layer: a divisor of the write unit, which is the
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_unit: Option<Bytes>,
    /// Memory for the map at 4 bytes per mapped unit; by default all of it. Page-mapped layers
    /// only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_cache: Option<Bytes>,
    /// Victim selection of garbage collection; page-mapped layers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<Collection>,
    /// Static wear leveling: maximum difference of erase counts before static data is moved; by
    /// default off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wear_spread: Option<u32>,
    /// Additional read time, in nanoseconds, for each further erase block of the address space that
    /// a read touches, written or not: a second map lookup. It reveals erase block boundaries. All
    /// kinds of layers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lookup_ns: u64,
    /// Additional time, in nanoseconds, of a write that does not continue where the last one to its
    /// erase block ended: the card records the new offset. All kinds of layers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub jump_ns: u64,
    /// Additional time, in nanoseconds, of a write to another erase block of the address space than
    /// the last one: the card switches between streams. All kinds of layers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub switch_ns: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(time_ns: &u64) -> bool {
    *time_ns == 0
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayerKind {
    /// Whole erase blocks are mapped; see [`crate::layer::BlockMapped`].
    BlockMapped,
    /// Whole erase blocks are mapped; small writes go to a page-mapped log. See
    /// [`crate::layer::LogBlock`].
    LogBlock,
    /// Chunks of erase blocks are mapped; small writes go to an update log and are merged by chunk.
    /// See [`crate::layer::UpdateLog`].
    UpdateLog,
    /// Pages are mapped; see [`crate::layer::PageMapped`].
    PageMapped,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_least_recent(replacement: &Replacement) -> bool {
    *replacement == Replacement::LeastRecent
}

/// Which of the open erase blocks is closed for another.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    JsonSchema,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The one that was not written for the longest time.
    #[default]
    LeastRecent,
    /// Any of them.
    Random,
}

/// Victim selection of garbage collection in a page-mapped layer.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    JsonSchema,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Collection {
    /// Fewest valid pages.
    #[default]
    Greedy,
    /// Highest ratio of age times free space to copying cost.
    CostBenefit,
    /// Oldest erase block first.
    Fifo,
}

/// The specially mapped zone at the start of a card, which is page-mapped.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneModel {
    /// Size in erase blocks.
    pub units: u32,
    /// Spare erase blocks of the zone, taken from the card's.
    pub spare_units: u32,
    /// Additional time of a read from the zone, in nanoseconds.
    #[serde(default)]
    pub extra_read_ns: u64,
}
