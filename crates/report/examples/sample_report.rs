//! Writes a report with made-up figures to the path given: `sample_report sample.html`.

use std::process::ExitCode;

#[path = "../tests/sample/mod.rs"]
mod sample;

fn main() -> std::io::Result<ExitCode> {
    let Some(path) = std::env::args_os().nth(1) else { return Ok(ExitCode::from(2)) };
    std::fs::write(path, flashfit_report::html::render(&sample::report()))?;
    Ok(ExitCode::SUCCESS)
}
