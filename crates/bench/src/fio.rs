//! Running fio: the job file, the variables and the options with which it does no harm.
//!
//! `--output` keeps the result apart from messages, `--readonly` binds jobs that only read, and
//! `--allow_file_create=0` keeps a mistyped device name from becoming a file in `/dev`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_host::memory_limit::MemoryLimit;
use flashfit_host::{Program, ProgramOutcome, Runner};

use crate::error::BenchError;

/// One run of fio.
#[derive(Debug)]
pub struct FioRun<'a> {
    /// The job file's text.
    pub text: &'a str,
    /// The sections to run; none for all.
    pub sections: &'a [String],
    /// The variables of the job file.
    pub variables: &'a [(String, String)],
    /// A folder for the job file and the result.
    pub scratch: &'a Path,
    /// When it is ended as hopeless.
    pub timeout: Duration,
    /// The memory it may use, page cache included.
    pub memory_limit: Option<&'a MemoryLimit>,
    /// Whether the target is a bare device: nothing may be written or created.
    pub bare_device: bool,
}

/// Runs fio and returns how it ended, and what it wrote to its output file.
///
/// # Errors
/// When fio is missing, takes too long, is interrupted, or the scratch folder cannot be used. How
/// fio ended is judged by [`crate::result`].
pub fn run(
    runner: &dyn Runner,
    invocation: &FioRun<'_>,
) -> Result<(ProgramOutcome, String), BenchError> {
    let job = invocation.scratch.join("job.fio");
    let output = invocation.scratch.join("fio.json");
    std::fs::write(&job, invocation.text).map_err(system(&job))?;
    // A result that an earlier run left must not be taken for that of this one.
    std::fs::write(&output, "").map_err(system(&output))?;
    let outcome = runner.run(&program(invocation, &job, &output))?;
    let text = std::fs::read(&output).map_err(system(&output))?;
    Ok((outcome, String::from_utf8_lossy(&text).into_owned()))
}

fn program(invocation: &FioRun<'_>, job: &Path, output: &Path) -> Program {
    let mut program = Program::new("fio")
        .arg(format!("--output={}", output.display()))
        .args(["--output-format=json", "--eta=never"])
        // fio keeps state files and engine leftovers where it starts.
        .arg(format!("--aux-path={}", invocation.scratch.display()))
        .timeout(invocation.timeout);
    if invocation.bare_device {
        program = program.args(["--readonly", "--allow_file_create=0"]);
    }
    for section in invocation.sections {
        program = program.arg(format!("--section={section}"));
    }
    for (name, value) in invocation.variables {
        program = program.env(name, value);
    }
    if let Some(limit) = invocation.memory_limit {
        program = program.inside(&limit.procs());
    }
    program.arg(job.display().to_string())
}

/// An error of the system about `path`.
pub(crate) fn system(path: &Path) -> impl Fn(std::io::Error) -> BenchError {
    let path: PathBuf = path.to_owned();
    move |source| BenchError::System { path: path.clone(), source }
}
