//! `flashfit catalog`: lists the catalog with all mistakes of the user's files; a template.

use std::path::Path;

use flashfit_bench::{Workload, Workloads};
use flashfit_filesystem::FileSystemCatalog;
use flashfit_user_error::ExitClass;

use crate::cli::{CatalogArgs, CatalogCommand};
use crate::command_error::CommandError;
use crate::commands::catalog_mistakes;
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
    catalog_mistakes::check(catalog)?;
    let filesystems = FileSystemCatalog::load(catalog)?;
    let workloads = Workloads::load(catalog)?;
    let cards = flashfit_card::catalog::all(catalog)?;
    let names = Names::new(&filesystems, &workloads, &cards);
    if json { output::json(names) } else { output::print(&text(&names, output::width())) }
}
