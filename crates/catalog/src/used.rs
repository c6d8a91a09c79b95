//! A checksum of the catalog entries that a run used. A run directory contains neither the catalog
//! nor the path of the user's catalog folder, so a changed entry is detected by checksum.

use sha2::{Digest, Sha256};

use crate::{CatalogEntry, Origin};

/// A checksum of entries, and whether all of them are built in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogChecksum {
    /// SHA-256 of kind, name and text of each entry, in hexadecimal.
    pub sha256: String,
    /// Whether no entry comes from the user's folder.
    pub built_in: bool,
}

impl CatalogChecksum {
    /// The checksum of `(kind, entry)`: the kind is the entry's folder.
    pub fn of<'a>(entries: impl IntoIterator<Item = (&'a str, &'a CatalogEntry)>) -> Self {
        let mut hasher = Sha256::new();
        let mut built_in = true;
        for (kind, entry) in entries {
            for part in [kind, &entry.name, &entry.text] {
                // Lengths are included so that different lists cannot give the same bytes.
                hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
                hasher.update(part.as_bytes());
            }
            built_in &= matches!(entry.origin, Origin::BuiltIn(_));
        }
        let digest = hasher.finalize();
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { sha256, built_in }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, text: &str, origin: Origin) -> CatalogEntry {
        CatalogEntry { name: name.to_owned(), text: text.to_owned(), origin }
    }

    #[test]
    fn the_checksum_is_sha256_of_kinds_names_and_texts_with_lengths() {
        let nothing = CatalogChecksum::of([]);
        // SHA-256 of the empty message (FIPS 180-4).
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!((nothing.sha256.as_str(), nothing.built_in), (empty, true));
        let built_in = || Origin::BuiltIn("x".into());
        let sum =
            |kind, name, text| CatalogChecksum::of([(kind, &entry(name, text, built_in()))]).sha256;
        let first = sum("a", "b", "c");
        assert_eq!(first, sum("a", "b", "c"));
        for other in
            [sum("b", "b", "c"), sum("a", "c", "c"), sum("a", "b", "d"), sum("ab", "", "c")]
        {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn one_user_file_makes_the_set_not_built_in() {
        let built_in = entry("a", "x", Origin::BuiltIn("a".into()));
        let own = entry("b", "x", Origin::File("b".into()));
        assert!(CatalogChecksum::of([("workloads", &built_in)]).built_in);
        assert!(!CatalogChecksum::of([("workloads", &built_in), ("workloads", &own)]).built_in);
    }
}
