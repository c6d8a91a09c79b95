//! The `[nand.wear_out]` section of a card file: erase blocks that fail.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the endurance of single erase blocks differs from the rated one. Without this section,
/// blocks work beyond their rating and are only counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WearOutModel {
    /// Standard deviation of the endurance of blocks, in thousandths of the rated one.
    pub spread_thousandths: u32,
    /// Share of the blocks that fail at a random point of their rated life, in thousandths.
    #[serde(default)]
    pub early_thousandths: u32,
    /// Cards with different seeds have different blocks.
    #[serde(default)]
    pub seed: u64,
}
