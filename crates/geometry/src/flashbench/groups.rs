//! How far two open-unit tables differ, by the kind of writes.
//!
//! A card model can reproduce large writes well and small ones badly. The cells are compared in
//! groups: the order of the writes, their size, and whether they go to few or to many erase blocks
//! in turn.

use std::fmt;

use flashfit_device::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::comparison::Comparison;
use super::table::{AccessOrder, OpenBlockTable, TableCell};

/// Writes of at least this size count as large.
const LARGE: Bytes = Bytes::kib(64);
/// A group is reproduced if half of its rates are off by at most this ratio, in thousandths.
pub const GOOD_MEDIAN_THOUSANDTHS: u64 = 1300;
/// And nine in ten by at most this.
pub const GOOD_NINTH_THOUSANDTHS: u64 = 2000;

/// The common cells of two tables with one kind of writes.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct CellGroup {
    pub access: AccessOrder,
    /// The smallest and the largest write, in bytes.
    pub writes_bytes: [u64; 2],
    /// The fewest and the most erase blocks that are written in turn.
    pub units: [u32; 2],
    /// Whether the writes are large, and whether they go to few units.
    #[serde(skip)]
    kind: [bool; 2],
    pub cells: usize,
    /// Half of the rates are off by no more than this ratio, in thousandths: 1000 is not an error.
    pub median_error_thousandths: u64,
    /// Nine in ten are off by no more than this, in thousandths.
    pub ninth_decile_error_thousandths: u64,
    /// Whether half are within 1.3 and nine in ten within 2.
    pub good: bool,
}

impl CellGroup {
    /// The groups that have cells. Units up to `few` are few.
    pub fn all(ours: &OpenBlockTable, theirs: &OpenBlockTable, few: u32) -> Vec<Self> {
        let mut groups = Vec::new();
        for access in [AccessOrder::Linear, AccessOrder::Random] {
            for kind in [[true, true], [true, false], [false, true], [false, false]] {
                let of = |cell: &&TableCell| {
                    cell.access == access && [cell.write >= LARGE, cell.units <= few] == kind
                };
                let cells: Vec<TableCell> = ours.cells.iter().filter(of).copied().collect();
                groups.extend(Self::of(cells, theirs, access, kind));
            }
        }
        groups
    }

    fn of(
        cells: Vec<TableCell>,
        theirs: &OpenBlockTable,
        access: AccessOrder,
        kind: [bool; 2],
    ) -> Option<Self> {
        let writes = || cells.iter().map(|cell| cell.write.0);
        let units = || cells.iter().map(|cell| cell.units);
        let writes_bytes = [writes().min()?, writes().max()?];
        let units = [units().min()?, units().max()?];
        let compared = Comparison::of(&OpenBlockTable { cells }, theirs)?;
        let (median, ninth) =
            (compared.median_error_thousandths, compared.ninth_decile_error_thousandths);
        Some(Self {
            access,
            writes_bytes,
            units,
            kind,
            cells: compared.cells,
            median_error_thousandths: median,
            ninth_decile_error_thousandths: ninth,
            good: is_good(median, ninth),
        })
    }

    fn named(&self, any_units: bool, any_size: bool) -> String {
        let [large, few] = self.kind;
        let size = match large {
            _ if any_size => String::new(),
            true => format!(" of {LARGE} and more"),
            false => format!(" of less than {LARGE}"),
        };
        let units = match self.units {
            _ if any_units => String::new(),
            [_, 1] if few => " to one erase block".to_owned(),
            [_, most] if few => format!(" to up to {most} erase blocks"),
            [least, _] => format!(" to {least} and more erase blocks"),
        };
        format!("{} writes{size}{units}", self.access)
    }
}

/// Whether rates with such errors are reproduced.
pub fn is_good(median_thousandths: u64, ninth_thousandths: u64) -> bool {
    median_thousandths <= GOOD_MEDIAN_THOUSANDTHS && ninth_thousandths <= GOOD_NINTH_THOUSANDTHS
}

/// What a model of these groups is good for, and what not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoodFor {
    pub good: Vec<String>,
    pub not: Vec<String>,
}

impl GoodFor {
    pub fn of(groups: &[CellGroup]) -> Self {
        let mut named = Self::default();
        for access in [AccessOrder::Linear, AccessOrder::Random] {
            let of: Vec<&CellGroup> = groups.iter().filter(|one| one.access == access).collect();
            let whole = of.iter().all(|one| one.good == of[0].good);
            for (at, group) in of.iter().enumerate() {
                let list = if group.good { &mut named.good } else { &mut named.not };
                let sibling =
                    |other: &&&CellGroup| other.kind[0] == group.kind[0] && ***other != **group;
                let alike = of.iter().find(sibling).is_none_or(|other| other.good == group.good);
                let text = group.named(whole || alike, whole);
                // One name for groups that are alike.
                if (!whole || at == 0) && !list.contains(&text) {
                    list.push(text);
                }
            }
        }
        named
    }
}

impl fmt::Display for GoodFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |texts: &[String]| match texts {
            [] => "nothing that was measured".to_owned(),
            some => some.join("; "),
        };
        match self.not[..] {
            [] => write!(f, "good for: {}", list(&self.good)),
            _ => write!(f, "good for: {}. Not for: {}", list(&self.good), list(&self.not)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rate: impl Fn(AccessOrder, u32, u64) -> u64) -> OpenBlockTable {
        let mut cells = Vec::new();
        for access in [AccessOrder::Linear, AccessOrder::Random] {
            for units in 1..=6 {
                for write in [4096, 16384, 65536, 1 << 20] {
                    let bytes_per_second = rate(access, units, write);
                    cells.push(TableCell { units, access, write: Bytes(write), bytes_per_second });
                }
            }
        }
        OpenBlockTable { cells }
    }

    fn said(rate: impl Fn(AccessOrder, u32, u64) -> u64) -> String {
        GoodFor::of(&CellGroup::all(&table(|_, _, _| 1000), &table(rate), 3)).to_string()
    }

    #[test]
    fn it_is_said_which_writes_are_reproduced() {
        assert_eq!(said(|_, _, _| 1100), "good for: linear writes; random writes");
        assert_eq!(
            said(|access, _, _| if access == AccessOrder::Random { 100 } else { 1000 }),
            "good for: linear writes. Not for: random writes"
        );
        assert_eq!(
            said(|_, units, write| if units > 3 && write < 65536 { 3000 } else { 1000 }),
            "good for: linear writes of 64 KiB and more; linear writes of less than 64 KiB to up \
             to 3 erase blocks; random writes of 64 KiB and more; random writes of less than 64 \
             KiB to up to 3 erase blocks. Not for: linear writes of less than 64 KiB to 4 and \
             more erase blocks; random writes of less than 64 KiB to 4 and more erase blocks"
        );
        let nothing = said(|_, _, _| 10);
        assert!(nothing.starts_with("good for: nothing that was measured. Not"), "{nothing}");
    }

    #[test]
    fn groups_have_the_errors_of_their_cells() {
        let groups = CellGroup::all(
            &table(|_, _, _| 1000),
            &table(|_, units, _| if units > 5 { 500 } else { 1000 }),
            5,
        );
        let many: Vec<&CellGroup> = groups.iter().filter(|one| one.units == [6, 6]).collect();
        assert_eq!((groups.len(), many.len()), (8, 4));
        assert!(many.iter().all(|one| one.median_error_thousandths == 2000 && !one.good));
        assert!(groups.iter().filter(|one| one.good).count() == 4);
    }
}
