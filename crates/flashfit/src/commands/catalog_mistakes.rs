//! All mistakes of the user's catalog, for `flashfit catalog` and commands that read little of it.

use std::path::Path;

use flashfit_bench::{Workloads, start_kind};
use flashfit_catalog::{CatalogEntry, Origin};
use flashfit_filesystem::FileSystemCatalog;
use flashfit_filesystem::plan::{PublishedRecipes, usual_write_unit};
use flashfit_twin::pattern::file::PatternSet;
use flashfit_wear::{MeasuredLives, RecordedTrace, usage};
use flashfit_wear_counters::AtaAttributes;

use crate::card_bench::{counterpart, published};
use crate::command_error::CommandError;

/// Whether all files of the user's catalog are valid.
///
/// # Errors
/// All mistakes together, as `flashfit catalog` shows them.
pub fn check(catalog: Option<&Path>) -> Result<(), CommandError> {
    if catalog.is_none() {
        return Ok(());
    }
    let listed = [
        FileSystemCatalog::load(catalog).err().map(CommandError::from),
        Workloads::load(catalog).err().map(CommandError::from),
        flashfit_card::catalog::all(catalog).err().map(CommandError::from),
    ];
    let mut errors = listed.into_iter().flatten().chain(unlisted(catalog)).peekable();
    if errors.peek().is_none() { Ok(()) } else { Err(CommandError::joined(errors)) }
}

/// The mistakes in the user's files of the kinds that `flashfit catalog` does not list.
pub fn unlisted(catalog: Option<&Path>) -> Vec<CommandError> {
    let mut mistakes = Vec::new();
    let mut each = |folder: &str, ending: &str, parse: &Parse| {
        mistakes.extend(in_folder(catalog, folder, ending, parse));
    };
    each("usage", "toml", &|entry| usage::parse(entry).err().map(CommandError::from));
    each("traces", "toml", &|entry| RecordedTrace::parse(entry).err().map(CommandError::from));
    each("published", "toml", &|entry| published::check(entry).err());
    each("published", "txt", &|entry| {
        counterpart::table(&entry.origin.to_string(), &entry.text).err()
    });
    // The built-in ones are checked by tests, and reading them takes long. Other names are unread.
    each("patterns", "toml", &|entry| {
        let is_read = entry.name == PatternSet::NAME;
        is_read.then(|| PatternSet::load(catalog).err().map(CommandError::from)).flatten()
    });
    mistakes.extend(recipe_mistakes(catalog));
    mistakes.extend(usual_write_unit(catalog).err().map(CommandError::from));
    mistakes.extend(start_kind::load(catalog).err().map(CommandError::from));
    mistakes.extend(MeasuredLives::load(catalog).err().map(CommandError::from));
    mistakes.extend(AtaAttributes::load(catalog).err().map(CommandError::from));
    mistakes
}

type Parse<'a> = dyn Fn(&CatalogEntry) -> Option<CommandError> + 'a;

/// The mistakes of the user's files of a directory.
fn in_folder(
    catalog: Option<&Path>,
    folder: &str,
    ending: &str,
    parse: &Parse<'_>,
) -> Vec<CommandError> {
    match flashfit_catalog::entries(folder, ending, catalog) {
        Ok(all) => {
            let own = all.iter().filter(|entry| matches!(entry.origin, Origin::File(_)));
            own.filter_map(parse).collect()
        }
        Err(error) => vec![error.into()],
    }
}

/// Those of a catalog whose file systems are not valid are found after that.
fn recipe_mistakes(catalog: Option<&Path>) -> Vec<CommandError> {
    let recipes = match PublishedRecipes::load(catalog) {
        Ok(recipes) => recipes,
        Err(error) => return vec![error.into()],
    };
    let Ok(known) = FileSystemCatalog::load(catalog) else { return Vec::new() };
    let mistakes = recipes.all().filter_map(|recipe| recipes.check(recipe, &known).err());
    mistakes.map(CommandError::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_in_files_that_are_not_listed_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let user = Some(folder.path());
        assert!(unlisted(None).is_empty());
        assert!(check(user).is_ok(), "an empty catalog");
        let files = [
            "usage/a.toml",
            "usage/b.toml",
            "traces/ext4-logs.toml",
            "starts/1-new.toml",
            "life/options.toml",
            "counters/ata.toml",
            "patterns/twin.toml",
            "published/mine.toml",
            "published/mine.txt",
            "recipes/mine.toml",
            "geometry/mine.toml",
        ];
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x =\n").unwrap();
        }
        let mistakes = unlisted(user);
        for file in files {
            let is_named = |error: &CommandError| error.message().contains(file);
            let found = mistakes.iter().find(|error| is_named(error));
            let found = found.unwrap_or_else(|| panic!("{file}: {mistakes:?}"));
            assert!(found.message().contains(&format!("{file}:1: ")), "{found:?}");
            assert!(found.hint().is_some(), "{found:?}");
        }
        let all = check(user).unwrap_err();
        assert_eq!(all.class(), flashfit_user_error::ExitClass::Usage);
        assert!(files.iter().all(|file| all.message().contains(file)), "{all:?}");
    }
}
