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
    pub open_erase_blocks_seen: OpenBlocksSeen,
    /// Published figures of similar cards.
    pub published: Vec<ComparedFigure>,
    pub counterpart: Option<Counterpart>,
}

/// After how many erase blocks written in turn the rate with one more falls below half, as people
/// read flashbench's tables; nothing where it does not fall.
#[derive(Debug, PartialEq, JsonSchema, Serialize)]
pub struct OpenBlocksSeen {
    pub write: Bytes,
    pub most_measured: u32,
    pub linear: Option<u32>,
    /// With how many erase blocks in turn such linear writes were measured.
    pub linear_measured: u32,
    pub random: Option<u32>,
    /// The same of random writes.
    pub random_measured: u32,
}

impl OpenBlocksSeen {
    pub fn of(table: &OpenBlockTable) -> Self {
        let seen = |access| units_before_the_cliff(table, access, CLIFF_WRITE);
        let measured = |access| {
            let is_measured = |count: &u32| table.rate(*count, access, CLIFF_WRITE).is_some();
            (1..).take_while(is_measured).last().unwrap_or(0)
        };
        Self {
            write: CLIFF_WRITE,
            most_measured: table.cells.iter().map(|cell| cell.units).max().unwrap_or(0),
            linear: seen(AccessOrder::Linear),
            linear_measured: measured(AccessOrder::Linear),
            random: seen(AccessOrder::Random),
            random_measured: measured(AccessOrder::Random),
        }
    }
}

/// A real card's table and how well the model agrees.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Counterpart {
    pub name: String,
    pub table: OpenBlockTable,
    #[serde(rename = "open_units_seen")]
    pub open_erase_blocks_seen: OpenBlocksSeen,
    pub comparison: Option<Comparison>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashfit_geometry::flashbench::TableCell;

    #[test]
    fn writes_that_were_not_measured_are_not_counted() {
        let cell = |units, write, bytes_per_second| TableCell {
            units,
            access: AccessOrder::Linear,
            write: Bytes(write),
            bytes_per_second,
        };
        let large = OpenBlockTable { cells: vec![cell(1, 1 << 20, 9), cell(2, 1 << 20, 1)] };
        let seen = OpenBlocksSeen::of(&large);
        assert_eq!((seen.linear, seen.linear_measured), (None, 0));
        let three = [cell(1, 65536, 90), cell(2, 65536, 50), cell(3, 65536, 26)];
        let seen = OpenBlocksSeen::of(&OpenBlockTable { cells: three.into() });
        assert_eq!((seen.linear, seen.linear_measured, seen.random_measured), (None, 3, 0));
        let four = [three.as_slice(), &[cell(4, 65536, 12)]].concat();
        let seen = OpenBlocksSeen::of(&OpenBlockTable { cells: four });
        assert_eq!((seen.linear, seen.linear_measured), (Some(3), 4));
    }
}
