//! All mistakes of a file at once, each with its line.
//!
//! The types that a file is read into are the only definition of its keys. After each error of
//! their deserializer, the place is repaired in memory and the file is read again: an unknown key
//! is removed, and a missing or wrong value is replaced by any value that is accepted. Limit: if
//! values were replaced, what holds between values was not checked.

use std::ops::Range;

use flashfit_user_error::{ExitClass, Hint, UserError};
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::reader::{Reader, TomlError};
use crate::{CatalogEntry, Origin, line_at, line_of_key, nearest};

/// A file with more repairs than this is of another kind.
const MOST_REPAIRS: usize = 200;
/// What may stand in for a missing value, until one is accepted.
const STAND_INS: [&str; 7] = ["''", "1", "true", "[]", "{}", "'4KiB'", "'none'"];
/// Repaired values have places after the end of any file.
const BEYOND: usize = usize::MAX / 2;

/// One mistake of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileMistake {
    /// Counted from 1.
    pub line: usize,
    pub reason: String,
}

/// The mistakes of one file, as one text with a line of `FILE:LINE: REASON` for each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(origin, mistakes))]
pub struct FileMistakes {
    pub origin: Origin,
    pub mistakes: Vec<FileMistake>,
}

impl FileMistakes {
    /// In the order of the file.
    pub fn new(origin: &Origin, mut mistakes: Vec<FileMistake>) -> Self {
        mistakes.sort();
        mistakes.dedup();
        Self { origin: origin.clone(), mistakes }
    }

    /// One mistake at a key, see [`line_of_key`].
    pub fn at_key(entry: &CatalogEntry, key: &str, reason: impl Into<String>) -> Self {
        let line = line_of_key(&entry.text, key);
        Self::new(&entry.origin, vec![FileMistake { line, reason: reason.into() }])
    }
}

impl UserError for FileMistakes {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }

    /// The command that opens the file where its first mistake is.
    fn hint(&self) -> Option<Hint> {
        let Origin::File(path) = &self.origin else { return None };
        let line = self.mistakes.first()?.line;
        let path = flashfit_host::program::quote_path(path);
        Some(format!("${{EDITOR:-vi}} +{line} {path}").into())
    }
}

fn lines(origin: &Origin, mistakes: &[FileMistake]) -> String {
    let line = |found: &FileMistake| format!("{origin}:{}: {}", found.line, found.reason);
    mistakes.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// What was read of a TOML text.
#[derive(Debug)]
pub struct ReadToml<T> {
    /// `None` if the text is not TOML, or if a value had to be replaced.
    pub value: Option<T>,
    pub mistakes: Vec<FileMistake>,
}

/// Reads a file that has no rules beyond its keys and the forms of their values.
///
/// # Errors
/// All mistakes.
pub fn read_entry<T: DeserializeOwned>(entry: &CatalogEntry) -> Result<T, FileMistakes> {
    let ReadToml { value, mistakes } = read_toml::<T>(&entry.text);
    value.filter(|_| mistakes.is_empty()).ok_or_else(|| FileMistakes::new(&entry.origin, mistakes))
}

/// Reads a TOML text, and finds all unknown and missing keys and values of a wrong form.
pub fn read_toml<T: DeserializeOwned>(text: &str) -> ReadToml<T> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return ReadToml {
            value: None,
            mistakes: errors.into_iter().map(|e| of(text, &e.into())).collect(),
        };
    }
    let mut repair = Repair { table, mistakes: Vec::new(), replaced: 0, repairs: 0 };
    loop {
        match read(&repair.table) {
            Ok(value) => {
                let value = (repair.replaced == 0).then_some(value);
                return ReadToml { value, mistakes: repair.mistakes };
            }
            Err(error) => {
                // So that the repairs are compiled once for all types.
                let fails = |table: &Spanned<DeTable<'_>>| read::<T>(table).err();
                if !repair.after(&fails, text, &error) {
                    return ReadToml { value: None, mistakes: repair.mistakes };
                }
            }
        }
    }
}

fn read<T: DeserializeOwned>(table: &Spanned<DeTable<'_>>) -> Result<T, TomlError> {
    T::deserialize(Reader::of(table))
}

fn of(text: &str, error: &TomlError) -> FileMistake {
    let line = line_at(text, error.span().map_or(0, |span| span.start));
    let reason = error.message().trim().replace('\n', ", ");
    let hint = nearest_of(&reason).map(|name| format!("; did you mean `{name}`?"));
    FileMistake { line, reason: reason + &hint.unwrap_or_default() }
}

/// The expected word that is most similar to the unknown one.
fn nearest_of(reason: &str) -> Option<String> {
    reason.strip_prefix("unknown ")?;
    let mut quoted = reason.split('`').skip(1).step_by(2);
    nearest(quoted.next()?, quoted)
}

/// The first error of a table.
type Fails<'a> = &'a dyn Fn(&Spanned<DeTable<'_>>) -> Option<TomlError>;

struct Repair<'t> {
    table: Spanned<DeTable<'t>>,
    mistakes: Vec<FileMistake>,
    /// How many values were replaced.
    replaced: usize,
    repairs: usize,
}

impl Repair<'_> {
    /// Notes the mistake and repairs its place; false if that cannot be done.
    fn after(&mut self, fails: Fails<'_>, text: &str, error: &TomlError) -> bool {
        let span = error.span().unwrap_or(0..0);
        // What is wrong within a stand-in is not a mistake of the file.
        if span.start < BEYOND {
            self.mistakes.push(of(text, error));
        }
        self.repairs += 1;
        if self.repairs > MOST_REPAIRS {
            return false;
        }
        let message = error.message();
        let name = message.split('`').nth(1).unwrap_or_default();
        if message.starts_with("unknown field") {
            return remove(self.table.get_mut(), &span);
        }
        self.replaced += 1;
        let place = BEYOND + 2 * self.repairs;
        let own = place..place + 1;
        let missing = message.starts_with("missing field").then_some(name);
        let variant = message.split_once("expected").and_then(|(_, list)| list.split('`').nth(1));
        let variant = variant.map(|name| DeValue::String(name.to_owned().into()));
        for stand_in in variant.into_iter().chain(STAND_INS.into_iter().map(value)) {
            let mut tried = self.table.clone();
            let value = Spanned::new(own.clone(), stand_in);
            let done = match missing {
                Some(key) => insert(&mut tried, &span, key, value),
                None => replace(tried.get_mut(), &span, &value),
            };
            if !done {
                return false;
            }
            let is_wrong = fails(&tried).is_some_and(|next| {
                let within = next.message().starts_with("missing field");
                next.span().unwrap_or_default() == own && !within
                    || next.message() == message && next.span() == error.span()
            });
            if !is_wrong {
                self.table = tried;
                return true;
            }
        }
        false
    }
}

fn value(text: &'static str) -> DeValue<'static> {
    DeValue::parse(text).expect("a value of TOML").into_inner()
}

/// All tables and arrays of a value.
fn inner<'a, 't>(value: &'a mut DeValue<'t>) -> Vec<&'a mut Spanned<DeValue<'t>>> {
    match value {
        DeValue::Table(table) => table.iter_mut().map(|(_, value)| value).collect(),
        DeValue::Array(array) => array.iter_mut().collect(),
        _ => Vec::new(),
    }
}

fn remove(table: &mut DeTable<'_>, span: &Range<usize>) -> bool {
    let found = table.keys().find(|key| key.span() == *span).map(|key| key.get_ref().clone());
    if let Some(key) = found {
        return table.remove(key.as_ref()).is_some();
    }
    table.iter_mut().any(|(_, value)| remove_within(value.get_mut(), span))
}

fn remove_within(value: &mut DeValue<'_>, span: &Range<usize>) -> bool {
    match value {
        DeValue::Table(table) => remove(table, span),
        value => inner(value).into_iter().any(|item| remove_within(item.get_mut(), span)),
    }
}

fn replace<'t>(table: &mut DeTable<'t>, span: &Range<usize>, by: &Spanned<DeValue<'t>>) -> bool {
    table.iter_mut().any(|(_, value)| replace_within(value, span, by))
}

fn replace_within<'t>(
    value: &mut Spanned<DeValue<'t>>,
    span: &Range<usize>,
    by: &Spanned<DeValue<'t>>,
) -> bool {
    if value.span() == *span {
        *value = by.clone();
        return true;
    }
    inner(value.get_mut()).into_iter().any(|item| replace_within(item, span, by))
}

/// Adds a key to the table at this place.
fn insert<'t>(
    root: &mut Spanned<DeTable<'t>>,
    span: &Range<usize>,
    key: &str,
    new: Spanned<DeValue<'t>>,
) -> bool {
    let key = Spanned::new(new.span(), key.to_owned().into());
    for value in root.get_mut().iter_mut().map(|(_, value)| value) {
        if let Some(table) = table_at(value, span) {
            table.insert(key, new);
            return true;
        }
    }
    let is_root = root.span() == *span || span.is_empty();
    if is_root {
        root.get_mut().insert(key, new);
    }
    is_root
}

fn table_at<'a, 't>(
    value: &'a mut Spanned<DeValue<'t>>,
    span: &Range<usize>,
) -> Option<&'a mut DeTable<'t>> {
    if value.span() == *span && value.get_ref().is_table() {
        return match value.get_mut() {
            DeValue::Table(table) => Some(table),
            _ => None,
        };
    }
    inner(value.get_mut()).into_iter().find_map(|item| table_at(item, span))
}

#[cfg(test)]
#[path = "mistakes_tests.rs"]
mod tests;
