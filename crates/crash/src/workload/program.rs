//! A workload that is a program: each line that it prints acknowledges that something is durable.
//!
//! The file has `run` and `check`, commands for sh(1) that run in the mounted directory. `check`
//! gets the acknowledged lines on its standard input and exits with 0 if none of them is lost.

use std::io::{BufRead, BufReader};
use std::path::Path;

use flashfit_host::Program;
use flashfit_host::input_file;
use flashfit_host::piped::PipedProgram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sqlite::in_folder;
use super::{LogPosition, LoggedOperation, Operation, WorkloadError};
use crate::CrashError;

/// A workload is a few lines.
const MOST_BYTES: u64 = 1 << 20;
/// More lines than a log can have requests.
const MOST_LINES: u32 = 1 << 20;

/// The user's own program, with its check.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramWorkload {
    pub run: String,
    pub check: String,
}

impl ProgramWorkload {
    pub(super) fn load(path: &Path) -> Result<Self, WorkloadError> {
        let failed = |source| WorkloadError::Read { path: path.to_owned(), source };
        let text =
            input_file::read_text(path, MOST_BYTES).map_err(|error| failed(error.into_io()))?;
        flashfit_catalog::from_toml(&text).map_err(|error| WorkloadError::Invalid {
            path: path.to_owned(),
            reason: error.message().to_owned(),
        })
    }
}

impl ProgramWorkload {
    /// The program that works in `root`.
    pub fn program(&self, root: &Path) -> Program {
        in_folder(root, &self.run)
    }

    pub fn check(&self, root: &Path) -> Program {
        in_folder(root, &self.check)
    }
}

/// Runs a program and records when each of its lines arrived.
///
/// # Errors
/// When it cannot be started.
pub fn run_program(
    program: &Program,
    input: &str,
    log: &dyn LogPosition,
) -> Result<Vec<LoggedOperation>, CrashError> {
    let mut operations: Vec<LoggedOperation> = Vec::new();
    let last_error = each_line(program, input, |number, line| {
        let end = log.position();
        let begin = operations.last().map_or(0, |last| last.end);
        operations.push(LoggedOperation {
            operation: Operation::Acknowledge { line },
            number,
            begin,
            end,
            inode: None,
            error: None,
        });
        true
    })?;
    if operations.is_empty() && !last_error.is_empty() {
        return Err(CrashError::WorkloadFailed { reason: last_error });
    }
    Ok(operations)
}

/// Runs a program and hands over each line of its output when it arrives, with its number, for as
/// long as the answer is `true`. Returns the last line of its error output.
///
/// # Errors
/// When it cannot be started.
pub fn each_line(
    program: &Program,
    input: &str,
    mut on_line: impl FnMut(u32, String) -> bool,
) -> Result<String, CrashError> {
    let (mut running, output, mut stdin) = PipedProgram::start(program)?;
    let writing = std::thread::spawn({
        let input = input.to_owned();
        move || {
            // A program that does not read its input is not in error.
            let _ = std::io::Write::write_all(&mut stdin, input.as_bytes());
        }
    });
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    for (number, line) in (0..MOST_LINES).zip(lines) {
        if !on_line(number, line) {
            break;
        }
    }
    let last_error = running.last_error_line();
    let _ = writing.join();
    Ok(last_error)
}
