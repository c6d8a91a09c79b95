//! Properties of the device and its queue that options depend on.

use std::collections::BTreeMap;
use std::fmt;

use flashfit_geometry::Geometry;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptionRequirement {
    /// The erase block is known.
    #[serde(rename = "erase_unit")]
    EraseBlock,
    /// The write unit is known.
    WriteUnit,
    /// The device supports discard.
    Discard,
    /// The device has a volatile write cache, so the kernel sends it flushes.
    VolatileCache,
    /// A plan has computed the numbers that depend on the size of the device or partition.
    Plan,
}

impl OptionRequirement {
    /// Why an option with this requirement cannot be used if it is not met.
    pub fn unmet(self) -> &'static str {
        match self {
            Self::EraseBlock => "the erase block of the device is unknown",
            Self::WriteUnit => "the write unit of the device is unknown",
            Self::Discard => "the device does not support discard",
            Self::VolatileCache => {
                "the device has no volatile cache, so the kernel sends no flushes to omit"
            }
            Self::Plan => "it depends on the size, and there is no plan for the size",
        }
    }
}

impl fmt::Display for OptionRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EraseBlock => "erase_unit",
            Self::WriteUnit => "write_unit",
            Self::Discard => "discard",
            Self::VolatileCache => "volatile_cache",
            Self::Plan => "plan",
        })
    }
}

/// Properties of the device and its queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// The known geometry of the device.
    pub geometry: Geometry,
    /// Whether it supports discard (`queue/discard_max_bytes` is not 0).
    pub discard: bool,
    /// Whether it has a volatile write cache (`queue/write_cache` is `write back`).
    pub volatile_cache: bool,
    /// Numbers computed by a plan, by the variable names of the catalog; they take precedence over
    /// those derived from the geometry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub planned: BTreeMap<String, u64>,
    /// Why the plan has no other numbers; `None` without a plan, where numbers are derived from the
    /// geometry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unplanned: Option<String>,
}

impl Conditions {
    /// Whether `need` is met.
    pub fn meets(&self, need: OptionRequirement) -> bool {
        match need {
            OptionRequirement::EraseBlock => self.geometry.erase_block.is_some(),
            OptionRequirement::WriteUnit => self.geometry.write_unit.is_some(),
            OptionRequirement::Discard => self.discard,
            OptionRequirement::VolatileCache => self.volatile_cache,
            OptionRequirement::Plan => !self.planned.is_empty(),
        }
    }
}
