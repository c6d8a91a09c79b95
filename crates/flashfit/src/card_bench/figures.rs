//! The figures of one card model and of the real card that it is modeled on.

use flashfit_device::Bytes;
use flashfit_geometry::flashbench::{
    AccessOrder, Comparison, OpenBlockTable, units_before_the_cliff,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::measure::CardFigures;
use super::published::ComparedFigure;

/// The size of a write at which the open erase blocks are counted.
const CLIFF_WRITE: Bytes = Bytes(64 << 10);

/// A card's figures and those of its counterpart.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Measured {
    pub card: String,
    pub title: String,
    pub source: String,
    #[serde(rename = "erase_unit")]
    pub erase_block: Bytes,
    pub figures: CardFigures,
    #[serde(rename = "open_units_seen")]
    pub open_erase_blocks_seen: OpenUnits,
    /// Published figures of similar cards.
    pub published: Vec<ComparedFigure>,
    pub counterpart: Option<Counterpart>,
}

/// How many erase blocks can be written in turn before the rate falls below half, as people read
/// flashbench's tables; nothing where it does not fall.
#[derive(Debug, JsonSchema, Serialize)]
pub struct OpenUnits {
    pub write: Bytes,
    pub most_measured: u32,
    pub linear: Option<u32>,
    pub random: Option<u32>,
}

impl OpenUnits {
    pub fn of(table: &OpenBlockTable) -> Self {
        let units = |access| units_before_the_cliff(table, access, CLIFF_WRITE);
        Self {
            write: CLIFF_WRITE,
            most_measured: table.cells.iter().map(|cell| cell.units).max().unwrap_or(0),
            linear: units(AccessOrder::Linear),
            random: units(AccessOrder::Random),
        }
    }
}

/// A real card's table and how well the model agrees.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Counterpart {
    pub name: String,
    pub table: OpenBlockTable,
    #[serde(rename = "open_units_seen")]
    pub open_erase_blocks_seen: OpenUnits,
    pub comparison: Option<Comparison>,
}
