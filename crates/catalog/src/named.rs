//! What a name on the command line means: an entry of the catalog, or a file.

use std::path::Path;

use flashfit_host::path_text;

use crate::{CatalogEntry, CatalogEntryError, entries, read};

/// An entry and how it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedEntry {
    pub entry: CatalogEntry,
    /// Whether the name is that of a file, not of an entry of the catalog.
    pub is_file: bool,
}

/// Whether the name can only be that of a file with an entry.
pub fn is_toml_name(name: &str) -> bool {
    path_text::from_text(name).extension().is_some_and(|ending| ending == "toml")
}

/// Finds an entry of `folder`, which messages call `what`. A name with a `/` or with the ending
/// `.toml` is a file. Any other is an entry of the catalog, or else a file of that name. A `file:`
/// URL names a file, too. `user` is the user's catalog folder.
///
/// # Errors
/// When there is neither, or the file cannot be read.
pub fn find_named(
    (folder, what): (&str, &str),
    name: &str,
    user: Option<&Path>,
) -> Result<NamedEntry, CatalogEntryError> {
    let path = path_text::from_text(name);
    let file = || Ok(NamedEntry { entry: read(&path)?, is_file: true });
    if name.contains('/') || is_toml_name(name) {
        return file();
    }
    let mut known = entries(folder, "toml", user)?;
    if let Some(at) = known.iter().position(|entry| entry.name == name) {
        return Ok(NamedEntry { entry: known.swap_remove(at), is_file: false });
    }
    if path.is_file() {
        return file();
    }
    let names = known.iter().map(|entry| entry.name.as_str());
    Err(CatalogEntryError::unknown(what, name, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_found_before_a_file_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "mine").unwrap();
            path.display().to_string()
        };
        let find = |name: &str| find_named(("cards", "card"), name, None);
        let entry = find("sd-c4-block").unwrap();
        assert!(!entry.is_file && entry.entry.name == "sd-c4-block");
        for path in [file("mine.toml"), file("mine"), format!("file://{}", file("mine"))] {
            let found = find(&path).unwrap();
            assert!(found.is_file && found.entry.text == "mine", "{path}");
        }
        let unknown = find("sd-c4-blok").unwrap_err();
        assert!(matches!(unknown, CatalogEntryError::Unknown { .. }), "{unknown}");
        for missing in ["missing.toml", "/nonexistent/missing"] {
            let error = find(missing).unwrap_err();
            assert!(matches!(error, CatalogEntryError::Unreadable { .. }), "{error}");
        }
        assert!(is_toml_name("my.toml") && !is_toml_name("toml") && !is_toml_name("card.img"));
    }
}
