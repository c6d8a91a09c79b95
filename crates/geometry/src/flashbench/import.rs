//! Reading files with flashbench's output: what `-a`, `--open-au` and `--find-fat` print, one of
//! them or all, in a log with titles, command lines and whatever else.
//!
//! What is not flashbench's is passed over. What looks like a row and cannot be used is told, with
//! its line and the reason; a file with no row that can be used is an error. How many units an
//! open-unit table is of stands in its title (`AU=3, random access`) or in the command line above
//! it (`--open-au-nr=3 --random`). Limits: an open-unit table without either cannot be used; the
//! capacity of the device is in none of these outputs.

use flashfit_device::Bytes;
use flashfit_user_error::{ExitClass, UserError};

use super::align::{self, AlignTable};
use super::fat::{FatRow, FatTable};
use super::number;
use super::table::{self, AccessOrder, OpenBlockTable, TableCell};

/// Of a file larger than this only so much is read; flashbench prints some kilobytes.
const MOST_BYTES: usize = 16 << 20;
/// Of more warnings than this the rest is only counted.
const MOST_WARNINGS: usize = 20;
/// What flashbench writes in turn where it is not told how many units.
const DEFAULT_OPEN_UNITS: u32 = 2;

/// What flashbench files hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imported {
    /// The alignment tables, each of one run.
    pub align: Vec<AlignTable>,
    /// The open-unit tables; a second one begins where a cell was measured again.
    pub open_units: Vec<OpenBlockTable>,
    /// The find-FAT tables, each of one run.
    pub fat: Vec<FatTable>,
    /// What looked like flashbench's and could not be used.
    pub warnings: Vec<ImportWarning>,
    /// How many warnings more there were.
    pub more_warnings: usize,
}

/// Something in a file that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportWarning {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub reason: String,
}

/// Why nothing in a file could be used.
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

    fn hint(&self) -> Option<String> {
        Some("save the output: `flashbench -a DEVICE > table.txt` (it only reads)".to_owned())
    }
}

impl Imported {
    /// Reads a file.
    ///
    /// # Errors
    /// When no row of it can be used, with the first line that is wrong.
    pub fn read(bytes: &[u8]) -> Result<Self, ImportError> {
        let text = decode(&bytes[..bytes.len().min(MOST_BYTES)]);
        let mut reader = Reader::default();
        for (index, line) in text.split('\n').enumerate() {
            reader.line(index + 1, line.trim());
        }
        if bytes.len() > MOST_BYTES {
            let line = text.split('\n').count();
            reader.warn(line, "what follows was not read: the file is too large".to_owned());
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
            None => ImportError {
                line: 1,
                reason: "nothing that flashbench prints is in the file".to_owned(),
            },
        })
    }

    /// Adds what another file of the same device holds.
    pub fn add(&mut self, other: Self) {
        self.align.extend(other.align);
        self.open_units.extend(other.open_units);
        self.fat.extend(other.fat);
        self.warnings.extend(other.warnings);
        self.more_warnings += other.more_warnings;
    }

    /// Whether no table is there.
    pub fn is_empty(&self) -> bool {
        self.align.is_empty() && self.open_units.is_empty() && self.fat.is_empty()
    }
}

/// UTF-8 where it is that, UTF-16 where it is marked so, else Latin-1, which any bytes are.
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
        // Line by line: a µ that was cut in half spoils only its own.
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

/// What the rows below a title belong to.
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
    /// Whether the next row begins a table of its own.
    anew: bool,
    imported: Imported,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(context) = title(line).or_else(|| command(&words)) {
            self.context = context;
            self.anew = true;
        } else if let Some(at) = words.windows(2).position(is_align) {
            self.align(number, &words[at + 1..]);
        } else if let Some(write) = words.first().and_then(|word| number::size_bytes(word)) {
            self.rates(number, Bytes(write), &words[1..]);
        } else if words.first().is_some_and(|&word| word == "align") {
            self.warn(number, "the row is cut off".to_owned());
        }
    }

    fn align(&mut self, number: usize, words: &[&str]) {
        let row = match align::parse(words) {
            Ok(row) => row,
            Err(reason) => return self.warn(number, reason),
        };
        let last = self.imported.align.last().and_then(|table| table.rows.last());
        // A table goes down; another run begins above.
        if self.anew || last.is_none_or(|last| last.align <= row.align) {
            self.imported.align.push(AlignTable::default());
            self.anew = false;
        }
        self.imported.align.last_mut().expect("one was begun").rows.push(row);
    }

    fn rates(&mut self, number: usize, write: Bytes, words: &[&str]) {
        let looks_like_rates =
            words.first().is_some_and(|word| number::bytes_per_second(word).is_some());
        if self.context == Context::Unknown && !looks_like_rates {
            // A size at the start of a line of something else.
            return;
        }
        let rates: Option<Vec<u64>> = words
            .iter()
            .map(|word| number::bytes_per_second(word).filter(|&rate| rate > 0))
            .collect();
        let Some(rates) = rates.filter(|rates| !rates.is_empty()) else {
            return self.warn(number, "what follows the size is no rate".to_owned());
        };
        match self.context {
            Context::OpenUnits(units, access) if rates.len() == 1 => {
                self.cell(TableCell { units, access, write, bytes_per_second: rates[0] });
            }
            Context::OpenUnits(..) => {
                self.warn(number, "a row of an open-unit table has one rate".to_owned());
            }
            Context::Unknown if rates.len() == 1 => self.warn(
                number,
                "how many units were written is not known: a title such as `AU=3, linear access` \
                 or the command line is missing above"
                    .to_owned(),
            ),
            Context::Fat | Context::Unknown => self.fat(FatRow { write, bytes_per_second: rates }),
        }
    }

    fn cell(&mut self, cell: TableCell) {
        let known = |table: &OpenBlockTable| table.rate(cell.units, cell.access, cell.write);
        if self.imported.open_units.last().is_none_or(|table| known(table).is_some()) {
            self.imported.open_units.push(OpenBlockTable::default());
        }
        self.imported.open_units.last_mut().expect("one was begun").cells.push(cell);
    }

    fn fat(&mut self, row: FatRow) {
        let last = self.imported.fat.last().and_then(|table| table.rows.last());
        let of_same_run = |last: &FatRow| {
            last.write > row.write && last.bytes_per_second.len() == row.bytes_per_second.len()
        };
        if self.anew || !last.is_some_and(of_same_run) {
            self.imported.fat.push(FatTable::default());
            self.anew = false;
        }
        self.imported.fat.last_mut().expect("one was begun").rows.push(row);
    }

    fn warn(&mut self, line: usize, reason: String) {
        if self.imported.warnings.len() < MOST_WARNINGS {
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

/// A command line of flashbench's, with whatever prompt before it.
fn command(words: &[&str]) -> Option<Context> {
    let at = words.iter().position(|word| word.rsplit('/').next() == Some("flashbench"))?;
    let options = &words[at + 1..];
    let has = |short: char, long: &str| {
        options.iter().any(|word| {
            *word == long
                || (word.starts_with('-') && !word.starts_with("--") && word[1..].contains(short))
        })
    };
    if !options.iter().any(|word| word.starts_with('-')) {
        return None;
    }
    if has('O', "--open-au") {
        let given = options.iter().find_map(|word| word.strip_prefix("--open-au-nr="));
        let units = given.map_or(Some(DEFAULT_OPEN_UNITS), count)?;
        let access = if has('R', "--random") { AccessOrder::Random } else { AccessOrder::Linear };
        return Some(Context::OpenUnits(units, access));
    }
    Some(if has('f', "--find-fat") { Context::Fat } else { Context::Unknown })
}

fn count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|&units| units > 0)
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
