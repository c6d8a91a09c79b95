//! The `[nand]` section of a card file.

use flashfit_device::Bytes;
use serde::{Deserialize, Serialize};

/// The flash of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandModel {
    /// How many bits a cell holds.
    #[serde(default)]
    pub cell: CellType,
    /// The page of one plane.
    pub page: Bytes,
    /// Planes whose pages are written together; page times planes is the write unit.
    #[serde(default = "one")]
    pub planes: u32,
    /// Dies that work at the same time. The write units of an erase block lie on them in turn.
    #[serde(default = "one")]
    pub dies: u32,
    /// The erase block over all planes and dies: a whole number of write units for each die, not
    /// necessarily a power of two.
    pub erase_unit: Bytes,
    /// Time to read a write unit, in nanoseconds.
    pub read_ns: u64,
    /// Time to program a write unit, in nanoseconds.
    pub program_ns: u64,
    /// Time to erase an erase block, in nanoseconds.
    pub erase_ns: u64,
    /// What copying a write unit takes beyond its reading and programming, in nanoseconds: its way
    /// through the controller.
    #[serde(default)]
    pub copy_ns: u64,
    /// How many erasures an erase block is rated for.
    pub endurance_cycles: u64,
    /// Good erase blocks beyond the capacity.
    pub spare_units: u32,
    /// Erase blocks that were bad from the beginning, beyond the spare ones.
    #[serde(default)]
    pub factory_bad_units: u32,
    /// The erase blocks that are used with one bit per cell, beyond the spare ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pslc: Option<PslcModel>,
}

/// The bits of a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellType {
    /// One bit.
    Slc,
    /// Two bits.
    #[default]
    Mlc,
    /// Three bits.
    Tlc,
    /// Four bits.
    Qlc,
}

impl CellType {
    /// How many bits it holds.
    pub fn bits(self) -> u32 {
        match self {
            Self::Slc => 1,
            Self::Mlc => 2,
            Self::Tlc => 3,
            Self::Qlc => 4,
        }
    }
}

/// Erase blocks with one bit per cell: they hold less by the cell's bits, and are faster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PslcModel {
    /// How many.
    pub units: u32,
    /// Time to read a write unit, in nanoseconds.
    pub read_ns: u64,
    /// Time to program a write unit, in nanoseconds.
    pub program_ns: u64,
    /// Time to erase an erase block, in nanoseconds.
    pub erase_ns: u64,
    /// How many erasures one of them is rated for.
    pub endurance_cycles: u64,
}

fn one() -> u32 {
    1
}
