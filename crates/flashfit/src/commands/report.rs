//! `flashfit report DIR`: a run as one HTML file.

use flashfit_report::html;
use flashfit_tune::{Run, Space};

use crate::catalogues::Catalogues;
use crate::cli::ReportArgs;
use crate::failure::Failure;
use crate::output;
use crate::rendering::{self, RunView};

pub fn run(args: &ReportArgs) -> Result<(), Failure> {
    let run = Run::read(&args.dir)?;
    let catalogues = Catalogues::load(&run.header.spec)?;
    let space = Space::of_run(&run.header, &catalogues.filesystems)?;
    let view = RunView::new(&run.header, &run.trials, &catalogues.workloads, &space)?;
    let report = rendering::report(&view, &catalogues.filesystems, &args.dir);
    let path = args.output.clone().unwrap_or_else(|| args.dir.join("report.html"));
    output::file(&path, &html::render(&report))?;
    output::print(&format!("{}\n", path.display()))
}
