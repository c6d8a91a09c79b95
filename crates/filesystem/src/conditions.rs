//! What the device and its queue offer, as far as options depend on it.

use std::collections::BTreeMap;
use std::fmt;

use flashfit_geometry::Geometry;
use serde::{Deserialize, Serialize};

/// What an option can need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptionRequirement {
    /// The erase block is known.
    EraseUnit,
    /// The write unit is known.
    WriteUnit,
    /// The device takes discards.
    Discard,
    /// The device has a volatile write cache, so the kernel sends it flushes.
    VolatileCache,
    /// A plan has computed the numbers that depend on the size of the device or partition.
    Plan,
}

impl OptionRequirement {
    /// Why an option that needs this cannot be used, where it is not met.
    pub(crate) fn lacking(self) -> &'static str {
        match self {
            Self::EraseUnit => "the medium's erase unit is not known",
            Self::WriteUnit => "the medium's write unit is not known",
            Self::Discard => "the medium takes no discards",
            Self::VolatileCache => {
                "the medium has no volatile cache, so the kernel sends no flushes to leave out"
            }
            Self::Plan => "its numbers depend on the size, and no plan has computed them",
        }
    }
}

impl fmt::Display for OptionRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EraseUnit => "erase_unit",
            Self::WriteUnit => "write_unit",
            Self::Discard => "discard",
            Self::VolatileCache => "volatile_cache",
            Self::Plan => "plan",
        })
    }
}

/// What the device and its queue offer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// What is known of how the device is built.
    pub geometry: Geometry,
    /// Whether it takes discards (`queue/discard_max_bytes` is not 0).
    pub discard: bool,
    /// Whether it has a volatile write cache (`queue/write_cache` is `write back`).
    pub volatile_cache: bool,
    /// Numbers that a plan has computed, by the names that the catalog's arguments use; they go
    /// before what follows from the geometry alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub planned: BTreeMap<String, u64>,
    /// Why a plan has computed no others; `None` where no plan was made, so that what follows from
    /// the geometry alone holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unplanned: Option<String>,
}

impl Conditions {
    /// Whether `need` is met.
    pub fn meets(&self, need: OptionRequirement) -> bool {
        match need {
            OptionRequirement::EraseUnit => self.geometry.erase_unit.is_some(),
            OptionRequirement::WriteUnit => self.geometry.write_unit.is_some(),
            OptionRequirement::Discard => self.discard,
            OptionRequirement::VolatileCache => self.volatile_cache,
            OptionRequirement::Plan => !self.planned.is_empty(),
        }
    }
}
