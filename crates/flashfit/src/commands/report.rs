//! `flashfit report DIR`: a run as one HTML file.

use std::path::Path;

use flashfit_host::program::quote_path;
use flashfit_report::html;
use flashfit_tune::run_dir::write_report;
use flashfit_tune::{Space, StoredRun};

use crate::cli::ReportArgs;
use crate::command_error::CommandError;
use crate::output;
use crate::output_file::{OutputFile, OutputKind};
use crate::rendering::{self, RunView};
use crate::wear::recorded_life::estimate_recorded;
use flashfit_tune::run::Catalogs;

pub fn run(args: &ReportArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let mut run = StoredRun::read(&args.dir)?;
    // What is refused comes first: estimates take up to a minute.
    let named = args.output.as_deref();
    let file =
        named.map(|path| OutputFile::check(path, OutputKind::Report, args.force)).transpose()?;
    let catalogs = Catalogs::of_run(&run.header, catalog)?;
    let space = Space::of_run(&run.header, &catalogs.filesystems)?;
    estimate_recorded(&mut run.header, &args.life, catalog)?;
    let view = RunView::new(&run.header, &run.trials, &catalogs.workloads, &space)?;
    let report = rendering::report(&view, &catalogs.filesystems, &args.dir);
    let html = html::render(&report);
    let path = match (file, named) {
        (Some(file), Some(path)) => {
            file.write(&html)?;
            path.to_owned()
        }
        _ => write_report(&args.dir, &html).map_err(|error| {
            let dir = quote_path(&args.dir);
            let hint = format!("write it elsewhere: flashfit report {dir} --output FILE");
            CommandError::from(error).or_hint(&hint)
        })?,
    };
    output::print_utf8(&format!("{}\n", path.display()))
}
