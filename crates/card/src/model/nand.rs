//! The `[nand]` section of a card file.

use flashfit_device::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::WearOutModel;

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandModel {
    /// Bits per cell.
    #[serde(default)]
    pub cell: CellType,
    /// Page size of one plane.
    pub page: Bytes,
    /// Planes programmed together; page size times planes is the write unit.
    #[serde(default = "one")]
    pub planes: u32,
    /// Dies that operate in parallel. The write units of an erase block alternate between them.
    #[serde(default = "one")]
    pub dies: u32,
    /// Size of an erase block over all planes and dies: a multiple of the write unit for each die,
    /// not necessarily a power of two.
    #[serde(rename = "erase_unit")]
    pub erase_block: Bytes,
    /// Time to read a write unit.
    pub read_ns: u64,
    /// Time to program a write unit.
    pub program_ns: u64,
    /// Time to erase an erase block.
    pub erase_ns: u64,
    /// Time of copying a write unit in addition to reading and programming it: the transfer through
    /// the controller.
    #[serde(default)]
    pub copy_ns: u64,
    /// Rated erase cycles of an erase block.
    pub endurance_cycles: u64,
    /// Good erase blocks beyond the capacity.
    pub spare_units: u32,
    /// Factory-bad erase blocks, in addition to the spare ones.
    #[serde(default)]
    pub factory_bad_units: u32,
    /// Erase blocks used with one bit per cell, in addition to the spare ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pslc: Option<PslcModel>,
    /// Erase blocks that fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wear_out: Option<WearOutModel>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellType {
    Slc,
    #[default]
    Mlc,
    Tlc,
    Qlc,
}

impl CellType {
    pub fn bits(self) -> u32 {
        match self {
            Self::Slc => 1,
            Self::Mlc => 2,
            Self::Tlc => 3,
            Self::Qlc => 4,
        }
    }
}

/// Erase blocks used with one bit per cell, which makes them smaller and faster.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PslcModel {
    pub units: u32,
    /// Time to read a write unit.
    pub read_ns: u64,
    /// Time to program a write unit.
    pub program_ns: u64,
    /// Time to erase an erase block.
    pub erase_ns: u64,
    /// Rated erase cycles.
    pub endurance_cycles: u64,
}

fn one() -> u32 {
    1
}
