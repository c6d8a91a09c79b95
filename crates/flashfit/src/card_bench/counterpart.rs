//! Reads the flashbench table of a real card.

use std::path::Path;

use flashfit_catalog::{CatalogEntryError, entries};
use flashfit_geometry::flashbench::{Imported, OpenBlockTable};
use flashfit_host::input_file::{DOCUMENT_BYTES, read_capped};
use flashfit_user_error::UserError;

use crate::command_error::CommandError;
use crate::hints;

pub fn given(path: &Path) -> Result<(String, OpenBlockTable), CommandError> {
    let place = path.display().to_string();
    let bytes = read_capped(path, DOCUMENT_BYTES)?;
    // Whatever `probe --import` takes: other output around the table, several tables.
    let tables = Imported::read(&bytes).map(|imported| imported.open_erase_blocks);
    if let Some(found) = tables.ok().and_then(|tables| tables.into_iter().next()) {
        return Ok((place, found));
    }
    let table = table(&place, &String::from_utf8_lossy(&bytes))?;
    Ok((place, table))
}

pub fn table_named(
    name: &str,
    catalog: Option<&Path>,
) -> Result<(String, OpenBlockTable), CommandError> {
    let known = entries("published", "txt", catalog)?;
    let Some(entry) = known.iter().find(|entry| entry.name == name) else {
        let names = known.iter().map(|entry| entry.name.as_str());
        return Err(CatalogEntryError::unknown("published table", name, names).into());
    };
    Ok((name.to_owned(), table(&entry.origin.to_string(), &entry.text)?))
}

pub fn table(place: &str, text: &str) -> Result<OpenBlockTable, CommandError> {
    OpenBlockTable::parse(text).map_err(|error| {
        let hint = error.hint().as_ref().map(hints::text);
        let message = format!("{place}:{}: {}", error.line, error.reason);
        CommandError::new(error.class(), message, hint.as_deref())
    })
}
