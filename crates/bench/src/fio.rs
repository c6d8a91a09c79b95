//! Runs fio with options that prevent damage.
//!
//! `--output` separates the result from messages. On bare devices, `--readonly` rejects writes
//! unless the device was given up, and `--allow_file_create=0` prevents a mistyped device name from
//! becoming a file in `/dev`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_host::memory_limit::MemoryLimit;
use flashfit_host::{Program, ProgramOutcome, Runner};

use crate::error::BenchError;

/// What fio may do with its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FioAccess {
    /// Create files in a directory, and write them.
    Files,
    /// Read a bare device.
    ReadDevice,
    /// Write to a bare device too.
    WriteDevice,
}

/// One run of fio.
#[derive(Debug)]
pub struct FioRun<'a> {
    /// The job file's text.
    pub text: &'a str,
    /// The sections to run; none for all.
    pub sections: &'a [String],
    /// The variables of the job file.
    pub variables: &'a [(String, String)],
    /// A directory for the job file and the result.
    pub scratch: &'a Path,
    pub timeout: Duration,
    /// Includes the page cache.
    pub memory_limit: Option<&'a MemoryLimit>,
    pub access: FioAccess,
}

/// Runs fio and returns its outcome and the text of its output file.
///
/// # Errors
/// When fio is missing, times out or is interrupted, or the scratch directory is not usable.
/// [`crate::result`] evaluates the outcome.
pub fn run(
    runner: &dyn Runner,
    invocation: &FioRun<'_>,
) -> Result<(ProgramOutcome, String), BenchError> {
    let job = invocation.scratch.join("job.fio");
    let output = invocation.scratch.join("fio.json");
    std::fs::write(&job, invocation.text).map_err(system(&job))?;
    // The result of an earlier run must not be mistaken for that of this one.
    std::fs::write(&output, "").map_err(system(&output))?;
    let outcome = runner.run(&program(invocation, &job, &output))?;
    let text = std::fs::read(&output).map_err(system(&output))?;
    Ok((outcome, String::from_utf8_lossy(&text).into_owned()))
}

fn program(invocation: &FioRun<'_>, job: &Path, output: &Path) -> Program {
    let mut program = Program::new("fio")
        .arg(format!("--output={}", output.display()))
        .args(["--output-format=json", "--eta=never"])
        // fio writes state files to its working directory.
        .arg(format!("--aux-path={}", invocation.scratch.display()))
        .timeout(invocation.timeout);
    program = program.args(match invocation.access {
        FioAccess::Files => &[][..],
        FioAccess::ReadDevice => &["--readonly", "--allow_file_create=0"],
        // fio refuses to write to a mounted device by itself.
        FioAccess::WriteDevice => &["--allow_file_create=0"],
    });
    for section in invocation.sections {
        program = program.arg(format!("--section={section}"));
    }
    for (name, value) in invocation.variables {
        program = program.env(name, value);
    }
    if let Some(limit) = invocation.memory_limit {
        program = program.inside(&limit.procs());
    }
    program.arg(job)
}

pub(crate) fn system(path: &Path) -> impl Fn(std::io::Error) -> BenchError {
    let path: PathBuf = path.to_owned();
    move |source| BenchError::System { path: path.clone(), source }
}
