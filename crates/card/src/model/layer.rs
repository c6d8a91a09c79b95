//! The `[layer]` and `[zone]` sections of a card file.

use flashfit_device::Bytes;
use serde::{Deserialize, Serialize};

/// The translation layer of a card. Which keys may stand beside `kind` depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerModel {
    /// Which one.
    pub kind: LayerKind,
    /// How many erase blocks can be open at once; all but page-mapped layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_units: Option<u32>,
    /// How many of them can be written out of order; as many as are open where it is not said. With
    /// 0 each write that is out of order costs a merge. Block-mapped and log-block layers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_units_random: Option<u32>,
    /// How many pages the log of an open erase block can hold when it is out of order; as many as
    /// fit where it is not said. Block-mapped and log-block layers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_pages: Option<u32>,
    /// Whether parts of a page that are written in order are gathered in a scratch unit, which is
    /// one more spare erase block. Block-mapped and log-block layers only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub scratch: bool,
    /// Erase blocks of the log for small writes; layers with a log only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_units: Option<u32>,
    /// The largest request that goes to the log; layers with a log only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_request: Option<Bytes>,
    /// What a write to the log takes beyond its programming, in nanoseconds, such as the saving of
    /// the log's map; layers with a log only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_ns: Option<u64>,
    /// What an update-log layer maps by itself and rewrites as a whole, a divisor of the erase
    /// block and a whole number of write units of all dies; an eighth of the erase block where it
    /// is not said. Such layers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Bytes>,
    /// What is mapped by itself, a divisor of the write unit; the write unit where it is not said.
    /// Page-mapped layers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_unit: Option<Bytes>,
    /// How much of the map is held in memory, at 4 bytes a mapped unit; all of it where it is not
    /// said. Page-mapped layers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_cache: Option<Bytes>,
    /// Which erase block is collected first; page-mapped layers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<Collection>,
    /// Static wear levelling: how far the erasures of two units may lie apart before data that
    /// never changes is moved. None where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wear_spread: Option<u32>,
    /// What a read takes longer for each further erase block of the address space that it reaches
    /// into, in nanoseconds: the card looks up another unit in its map. It shows to readers where
    /// erase blocks begin, whether anything was written there or not. All kinds of layers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lookup_ns: u64,
    /// What a write takes longer when it does not go on where the last one to its erase block
    /// ended, in nanoseconds: the card notes where in the unit it lies. All kinds of layers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub jump_ns: u64,
    /// What a write takes longer when it goes to another erase block of the address space than the
    /// last one, in nanoseconds: the card ends one stream of data and begins another. All kinds of
    /// layers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub switch_ns: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(time_ns: &u64) -> bool {
    *time_ns == 0
}

/// The kinds of translation layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayerKind {
    /// Whole erase blocks are mapped; see [`crate::layer::BlockMapped`].
    BlockMapped,
    /// Whole erase blocks are mapped, and small writes go to a page-mapped log; see
    /// [`crate::layer::LogBlock`].
    LogBlock,
    /// Chunks of erase blocks are mapped, small writes go to an update log, and what must give way
    /// is a chunk; see [`crate::layer::UpdateLog`].
    UpdateLog,
    /// Each page is mapped; see [`crate::layer::PageMapped`].
    PageMapped,
}

/// How a page-mapped layer chooses the erase block that it collects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Collection {
    /// The one with the fewest valid pages.
    #[default]
    Greedy,
    /// The one where age times free space is most for the cost of copying.
    CostBenefit,
    /// The one that was filled first.
    Fifo,
}

/// The specially mapped zone at the start of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneModel {
    /// Its size in erase blocks, from the start of the card. They are page-mapped.
    pub units: u32,
    /// Spare erase blocks of its own, taken from the card's.
    pub spare_units: u32,
    /// What a read of it takes longer, in nanoseconds.
    #[serde(default)]
    pub extra_read_ns: u64,
}
