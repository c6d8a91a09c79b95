//! An open-unit table: a rate for each number of units, access order and write size.
//!
//! The text format is the output of `flashbench --open-au` runs under titles such as
//! `======= AU=3, linear access =======`. Rates have decimal prefixes (`M/s` is 10^6 bytes per
//! second); flashbench prints them into 8 bytes, which may truncate the unit. This parser is
//! strict: every line must be a title or a row. [`super::Imported`] parses logs.

use std::fmt;

use flashfit_device::Bytes;
use flashfit_user_error::{ExitClass, Hint, UserError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number;

/// The order in which the places of a unit are written.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum AccessOrder {
    Linear,
    /// Each place once, in random order.
    Random,
}

impl fmt::Display for AccessOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Linear => "linear",
            Self::Random => "random",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct TableCell {
    /// Number of erase blocks written in turn.
    pub units: u32,
    pub access: AccessOrder,
    /// The size of a write.
    pub write: Bytes,
    pub bytes_per_second: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct OpenBlockTable {
    /// In the order of measurement.
    pub cells: Vec<TableCell>,
}

/// Why a text is not an open-unit table.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct TableError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub reason: String,
}

impl UserError for TableError {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }

    fn hint(&self) -> Option<Hint> {
        Some("use the output of `flashbench --open-au` with a title for each run".into())
    }
}

impl OpenBlockTable {
    /// Parses a table.
    ///
    /// # Errors
    /// If a line is neither a title nor a row, a row precedes the first title, or there is no row.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let mut cells = Vec::new();
        let mut title = None;
        for (index, line) in text.lines().enumerate() {
            let fault = |reason: &str| TableError { line: index + 1, reason: reason.to_owned() };
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            if line.starts_with("===") {
                title = Some(parse_title(line).ok_or_else(|| fault("not an open-unit title"))?);
                continue;
            }
            let (units, access) = title.ok_or_else(|| fault("a row without a title above it"))?;
            let (write, bytes_per_second) =
                parse_row(line).ok_or_else(|| fault("not a size and a rate"))?;
            cells.push(TableCell { units, access, write, bytes_per_second });
        }
        if cells.is_empty() {
            let line = text.lines().count().max(1);
            return Err(TableError { line, reason: "the table has no row".to_owned() });
        }
        Ok(Self { cells })
    }

    /// The rate of one cell.
    pub fn rate(&self, units: u32, access: AccessOrder, write: Bytes) -> Option<u64> {
        let same =
            |cell: &&TableCell| (cell.units, cell.access, cell.write) == (units, access, write);
        self.cells.iter().find(same).map(|cell| cell.bytes_per_second)
    }
}

/// `======= AU=3, random access =======`.
pub(super) fn parse_title(line: &str) -> Option<(u32, AccessOrder)> {
    let inner = line.trim_matches('=').trim();
    let (units, access) = inner.strip_prefix("AU=")?.split_once(',')?;
    let access = match access.trim() {
        "linear access" => AccessOrder::Linear,
        "random access" => AccessOrder::Random,
        _ => return None,
    };
    Some((units.trim().parse().ok().filter(|&units| units > 0)?, access))
}

fn parse_row(line: &str) -> Option<(Bytes, u64)> {
    let mut words = line.split_whitespace();
    let (size, rate) = (words.next()?, words.next()?);
    if words.next().is_some() {
        return None;
    }
    Some((Bytes(number::size_bytes(size)?), number::bytes_per_second(rate)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_without_rows_is_refused() {
        for text in ["", "\n", "======= AU=2, linear access =======\n"] {
            let error = OpenBlockTable::parse(text).unwrap_err();
            assert_eq!(error.to_string(), "line 1: the table has no row", "{text:?}");
        }
    }

    const TEXT: &str = "======= AU=2, linear access =======\n4MiB    5.52M/s \n64KiB   586K/s  \n\
                        ======= AU=1, random access =======\n4KiB    1.586G/\n";

    #[test]
    fn a_table_with_titles_is_parsed() {
        let table = OpenBlockTable::parse(TEXT).unwrap();
        assert_eq!(table.cells.len(), 3);
        assert_eq!(table.rate(2, AccessOrder::Linear, Bytes(64 << 10)), Some(586_000));
        assert_eq!(table.rate(1, AccessOrder::Random, Bytes(4 << 10)), Some(1_586_000_000));
        assert_eq!(table.rate(3, AccessOrder::Random, Bytes(4 << 10)), None);
    }

    #[test]
    fn malformed_tables_are_rejected_with_the_line() {
        let line = |text: &str| OpenBlockTable::parse(text).unwrap_err().line;
        assert_eq!(line("4MiB 5M/s\n"), 1);
        assert_eq!(line("===== AU=0, linear access =====\n"), 1);
        assert_eq!(line("===== AU=1, linear access =====\n\n4MiB 5;52M/s\n"), 3);
        assert_eq!(line("===== AU=1, linear access =====\n4MiB 5M/s 6M/s\n"), 2);
        assert_eq!(line("===== AU=1, linear access =====\n4MiB infM/s\n"), 2);
    }
}
