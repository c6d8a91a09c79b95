//! Loads card models from the catalog or from a user's file.

use std::path::Path;

use flashfit_catalog::{CatalogEntry, CatalogEntryError, entries, read};
use flashfit_host::path_text;
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::model::{CardModel, ModelError};

#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// Unknown card, or an unreadable file.
    #[error(transparent)]
    Entry(#[from] CatalogEntryError),
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Files of the catalog with mistakes, at least one.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Models(Vec<ModelError>),
}

impl UserError for CardError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Entry(error) => error.class(),
            Self::Model(error) => error.class(),
            Self::Models(_) => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Entry(error) => error.hint(),
            Self::Model(error) => error.hint(),
            Self::Models(errors) => errors.first()?.hint(),
        }
    }
}

/// Loads a card by its catalog name, or from a file if the name contains a `/` or ends in `.toml`,
/// or if there is no such card but such a file; a `file:` URL names a file, too.
/// `user_dir` is the user's catalog folder.
pub fn load(name_or_path: &str, user_dir: Option<&Path>) -> Result<CardModel, CardError> {
    model(&entry(name_or_path, user_dir)?)
}

/// The text of a card file, unparsed.
///
/// # Errors
/// When the card is unknown or its file cannot be read.
pub fn entry(name_or_path: &str, user_dir: Option<&Path>) -> Result<CatalogEntry, CardError> {
    let path = path_text::from_text(name_or_path);
    if name_or_path.contains('/') || path.extension().is_some_and(|extension| extension == "toml") {
        return Ok(read(&path)?);
    }
    let entries = entries("cards", "toml", user_dir)?;
    if let Some(entry) = entries.iter().find(|entry| entry.name == name_or_path) {
        return Ok(entry.clone());
    }
    if path.is_file() {
        return Ok(read(&path)?);
    }
    let known = entries.iter().map(|entry| entry.name.as_str());
    Err(CatalogEntryError::unknown("card", name_or_path, known).into())
}

/// All cards of the catalog, sorted by name.
///
/// # Errors
/// When a user's file cannot be read, or [`CardError::Models`] with the mistakes of all files.
pub fn all(user_dir: Option<&Path>) -> Result<Vec<CardModel>, CardError> {
    let (mut models, mut errors) = (Vec::new(), Vec::new());
    for entry in entries("cards", "toml", user_dir)? {
        match CardModel::parse(&entry.text, &entry.origin) {
            Ok(model) => models.push(model),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(models) } else { Err(CardError::Models(errors)) }
}

fn model(entry: &CatalogEntry) -> Result<CardModel, CardError> {
    Ok(CardModel::parse(&entry.text, &entry.origin)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::SMALL;

    #[test]
    fn every_card_of_the_catalog_is_valid_and_named_after_its_file() {
        let entries = entries("cards", "toml", None).unwrap();
        assert!(!entries.is_empty());
        for entry in entries {
            assert_eq!(model(&entry).unwrap().name, entry.name);
        }
        assert!(all(None).unwrap().len() >= 2);
    }

    #[test]
    fn a_mistyped_name_is_refused_with_a_suggestion() {
        let error = load("sd-c4-blok", None).unwrap_err();
        assert_eq!(error.class(), ExitClass::Usage);
        assert_eq!(error.hint(), Some("did you mean `sd-c4-block`?".into()));
    }

    #[test]
    fn a_path_is_read_and_a_missing_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        std::fs::write(&path, SMALL).unwrap();
        assert_eq!(load(path.to_str().unwrap(), None).unwrap().name, "small");
        let error = load("/nonexistent/x.toml", None).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/x.toml"));
    }
}
