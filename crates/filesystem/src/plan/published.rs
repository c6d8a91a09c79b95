//! Published recipes (`catalog/recipes/*.toml`): what others did on their own cards, each with the
//! geometry that they found and the place where they differ from the rule used here.

use std::path::Path;

use flashfit_catalog::{
    CatalogEntry, CatalogEntryError, FileMistake, FileMistakes, ReadToml, read_toml,
};
use flashfit_device::Bytes;
use flashfit_geometry::{Geometry, QuantitySource, Sourced};
use serde::{Deserialize, Serialize};

use crate::catalog::{FileSystemCatalog, FileSystemCatalogError, line_of};
use crate::filesystem::BASE;
use crate::layout::PartitionTable;

use super::document::StripeWidth;

/// A recipe as it was published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedRecipe {
    /// Its name, which is that of the file.
    pub name: String,
    /// What it is, in a few words.
    pub title: String,
    /// The erase block that its author found or supposed.
    #[serde(rename = "erase_unit")]
    pub erase_block: Bytes,
    /// The write unit, where there was one.
    pub write_unit: Option<Bytes>,
    pub table: PartitionTable,
    /// Where the partition starts; 0 without a table.
    pub start: Bytes,
    pub filesystem: String,
    /// Its options, by the names of the catalog.
    pub options: Vec<String>,
    /// The I/O scheduler, where the recipe names one; by today's name.
    pub scheduler: Option<String>,
    /// What its stripe width counts.
    #[serde(default)]
    pub stripe_width: StripeWidth,
    /// The line that makes the file system, as published; empty where there is none.
    #[serde(default)]
    pub line: String,
    /// Where it differs from the rule used here, as a sentence; empty where it does not.
    #[serde(default)]
    pub differs: String,
    /// Where it was published.
    pub source: String,
}

impl PublishedRecipe {
    /// The geometry it was made for.
    pub fn geometry(&self) -> Geometry {
        let source = || QuantitySource::Published(format!("the recipe {}", self.name));
        let known = |bytes| Sourced::new(bytes, source());
        Geometry::of_sizes(Some(known(self.erase_block)), self.write_unit.map(known))
    }

    /// Whether it was made for a device built like this.
    pub fn is_for(&self, used: &Geometry) -> bool {
        // What is usual for others says nothing about this device.
        let bytes = |known: &Option<Sourced>| {
            let of_device =
                known.as_ref().filter(|known| !matches!(known.source, QuantitySource::Usual(_)));
            of_device.map(|known| known.bytes)
        };
        bytes(&used.erase_block) == Some(self.erase_block)
            && bytes(&used.write_unit) == self.write_unit
    }
}

#[derive(Debug, Clone)]
pub struct PublishedRecipes(Vec<(PublishedRecipe, CatalogEntry)>);

impl PublishedRecipes {
    /// Reads the built-in recipes and those of the user over them.
    ///
    /// # Errors
    /// The first file that cannot be read or is not valid.
    pub fn load(user_dir: Option<&Path>) -> Result<Self, FileSystemCatalogError> {
        let entries = flashfit_catalog::entries("recipes", "toml", user_dir)?;
        let recipes = entries.into_iter().map(|entry| Ok((read(&entry)?, entry)));
        Ok(Self(recipes.collect::<Result<_, FileSystemCatalogError>>()?))
    }

    /// All of them, sorted by name.
    pub fn all(&self) -> impl Iterator<Item = &PublishedRecipe> {
        self.0.iter().map(|(recipe, _)| recipe)
    }

    /// Checks that `catalog` has the file system and the options of a recipe.
    ///
    /// # Errors
    /// The lines of its file that name others.
    pub fn check(
        &self,
        recipe: &PublishedRecipe,
        catalog: &FileSystemCatalog,
    ) -> Result<(), FileSystemCatalogError> {
        let found = self.0.iter().find(|(found, _)| found.name == recipe.name);
        let Some((_, entry)) = found else { return Ok(()) };
        let mistake = |key: &str, error: CatalogEntryError| FileMistake {
            line: line_of(&entry.text, key),
            reason: error.to_string(),
        };
        let mistakes: Vec<FileMistake> = match catalog.filesystem(&recipe.filesystem) {
            Err(error) => vec![mistake("filesystem", error)],
            Ok(filesystem) => {
                let options = recipe.options.iter().filter(|name| *name != BASE);
                let unknown = options.filter_map(|name| filesystem.option(name).err());
                unknown.map(|error| mistake("options", error)).collect()
            }
        };
        if mistakes.is_empty() {
            return Ok(());
        }
        Err(FileSystemCatalogError::Invalid(vec![FileMistakes::new(&entry.origin, mistakes)]))
    }

    /// The recipe of that name.
    ///
    /// # Errors
    /// [`CatalogEntryError::Unknown`] with the nearest name.
    pub fn find(&self, name: &str) -> Result<&PublishedRecipe, CatalogEntryError> {
        let names = || self.all().map(|recipe| recipe.name.as_str());
        self.all()
            .find(|recipe| recipe.name == name)
            .ok_or_else(|| CatalogEntryError::unknown("recipe", name, names()))
    }
}

fn read(entry: &CatalogEntry) -> Result<PublishedRecipe, FileSystemCatalogError> {
    let ReadToml { value, mut mistakes } = read_toml::<PublishedRecipe>(&entry.text);
    if value.as_ref().is_some_and(|recipe| recipe.name != entry.name) {
        let reason = format!("the name is not that of the file, `{}`", entry.name);
        mistakes.push(FileMistake { line: 1, reason });
    }
    match value {
        Some(recipe) if mistakes.is_empty() => Ok(recipe),
        _ => {
            let found = FileMistakes::new(&entry.origin, mistakes);
            Err(FileSystemCatalogError::Invalid(vec![found]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_recipes_are_valid() {
        let recipes = PublishedRecipes::load(None).unwrap();
        let names: Vec<&str> = recipes.all().map(|recipe| recipe.name.as_str()).collect();
        assert_eq!(names, ["dreamplug", "gentoo", "linutop", "pandora"]);
        assert!(recipes.find("dreamplugs").is_err());
        let catalog = FileSystemCatalog::load(None).unwrap();
        for recipe in recipes.all() {
            recipes.check(recipe, &catalog).unwrap();
        }
    }

    #[test]
    fn an_unknown_option_is_found_with_its_file() {
        let user = tempfile::tempdir().unwrap();
        let mut text = String::new();
        for (name, was, is) in [
            ("one", "options = [", "options = [\"nonesuch\", "),
            ("two", "filesystem = \"", "filesystem = \"x"),
        ] {
            let built_in = flashfit_catalog::entries("recipes", "toml", None).unwrap();
            let gentoo = built_in.iter().find(|entry| entry.name == "gentoo").unwrap();
            text = gentoo.text.replace("\"gentoo\"", &format!("\"{name}\"")).replace(was, is);
            assert_ne!(text, gentoo.text);
            let folder = user.path().join("recipes");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(format!("{name}.toml")), &text).unwrap();
        }
        assert!(text.contains("\"two\""), "{text}");
        let recipes = PublishedRecipes::load(Some(user.path())).unwrap();
        let catalog = FileSystemCatalog::load(None).unwrap();
        for (name, said) in [("one", "nonesuch"), ("two", "file system")] {
            let recipe = recipes.find(name).unwrap();
            let error = recipes.check(recipe, &catalog).unwrap_err().to_string();
            assert!(error.contains(&format!("{name}.toml:")) && error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_wrong_word_is_found_with_its_line() {
        let text = "name = \"x\"\ntitel = \"y\"\n".to_owned();
        let entry = CatalogEntry {
            name: "x".into(),
            text,
            origin: flashfit_catalog::Origin::File("x.toml".into()),
        };
        let error = read(&entry).unwrap_err().to_string();
        assert!(error.contains("x.toml:2: ") && error.contains("titel"), "{error}");
    }
}
