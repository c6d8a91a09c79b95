//! `flashfit catalog`: lists the catalog with all mistakes of the user's files; a template.

use std::path::Path;

use flashfit_bench::{Workload, Workloads, start_kind};
use flashfit_catalog::{CatalogEntry, Origin};
use flashfit_filesystem::FileSystemCatalog;
use flashfit_filesystem::plan::{PublishedRecipes, usual_write_unit};
use flashfit_twin::pattern::file::PatternSet;
use flashfit_user_error::ExitClass;
use flashfit_wear::{MeasuredLives, RecordedTrace, usage};
use flashfit_wear_counters::AtaAttributes;

use crate::cli::{CatalogArgs, CatalogCommand};
use crate::command_error::CommandError;
use crate::output;
use crate::output_file::{OutputFile, OutputKind};
use crate::rendering::catalog::{Names, text};

pub fn run(args: &CatalogArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    match &args.command {
        Some(CatalogCommand::NewWorkload { name, output: None }) => {
            output::print_utf8(&Workload::template(name))
        }
        Some(CatalogCommand::NewWorkload { name, output: Some(path) }) => {
            make_folder(path)?;
            OutputFile::check(path, OutputKind::Workload, false)?.write(&Workload::template(name))
        }
        None => list(args.json, catalog),
    }
}

/// Makes the directories of a catalog that begins with this file.
fn make_folder(file: &Path) -> Result<(), CommandError> {
    let Some(folder) = file.parent() else { return Ok(()) };
    std::fs::create_dir_all(folder).map_err(|error| {
        let message = format!("{}: cannot make this directory: {error}", folder.display());
        CommandError::new(ExitClass::Usage, message, Some("name another file with --output"))
    })
}

fn list(json: bool, catalog: Option<&Path>) -> Result<(), CommandError> {
    let filesystems = FileSystemCatalog::load(catalog).map_err(CommandError::from);
    let workloads = Workloads::load(catalog).map_err(CommandError::from);
    let cards = flashfit_card::catalog::all(catalog).map_err(CommandError::from);
    let unlisted = unlisted_mistakes(catalog);
    let (filesystems, workloads, cards) = match (filesystems, workloads, cards) {
        (Ok(filesystems), Ok(workloads), Ok(cards)) if unlisted.is_empty() => {
            (filesystems, workloads, cards)
        }
        (filesystems, workloads, cards) => {
            let errors = [filesystems.err(), workloads.err(), cards.err()];
            return Err(CommandError::joined(errors.into_iter().flatten().chain(unlisted)));
        }
    };
    let names = Names::new(&filesystems, &workloads, &cards);
    if json { output::json(names) } else { output::print(&text(&names, output::width())) }
}

/// The mistakes in the user's files of the kinds that are not listed.
fn unlisted_mistakes(catalog: Option<&Path>) -> Vec<CommandError> {
    let own = |folder: &str| -> Result<Vec<CatalogEntry>, CommandError> {
        let all = flashfit_catalog::entries(folder, "toml", catalog)?;
        Ok(all.into_iter().filter(|entry| matches!(entry.origin, Origin::File(_))).collect())
    };
    let mut mistakes = Vec::new();
    match own("usage") {
        Ok(found) => mistakes.extend(
            found.iter().filter_map(|entry| usage::parse(entry).err()).map(CommandError::from),
        ),
        Err(error) => mistakes.push(error),
    }
    match own("traces") {
        Ok(found) => mistakes.extend(
            found
                .iter()
                .filter_map(|entry| RecordedTrace::parse(entry).err())
                .map(CommandError::from),
        ),
        Err(error) => mistakes.push(error),
    }
    match own("patterns") {
        // The built-in ones are checked by tests, and reading them takes long.
        Ok(found) if found.is_empty() => {}
        Ok(_) => mistakes.extend(PatternSet::load(catalog).err().map(CommandError::from)),
        Err(error) => mistakes.push(error),
    }
    mistakes.extend(recipe_mistakes(catalog));
    mistakes.extend(usual_write_unit(catalog).err().map(CommandError::from));
    mistakes.extend(start_kind::load(catalog).err().map(CommandError::from));
    mistakes.extend(MeasuredLives::load(catalog).err().map(CommandError::from));
    mistakes.extend(AtaAttributes::load(catalog).err().map(CommandError::from));
    mistakes
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
        assert!(unlisted_mistakes(None).is_empty());
        assert!(unlisted_mistakes(user).is_empty(), "an empty catalog");
        let files = [
            "usage/a.toml",
            "usage/b.toml",
            "traces/ext4-logs.toml",
            "starts/1-new.toml",
            "life/options.toml",
            "counters/ata.toml",
            "patterns/twin.toml",
            "recipes/mine.toml",
            "geometry/mine.toml",
        ];
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x =\n").unwrap();
        }
        let mistakes = unlisted_mistakes(user);
        for file in files {
            let is_named = |error: &CommandError| error.message().contains(file);
            assert!(mistakes.iter().any(is_named), "{file}: {mistakes:?}");
        }
        assert!(list(false, user).is_err());
    }
}
