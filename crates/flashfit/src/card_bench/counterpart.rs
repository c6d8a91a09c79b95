//! Reads the flashbench table of a real card.

use std::path::Path;

use flashfit_catalog::{CatalogEntryError, entries};
use flashfit_geometry::flashbench::{Imported, OpenBlockTable};
use flashfit_host::input_file::{DOCUMENT_BYTES, read_capped};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;

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

fn table(place: &str, text: &str) -> Result<OpenBlockTable, CommandError> {
    let hint = "use the output of `flashbench --open-au` with a title for each run";
    OpenBlockTable::parse(text).map_err(|error| {
        CommandError::new(ExitClass::Usage, format!("{place}: {error}"), Some(hint))
    })
}
