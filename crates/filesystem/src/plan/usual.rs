//! The write unit that is usual among published cards (`catalog/geometry/*.toml`), for a device
//! that shows none.
//!
//! Limits: most of these cards are SD cards of up to 16 GB from before 2020; eMMC and SSDs may
//! differ, and so a plan says where the number comes from.

use std::path::Path;

use flashfit_catalog::{CatalogEntry, FileMistakes, ReadToml, read_toml};
use flashfit_device::Bytes;
use flashfit_geometry::{QuantitySource, Sourced};
use serde::Deserialize;

use crate::catalog::FileSystemCatalogError;

/// A file of `catalog/geometry/`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedSizes {
    /// Of which cards, and who published them.
    #[expect(dead_code, reason = "it is for people who read the file")]
    source: String,
    write_unit: Vec<CardsOfSize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CardsOfSize {
    size: Bytes,
    cards: u32,
}

/// The most frequent write unit; `None` if no file counts any.
///
/// # Errors
/// The first file that cannot be read or is not valid.
pub fn usual_write_unit(
    user_dir: Option<&Path>,
) -> Result<Option<Sourced>, FileSystemCatalogError> {
    let mut counted: Vec<CardsOfSize> = Vec::new();
    for entry in flashfit_catalog::entries("geometry", "toml", user_dir)? {
        counted.extend(read(&entry)?.write_unit);
    }
    let all: u32 = counted.iter().map(|one| one.cards).sum();
    // Of two that are equally frequent, the smaller one divides the larger one.
    let usual = counted.iter().max_by_key(|one| (one.cards, std::cmp::Reverse(one.size)));
    Ok(usual.filter(|one| one.cards > 0 && one.size.0 > 0).map(|one| {
        let of = format!("usual: {} of {all} published cards", one.cards);
        Sourced::new(one.size, QuantitySource::Usual(of))
    }))
}

fn read(entry: &CatalogEntry) -> Result<PublishedSizes, FileSystemCatalogError> {
    let ReadToml { value, mistakes } = read_toml::<PublishedSizes>(&entry.text);
    value.filter(|_| mistakes.is_empty()).ok_or_else(|| {
        FileSystemCatalogError::Invalid(vec![FileMistakes::new(&entry.origin, mistakes)])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_size_is_usual() {
        let usual = usual_write_unit(None).unwrap().unwrap();
        assert_eq!(usual.bytes, Bytes::kib(16));
        assert!(usual.source.to_string().contains("11 of 13 published cards"), "{}", usual.source);
    }

    #[test]
    fn a_file_of_the_user_replaces_the_built_in_one() {
        let folder = tempfile::tempdir().unwrap();
        let geometry = folder.path().join("geometry");
        std::fs::create_dir(&geometry).unwrap();
        let text = "source = \"mine\"\n[[write_unit]]\nsize = \"32 KiB\"\ncards = 3\n";
        std::fs::write(geometry.join("published.toml"), text).unwrap();
        let usual = usual_write_unit(Some(folder.path())).unwrap().unwrap();
        assert_eq!(usual.bytes, Bytes::kib(32));
        std::fs::write(geometry.join("published.toml"), "source = 5\n").unwrap();
        assert!(usual_write_unit(Some(folder.path())).is_err());
    }
}
