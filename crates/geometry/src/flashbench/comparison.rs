//! Comparison of two open-unit tables, for example of a card model and the real card.
//!
//! The error of a cell is the larger rate divided by the smaller one, so twice as fast and half as
//! fast are equally wrong.

use flashfit_device::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use super::table::{AccessOrder, OpenBlockTable};

/// The errors of the common cells of two tables.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Comparison {
    /// Number of common cells.
    pub cells: usize,
    /// In thousandths: 1000 is not an error.
    pub median_error_thousandths: u64,
    pub ninth_decile_error_thousandths: u64,
    /// Number of cells with an error of at most 2.
    pub within_2: usize,
}

impl Comparison {
    /// Compares two tables; `None` if no common cell has a rate.
    pub fn of(ours: &OpenBlockTable, theirs: &OpenBlockTable) -> Option<Self> {
        let mut errors: Vec<u64> = ours
            .cells
            .iter()
            .filter_map(|cell| {
                let other = theirs.rate(cell.units, cell.access, cell.write)?;
                error_thousandths(cell.bytes_per_second, other)
            })
            .collect();
        errors.sort_unstable();
        let last = errors.len().checked_sub(1)?;
        Some(Self {
            cells: errors.len(),
            median_error_thousandths: errors[last / 2],
            ninth_decile_error_thousandths: errors[(errors.len() * 9).div_ceil(10) - 1],
            within_2: errors.iter().filter(|&&error| error <= 2000).count(),
        })
    }
}

fn error_thousandths(a: u64, b: u64) -> Option<u64> {
    let (large, small) = (u128::from(a.max(b)), u128::from(a.min(b)));
    (large * 1000).checked_div(small).map(|error| u64::try_from(error).unwrap_or(u64::MAX))
}

/// The number of erase blocks written in turn at which one more makes the rate drop below half of
/// what it was; `None` if there is no such step within the table, or no row for these writes.
pub fn units_before_the_cliff(
    table: &OpenBlockTable,
    access: AccessOrder,
    write: Bytes,
) -> Option<u32> {
    let rate = |units| table.rate(units, access, write);
    (1..)
        .map_while(|units| Some((units, rate(units)?, rate(units + 1)?)))
        .find_map(|(units, now, next)| (next < now / 2).then_some(units))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flashbench::table::TableCell;

    fn table(rates: &[u64]) -> OpenBlockTable {
        let cell = |(index, &bytes_per_second): (usize, &u64)| TableCell {
            units: u32::try_from(index).unwrap() + 1,
            access: AccessOrder::Linear,
            write: Bytes(65536),
            bytes_per_second,
        };
        OpenBlockTable { cells: rates.iter().enumerate().map(cell).collect() }
    }

    #[test]
    fn twice_and_half_the_rate_are_equal_errors() {
        let comparison = Comparison::of(&table(&[100, 100, 300]), &table(&[200, 50, 100])).unwrap();
        assert_eq!(comparison.median_error_thousandths, 2000);
        assert_eq!(comparison.ninth_decile_error_thousandths, 3000);
        assert_eq!((comparison.cells, comparison.within_2), (3, 2));
        assert_eq!(Comparison::of(&table(&[]), &table(&[1])), None);
    }

    #[test]
    fn the_cliff_follows_the_last_fast_unit() {
        let cliff =
            |rates| units_before_the_cliff(&table(rates), AccessOrder::Linear, Bytes(65536));
        assert_eq!(cliff(&[5100, 4700, 4600, 73, 65]), Some(3));
        assert_eq!(cliff(&[5100, 4700, 4600]), None);
    }
}
