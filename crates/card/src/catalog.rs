//! Loads card models from the catalog or from a user's file.

use std::path::Path;

use flashfit_catalog::{
    CatalogEntry, CatalogEntryError, NamedEntry, entries, find_named, line_of_key,
};
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

/// A card model and how it was named.
#[derive(Debug)]
pub struct NamedCard {
    pub model: CardModel,
    /// Whether it was named as a file, which describes one card; a name of the catalog stands for
    /// a class of cards.
    pub is_file: bool,
}

/// Loads a card by its name in the catalog or by its file, see [`find_named`]. `user_dir` is the
/// user's catalog folder.
///
/// # Errors
/// When the card is unknown, or its file cannot be read or has mistakes.
pub fn find(name_or_path: &str, user_dir: Option<&Path>) -> Result<NamedCard, CardError> {
    let NamedEntry { entry, is_file } = named_entry(name_or_path, user_dir)?;
    let model = CardModel::parse(&entry.text, &entry.origin)?;
    let model = if is_file { model } else { named(model, &entry)? };
    Ok(NamedCard { model, is_file })
}

/// The same without how it was named.
///
/// # Errors
/// As [`find`].
pub fn load(name_or_path: &str, user_dir: Option<&Path>) -> Result<CardModel, CardError> {
    Ok(find(name_or_path, user_dir)?.model)
}

/// The text of a card file, unparsed.
///
/// # Errors
/// When the card is unknown or its file cannot be read.
pub fn entry(name_or_path: &str, user_dir: Option<&Path>) -> Result<CatalogEntry, CardError> {
    Ok(named_entry(name_or_path, user_dir)?.entry)
}

fn named_entry(name: &str, user_dir: Option<&Path>) -> Result<NamedEntry, CatalogEntryError> {
    find_named(("cards", "card"), name, user_dir)
}

/// All cards of the catalog, sorted by name.
///
/// # Errors
/// When a user's file cannot be read, or [`CardError::Models`] with the mistakes of all files.
pub fn all(user_dir: Option<&Path>) -> Result<Vec<CardModel>, CardError> {
    let (mut models, mut errors) = (Vec::new(), Vec::new());
    for entry in entries("cards", "toml", user_dir)? {
        match CardModel::parse(&entry.text, &entry.origin).and_then(|model| named(model, &entry)) {
            Ok(model) => models.push(model),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(models) } else { Err(CardError::Models(errors)) }
}

/// A card of the catalog is found by the name of its file, and shown by its own.
fn named(model: CardModel, entry: &CatalogEntry) -> Result<CardModel, ModelError> {
    if model.name == entry.name {
        return Ok(model);
    }
    Err(ModelError::Invalid {
        origin: entry.origin.clone(),
        line: line_of_key(&entry.text, "name"),
        key: "name",
        reason: format!("`{}` is not the name of the file, `{}`", model.name, entry.name),
    })
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
            let model = CardModel::parse(&entry.text, &entry.origin).unwrap();
            assert_eq!(model.name, entry.name);
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
    fn a_card_of_the_users_catalog_has_the_name_of_its_file() {
        let user = tempfile::tempdir().unwrap();
        std::fs::create_dir(user.path().join("cards")).unwrap();
        std::fs::write(user.path().join("cards/small.toml"), SMALL).unwrap();
        assert_eq!(load("small", Some(user.path())).unwrap().name, "small");
        std::fs::write(user.path().join("cards/mine.toml"), SMALL).unwrap();
        let told = |error: CardError| {
            let text = error.to_string();
            assert!(text.contains("cards/mine.toml:1: name: `small` is not the name"), "{text}");
            assert_eq!(error.class(), ExitClass::Usage);
        };
        told(all(Some(user.path())).unwrap_err());
        told(load("mine", Some(user.path())).unwrap_err());
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
