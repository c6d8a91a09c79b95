//! A workload that is a program: each line that it prints acknowledges that something is durable.
//!
//! The file has `run` and `check`, commands for sh(1) that run in the mounted directory. `check`
//! gets the acknowledged lines on its standard input and exits with 0 if none of them is lost.
//!
//! A program that fails has not done the work that it is judged by, so that is an error. It is
//! killed at the latest after [`WORK_LIMIT`]. With it, all that it started is ended, so that
//! nothing keeps the file system mounted.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ChildStdout;
use std::time::{Duration, Instant};

use flashfit_host::Program;
use flashfit_host::input_file;
use flashfit_host::piped::PipedProgram;
use flashfit_host::waiting::is_readable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sqlite::in_folder;
use super::{LogPosition, LoggedOperation, Operation, WorkloadError};
use crate::CrashError;

/// A workload is a few lines.
const MOST_BYTES: u64 = 1 << 20;
/// More lines than a log can have requests.
const MOST_LINES: u32 = 1 << 20;
/// How often the end of a silent program is looked for.
const LOOK_UP: Duration = Duration::from_millis(20);

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
        in_folder(root, &self.run).end_descendants()
    }

    pub fn check(&self, root: &Path) -> Program {
        in_folder(root, &self.check).end_descendants()
    }
}

/// When a program is to end.
#[derive(Clone, Copy)]
pub struct ProgramLimit<'a> {
    pub time: Duration,
    /// Whether the work is no longer wanted.
    pub is_over: &'a dyn Fn() -> bool,
}

/// The time that all work of a program may take.
pub const WORK_LIMIT: Duration = Duration::from_secs(300);

/// Runs a program and records when each of its lines arrived.
///
/// # Errors
/// When it cannot be started, fails or does not end; [`CrashError::WorkStopped`].
pub fn run_program(
    program: &Program,
    input: &str,
    log: &dyn LogPosition,
    limit: ProgramLimit<'_>,
) -> Result<Vec<LoggedOperation>, CrashError> {
    let mut operations: Vec<LoggedOperation> = Vec::new();
    each_line(program, input, limit, |number, line| {
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
    Ok(operations)
}

/// Runs a program and hands over each line of its output when it arrives, with its number, for as
/// long as the answer is `true`. When this returns, the program and its process group have ended.
///
/// # Errors
/// When it cannot be started, fails or does not end; [`CrashError::WorkStopped`].
pub fn each_line(
    program: &Program,
    input: &str,
    limit: ProgramLimit<'_>,
    mut on_line: impl FnMut(u32, String) -> bool,
) -> Result<(), CrashError> {
    let (mut running, output, mut stdin) = PipedProgram::start(program)?;
    // It is not waited for: a program that left the process group may keep the input open, and read
    // nothing of it.
    std::thread::spawn({
        let input = input.to_owned();
        move || {
            // A program that does not read its input is not in error.
            let _ = std::io::Write::write_all(&mut stdin, input.as_bytes());
        }
    });
    let mut lines = ProgramLines { output, begun: Vec::new(), count: 0 };
    let heard = lines.until_end(&running, limit, &mut on_line);
    let has_ended = running.has_ended();
    // Also what it left running in the background, which would keep the file system mounted.
    let status = running.kill_group();
    match heard? {
        Heard::Enough => return Ok(()),
        Heard::All => {}
    }
    let failed = |reason: String| Err(CrashError::WorkloadFailed { reason });
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) if has_ended => {
            let ended = status.code().map_or("a signal".to_owned(), |code| format!("code {code}"));
            let mut tail = running.last_error_lines();
            tail.insert(0, format!("its command ended with {ended}"));
            failed(tail.join(" / "))
        }
        Ok(_) => failed("its command did not end".to_owned()),
        Err(error) => failed(error.to_string()),
    }
}

/// The output of a running program.
struct ProgramLines {
    output: ChildStdout,
    /// A line without its end.
    begun: Vec<u8>,
    count: u32,
}

enum Heard {
    All,
    /// Whoever gets the lines wants no more.
    Enough,
}

impl ProgramLines {
    /// Hands over lines until the program has ended.
    fn until_end(
        &mut self,
        running: &PipedProgram,
        limit: ProgramLimit<'_>,
        on_line: &mut dyn FnMut(u32, String) -> bool,
    ) -> Result<Heard, CrashError> {
        let start = Instant::now();
        let mut is_open = true;
        loop {
            if (limit.is_over)() {
                return Err(CrashError::WorkStopped);
            }
            if start.elapsed() >= limit.time {
                return Err(CrashError::WorkloadEndless { seconds: limit.time.as_secs() });
            }
            // Asked before its output, of which nothing comes after its end.
            let has_ended = running.has_ended();
            let until = Instant::now() + if has_ended { Duration::ZERO } else { LOOK_UP };
            let is_readable = is_open && is_readable(self.output.as_fd(), until).map_err(lost)?;
            if is_readable {
                is_open = self.read()?;
                while let Some(line) = self.line() {
                    if self.count >= MOST_LINES {
                        let reason = format!("it printed more than {MOST_LINES} lines");
                        return Err(CrashError::WorkloadFailed { reason });
                    }
                    if !on_line(self.count, line) {
                        return Ok(Heard::Enough);
                    }
                    self.count += 1;
                }
            } else if has_ended {
                break;
            } else if !is_open {
                std::thread::sleep(LOOK_UP);
            }
        }
        if !self.begun.is_empty() {
            on_line(self.count, text(&std::mem::take(&mut self.begun)));
        }
        Ok(Heard::All)
    }

    /// Reads what is there; whether there can be more.
    fn read(&mut self) -> Result<bool, CrashError> {
        let mut bytes = [0; 4096];
        match self.output.read(&mut bytes) {
            Ok(count) => {
                self.begun.extend_from_slice(&bytes[..count]);
                Ok(count > 0)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(lost(error)),
        }
    }

    /// The next whole line.
    fn line(&mut self) -> Option<String> {
        let end = self.begun.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.begun.drain(..=end).collect();
        Some(text(&line[..end]))
    }
}

fn text(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8_lossy(line).into_owned()
}

fn lost(source: io::Error) -> CrashError {
    CrashError::WorkloadFailed { reason: source.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, time: Duration) -> (Vec<String>, Result<(), CrashError>) {
        let mut lines = Vec::new();
        let limit = ProgramLimit { time, is_over: &|| false };
        let program = Program::new("sh").args(["-c", script]);
        let result = each_line(&program, "", limit, |number, line| {
            assert_eq!(number as usize, lines.len());
            lines.push(line);
            true
        });
        (lines, result)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn lines_are_those_of_a_program_that_succeeds() {
        let (lines, result) = run("echo a; echo; printf 'b\\r\\nrest'", LONG);
        assert_eq!(lines, ["a", "", "b", "rest"]);
        result.unwrap();
        // What it leaves in the background ends with it.
        let start = Instant::now();
        run("sleep 50 & echo a", LONG).1.unwrap();
        run("exec >&-; sleep 0.2", LONG).1.unwrap();
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_program_that_fails_is_an_error_with_its_last_output() {
        let (lines, result) = run("echo a; echo no room >&2; echo at all >&2; exit 3", LONG);
        let error = result.unwrap_err().to_string();
        assert!(error.ends_with("its command ended with code 3 / no room / at all"), "{error}");
        assert_eq!(lines, ["a"]);
        let error = run("kill -9 $$", LONG).1.unwrap_err().to_string();
        assert!(error.contains("a signal"), "{error}");
    }

    #[test]
    fn a_program_that_never_ends_is_killed() {
        let start = Instant::now();
        let (lines, result) = run("echo a; sleep 100 & wait", Duration::from_secs(10));
        assert_eq!(lines, ["a"]);
        assert!(matches!(result, Err(CrashError::WorkloadEndless { seconds: 10 })), "{result:?}");
        let limit = ProgramLimit { time: LONG, is_over: &|| start.elapsed().as_millis() > 1500 };
        let program = Program::new("sh").args(["-c", "while :; do echo a; sleep 0.01; done"]);
        let result = each_line(&program, "", limit, |_, _| true);
        assert!(matches!(result, Err(CrashError::WorkStopped)), "{result:?}");
        assert!(start.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn input_that_nobody_reads_is_not_waited_for() {
        let script = "exec 3<&0; setsid sh -c 'echo $$; exec sleep 120 >&- 2>&-' & sleep 120";
        let (start, mut left) = (Instant::now(), String::new());
        let limit = ProgramLimit { time: LONG, is_over: &|| false };
        let program = Program::new("sh").args(["-c", script]);
        let result = each_line(&program, &"x".repeat(1 << 20), limit, |_, line| {
            left = line;
            false
        });
        result.unwrap();
        assert!(Path::new("/proc").join(&left).exists(), "it left the process group: {left}");
        let took = start.elapsed();
        let left = rustix::process::Pid::from_raw(left.parse().unwrap()).unwrap();
        rustix::process::kill_process(left, rustix::process::Signal::KILL).unwrap();
        assert!(took < Duration::from_secs(60), "{took:?}");
    }
}
