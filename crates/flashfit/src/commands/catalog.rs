//! `flashfit catalog`: everything in the catalog.

use std::path::Path;

use flashfit_bench::Workloads;
use flashfit_filesystem::FileSystemCatalog;

use crate::cli::CatalogArgs;
use crate::command_error::CommandError;
use crate::output;
use crate::rendering::catalog::{Names, text};

pub fn run(args: &CatalogArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let filesystems = FileSystemCatalog::load(catalog)?;
    let workloads = Workloads::load(catalog)?;
    let cards = flashfit_card::catalog::all(catalog)?;
    let names = Names::new(&filesystems, &workloads, &cards);
    if args.json {
        output::json("catalog", names)
    } else {
        output::print(&text(&names, output::width()))
    }
}
