//! `flashfit report DIR`: a run as one HTML file.

use std::path::Path;

use flashfit_host::ExitClass;
use flashfit_report::html;
use flashfit_tune::{Run, Space};

use crate::cli::ReportArgs;
use crate::failure::Failure;
use crate::output;
use crate::rendering::{self, RunView};
use crate::tune::Catalogues;

pub fn run(args: &ReportArgs) -> Result<(), Failure> {
    let run = Run::read(&args.dir)?;
    let catalogues = Catalogues::load(&run.header.spec)?;
    let space = Space::of_run(&run.header, &catalogues.filesystems)?;
    let view = RunView::new(&run.header, &run.trials, &catalogues.workloads, &space);
    let report = rendering::report(&view, &catalogues.filesystems, &args.dir);
    let path = args.output.clone().unwrap_or_else(|| args.dir.join("report.html"));
    write(&path, &html::render(&report))?;
    output::print(&format!("{}\n", path.display()))
}

/// Writes a report; a device or folder in its place is refused.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let cannot = |error: &std::io::Error| match error.kind() {
        std::io::ErrorKind::StorageFull => Failure::new(
            ExitClass::Environment,
            format!("no space left for {}", path.display()),
            Some("make room; the trials are kept, and flashfit report writes it anew"),
        ),
        _ => Failure::new(
            ExitClass::Environment,
            format!("cannot write {}: {error}", path.display()),
            Some("name another file with -o"),
        ),
    };
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(Failure::new(
            ExitClass::Usage,
            format!("{} is not a regular file", path.display()),
            Some("name another file with -o"),
        ));
    }
    std::fs::write(path, text).map_err(|error| cannot(&error))
}
