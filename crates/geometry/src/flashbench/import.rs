//! Imports flashbench output: any of `-a`, `--open-au` and `--find-fat`, also from a log with
//! titles and command lines.
//!
//! Text that is not from flashbench is skipped. A malformed row is reported with its line and
//! reason; a file without any usable row is an error. The number of units of an open-unit table is
//! taken from its title (`AU=3, random access`) or from the command line above it (`--open-au-nr=3
//! --random`). Limits: an open-unit table without either is not usable; none of the outputs contain
//! the capacity.

use flashfit_device::Bytes;
use flashfit_user_error::{ExitClass, Hint, UserError};

use super::align::{self, AlignTable};
use super::command::CommandLine;
use super::fat::{FatRow, FatTable};
use super::number;
use super::table::{self, AccessOrder, OpenBlockTable, TableCell};

/// The most that is read from a file; flashbench prints a few kilobytes.
const MAX_BYTES: usize = 16 << 20;
/// Further warnings are only counted.
const MAX_WARNINGS: usize = 20;
/// The most open units of a table. Devices keep a few dozen open.
const MAX_OPEN_UNITS: u32 = 1024;
/// flashbench's default number of open units.
const DEFAULT_OPEN_UNITS: u32 = 2;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imported {
    /// A repeated alignment starts another table.
    pub align: Vec<AlignTable>,
    /// A repeated cell starts another table.
    pub open_erase_blocks: Vec<OpenBlockTable>,
    pub fat: Vec<FatTable>,
    pub warnings: Vec<ImportWarning>,
    /// Number of warnings beyond the limit.
    pub more_warnings: usize,
    /// Number of tables that were dropped because they were read before.
    pub repeated: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportWarning {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub reason: String,
}

/// Why a file has no usable row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ImportError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub reason: String,
}

impl UserError for ImportError {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }

    fn hint(&self) -> Option<Hint> {
        Some("save the output of `flashbench -a DEVICE > table.txt` (read-only)".into())
    }
}

impl Imported {
    /// Parses a file.
    ///
    /// # Errors
    /// If no row is usable, with the first malformed line.
    pub fn read(bytes: &[u8]) -> Result<Self, ImportError> {
        let text = decode(&bytes[..bytes.len().min(MAX_BYTES)]);
        let mut reader = Reader::default();
        for (index, line) in text.split('\n').enumerate() {
            reader.line(index + 1, line.trim());
        }
        if bytes.len() > MAX_BYTES {
            let line = text.split('\n').count();
            reader.warn(line, "the rest was not read: the file is too large".to_owned());
        }
        let imported = reader.imported;
        if !imported.is_empty() {
            return Ok(imported);
        }
        Err(match imported.warnings.into_iter().next() {
            Some(ImportWarning { line, reason }) => ImportError { line, reason },
            None if text.trim().is_empty() => {
                ImportError { line: 1, reason: "the file is empty".to_owned() }
            }
            None => {
                ImportError { line: 1, reason: "the file contains no flashbench output".to_owned() }
            }
        })
    }

    /// Adds the tables of another file of the same device.
    pub fn add(&mut self, other: Self) {
        self.align.extend(other.align);
        self.open_erase_blocks.extend(other.open_erase_blocks);
        self.fat.extend(other.fat);
        self.warnings.extend(other.warnings);
        self.more_warnings += other.more_warnings;
        self.repeated += other.repeated;
    }

    pub fn is_empty(&self) -> bool {
        self.align.is_empty() && self.open_erase_blocks.is_empty() && self.fat.is_empty()
    }
}

/// Decodes UTF-8, UTF-16 with a byte order mark, or else Latin-1, which accepts any bytes.
fn decode(bytes: &[u8]) -> String {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let wide: Option<fn([u8; 2]) -> u16> = match bytes {
        [0xff, 0xfe, ..] => Some(u16::from_le_bytes),
        [0xfe, 0xff, ..] => Some(u16::from_be_bytes),
        _ => None,
    };
    if let Some(unit) = wide {
        let units = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        return char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect();
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        // By line, so that a truncated µ affects only its own line.
        Err(_) => {
            bytes.split(|&byte| byte == b'\n').map(decode_line).collect::<Vec<_>>().join("\n")
        }
    }
}

fn decode_line(line: &[u8]) -> String {
    match std::str::from_utf8(line) {
        Ok(text) => text.to_owned(),
        Err(_) => line.iter().map(|&byte| char::from(byte)).collect(),
    }
}

/// The table that the following rows belong to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Context {
    #[default]
    Unknown,
    OpenUnits(u32, AccessOrder),
    Fat,
}

#[derive(Default)]
struct Reader {
    context: Context,
    starts_new_table: bool,
    imported: Imported,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(context) = title(line).map(Ok).or_else(|| command(&words)) {
            self.starts_new_table = true;
            self.context = match context {
                Ok(Context::OpenUnits(units, _)) if units > MAX_OPEN_UNITS => {
                    self.warn(number, format!("more than {MAX_OPEN_UNITS} units: {units}"));
                    Context::Unknown
                }
                Ok(other) => other,
                Err(reason) => {
                    self.warn(number, reason);
                    Context::Unknown
                }
            };
        } else if let Some(at) = words.windows(2).position(is_align) {
            self.align(number, &words[at + 1..]);
        } else if let Some(write) = words.first().and_then(|word| number::size_bytes(word)) {
            self.rates(number, Bytes(write), &words[1..]);
        } else if words.first().is_some_and(|&word| word == "align") {
            self.warn(number, "the row is truncated".to_owned());
        }
    }

    fn align(&mut self, number: usize, words: &[&str]) {
        let row = match align::parse(words) {
            Ok(row) => row,
            Err(reason) => return self.warn(number, reason),
        };
        // A repeated alignment starts another run. Files that were sorted otherwise are of one run.
        let place = |table: &AlignTable| table.rows.binary_search_by(|at| row.align.cmp(&at.align));
        let new_place = self.imported.align.last().and_then(|table| place(table).err());
        match new_place.filter(|_| !self.starts_new_table) {
            Some(at) => {
                self.imported.align.last_mut().expect("it has a place").rows.insert(at, row);
            }
            None => self.imported.align.push(AlignTable { rows: vec![row] }),
        }
        self.starts_new_table = false;
    }

    fn rates(&mut self, number: usize, write: Bytes, words: &[&str]) {
        let looks_like_rates =
            words.first().is_some_and(|word| number::bytes_per_second(word).is_some());
        if self.context == Context::Unknown && !looks_like_rates {
            // Unrelated text that starts with a size.
            return;
        }
        let rates: Option<Vec<u64>> = words
            .iter()
            .map(|word| number::bytes_per_second(word).filter(|&rate| rate > 0))
            .collect();
        let Some(rates) = rates.filter(|rates| !rates.is_empty()) else {
            return self.warn(number, "the size is not followed by a valid rate".to_owned());
        };
        match self.context {
            Context::OpenUnits(units, access) if rates.len() == 1 => {
                self.cell(TableCell { units, access, write, bytes_per_second: rates[0] });
            }
            Context::OpenUnits(..) => {
                self.warn(number, "a row of an open-unit table must have one rate".to_owned());
            }
            Context::Unknown if rates.len() == 1 => self.warn(
                number,
                "unknown number of units: a title such as `AU=3, linear access` \
                 or the command line is missing above"
                    .to_owned(),
            ),
            Context::Fat | Context::Unknown => self.fat(FatRow { write, bytes_per_second: rates }),
        }
    }

    fn cell(&mut self, cell: TableCell) {
        let known = |table: &OpenBlockTable| table.rate(cell.units, cell.access, cell.write);
        if self.imported.open_erase_blocks.last().is_none_or(|table| known(table).is_some()) {
            self.imported.open_erase_blocks.push(OpenBlockTable::default());
        }
        self.imported.open_erase_blocks.last_mut().expect("one was begun").cells.push(cell);
    }

    fn fat(&mut self, row: FatRow) {
        let last = self.imported.fat.last().and_then(|table| table.rows.last());
        let of_same_run = |last: &FatRow| {
            last.write > row.write && last.bytes_per_second.len() == row.bytes_per_second.len()
        };
        if self.starts_new_table || !last.is_some_and(of_same_run) {
            self.imported.fat.push(FatTable::default());
            self.starts_new_table = false;
        }
        self.imported.fat.last_mut().expect("one was begun").rows.push(row);
    }

    fn warn(&mut self, line: usize, reason: String) {
        if self.imported.warnings.len() < MAX_WARNINGS {
            self.imported.warnings.push(ImportWarning { line, reason });
        } else {
            self.imported.more_warnings += 1;
        }
    }
}

fn is_align(pair: &[&str]) -> bool {
    pair[0] == "align" && pair[1].starts_with(|c: char| c.is_ascii_digit())
}

/// `=== AU=3, random access ===`, `=== find FAT: 1 ===`; any other title ends a table.
fn title(line: &str) -> Option<Context> {
    let inner = line.strip_prefix("==")?.trim_matches('=').trim();
    if inner.starts_with("find FAT") {
        return Some(Context::Fat);
    }
    Some(
        table::parse_title(line)
            .map_or(Context::Unknown, |(units, access)| Context::OpenUnits(units, access)),
    )
}

/// The table that a flashbench command line announces, or why it is unknown.
fn command(words: &[&str]) -> Option<Result<Context, String>> {
    let line = CommandLine::find(words)?;
    if !line.has("open-au") {
        let is_fat = line.has("find-fat");
        return Some(Ok(if is_fat { Context::Fat } else { Context::Unknown }));
    }
    let units = match line.value("open-au-nr") {
        None => Some(DEFAULT_OPEN_UNITS),
        Some(given) => given.and_then(count),
    };
    let access = if line.has("random") { AccessOrder::Random } else { AccessOrder::Linear };
    Some(units.map(|units| Context::OpenUnits(units, access)).ok_or_else(|| {
        "the number of units in the command line is missing or not a valid number".to_owned()
    }))
}

fn count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|&units| units > 0)
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
