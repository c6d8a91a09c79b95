//! How much longer or shorter devices last with an option or a file system than without, as it was
//! simulated beforehand (`catalog/life`, written by `make option-life`).
//!
//! Limits: a few card models and usage models stand for all; options are measured one at a time, so
//! nothing is said about two together; contents are random, so that compression is left out.

use std::path::Path;

use flashfit_catalog::{CatalogEntryError, FileMistakes, entries, read_entry};
use flashfit_user_error::{ExitClass, Hint, UserError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const FOLDER: &str = "life";

/// One comparison of a setup with and without an option, or of two file systems.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredLife {
    pub filesystem: String,
    /// `None`: the file system itself was compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// The file system that it was compared with, its own without the option.
    pub against: String,
    /// How many times as long the device lasts: the geometric mean of the medians.
    pub middle: f64,
    /// The lowest end of the 90 % intervals.
    pub low: f64,
    /// The highest end.
    pub high: f64,
    /// Pairs of a card model and a usage model that are behind it.
    pub comparisons: u32,
    /// Pairs in which a card could not write as much as the usage model asks.
    pub too_slow: u32,
    /// The kernel that was recorded.
    pub kernel: String,
}

/// All comparisons of the catalog, and what they were made with.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredLives {
    /// Card models.
    pub cards: Vec<String>,
    /// Usage models.
    pub usages: Vec<String>,
    entry: Vec<MeasuredLife>,
}

#[derive(Debug, thiserror::Error)]
pub enum MeasuredLivesError {
    #[error(transparent)]
    Entry(#[from] CatalogEntryError),
    #[error(transparent)]
    Mistakes(#[from] FileMistakes),
}

impl UserError for MeasuredLivesError {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Entry(error) => error.hint(),
            Self::Mistakes(found) => found.hint(),
        }
    }
}

impl MeasuredLives {
    /// Loads `options.toml`; a user's file replaces the built-in one.
    ///
    /// # Errors
    /// When a user's file cannot be read or is not valid.
    pub fn load(user: Option<&Path>) -> Result<Self, MeasuredLivesError> {
        let known = entries(FOLDER, "toml", user)?;
        let found = known.iter().find(|entry| entry.name == "options");
        let entry = found.expect("the built-in catalog has it");
        let lives: Self = read_entry(entry)?;
        let is_range = |life: &MeasuredLife| {
            0.0 < life.low && life.low <= life.middle && life.middle <= life.high
        };
        match lives.entry.iter().position(|life| !is_range(life)) {
            Some(at) => {
                let MeasuredLife { low, middle, high, .. } = lives.entry[at];
                let reason = format!("low {low}, middle {middle} and high {high} are not in order");
                Err(FileMistakes::at_key(entry, &format!("entry.{at}.low"), reason).into())
            }
            None => Ok(lives),
        }
    }

    /// The comparison of the file system with another one.
    pub fn of_filesystem(&self, filesystem: &str) -> Option<&MeasuredLife> {
        self.entry.iter().find(|life| life.filesystem == filesystem && life.option.is_none())
    }

    /// The comparison of the option with its file system without it.
    pub fn of_option(&self, filesystem: &str, option: &str) -> Option<&MeasuredLife> {
        let is_it = |life: &&MeasuredLife| life.option.as_deref() == Some(option);
        self.entry.iter().filter(|life| life.filesystem == filesystem).find(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalog_compares_options_and_file_systems() {
        let lives = MeasuredLives::load(None).unwrap();
        assert!(lives.cards.len() >= 3 && !lives.usages.is_empty());
        // What saves the second write of each block cannot shorten the life.
        assert!(lives.of_option("ext4", "journal-data").unwrap().high < 1.2);
        assert_eq!(lives.of_filesystem("btrfs").unwrap().against, "ext4");
        assert!(lives.of_option("btrfs", "nojournal").is_none());
    }

    #[test]
    fn a_file_with_an_impossible_range_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("life")).unwrap();
        let text = "cards = []\nusages = []\n[[entry]]\nfilesystem = \"ext4\"\nagainst = \"ext4\"\n\
                    middle = 1.5\nlow = 2.0\nhigh = 1.0\ncomparisons = 1\ntoo_slow = 0\nkernel = \"6.18\"\n";
        std::fs::write(folder.path().join("life/options.toml"), text).unwrap();
        let error = MeasuredLives::load(Some(folder.path())).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("options.toml:7: low 2, middle 1.5 and high 1 are not"), "{text}");
        assert!(error.hint().is_some_and(|hint| hint.contains(" +7 ")));
    }
}
