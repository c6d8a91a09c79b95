//! Pseudonyms: SHA-256 of the survey's own salt and what they stand for.
//!
//! The salt has 256 random bits and never leaves the survey, so nobody who has only bundles can
//! find a serial number or a document by trying. The same survey makes the same pseudonyms, so a
//! bundle that is made again adds only what is new. Limit: a source in two surveys has two.

use crate::identity::{Salt, hash};

/// What makes the pseudonyms of one survey.
#[derive(Debug, Clone, Copy)]
pub struct BundleKeys(Salt);

impl BundleKeys {
    pub(crate) fn new(salt: Salt) -> Self {
        Self(salt)
    }

    pub fn survey(&self) -> String {
        hash(&self.0, &["bundle-survey"])
    }

    /// Of a card, by its oldest key.
    pub fn card(&self, key: &str) -> String {
        hash(&self.0, &["bundle-card", key])
    }

    /// Of a source, by its address.
    pub fn source(&self, address: &str) -> String {
        hash(&self.0, &["bundle-source", address])
    }

    /// Of all states of a run, by their origin.
    pub fn run(&self, origin: &str) -> String {
        hash(&self.0, &["bundle-run", origin])
    }

    /// In place of a text that may have a path or an address in it.
    pub fn hidden(&self, text: &str) -> String {
        let hash = hash(&self.0, &["bundle-text", text]);
        format!("hidden-{}", &hash[..12])
    }
}

/// The address of a source that a bundle calls so. Another one than any that a document has,
/// whatever the bundle claims.
pub fn stored_source(claimed: &str) -> String {
    hash(&[], &["source of a bundle", claimed])
}

/// Its origin.
pub fn stored_run(claimed: &str) -> String {
    hash(&[], &["run of a bundle", claimed])
}

/// The key of a card that a bundle calls so and describes by these texts.
pub fn stored_card(claimed: &str, description: &[&str]) -> String {
    hash(&[], &[&["card of a bundle", claimed], description].concat())
}
