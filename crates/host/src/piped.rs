//! A program whose input and output the caller uses while it runs; its error output is collected.
//!
//! It has its own process group, so an interrupt from the terminal does not kill it. It is killed
//! when the thread that started it ends or the value is dropped.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::PollFlags;

use crate::descendants;
use crate::program::{Program, ProgramError};
use crate::program_path::{find, for_children};
use crate::system_runner::prepare_child;
use crate::waiting;

/// Time to end after its input was closed.
const GRACE: Duration = Duration::from_secs(3);
/// The last lines of the error output that are kept.
const KEPT_LINES: usize = 5;

#[derive(Debug)]
pub struct PipedProgram {
    child: Child,
    ends_descendants: bool,
    last_lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
    /// Closing it makes the reader stop at the end of the available output.
    stopping: Option<UnixStream>,
}

/// Reads until the end of the output, or until no output is available and the other end of `stop`
/// is closed: a descendant of the program may keep the pipe open forever.
struct UntilStopped {
    errors: ChildStderr,
    stop: UnixStream,
}

impl Read for UntilStopped {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let readable = PollFlags::IN;
        let both = [(self.errors.as_fd(), readable), (self.stop.as_fd(), readable)];
        loop {
            match waiting::poll(&both, None, true)?[..] {
                [true, _] => return self.errors.read(buffer),
                [false, true] => return Ok(0),
                _ => {}
            }
        }
    }
}

impl PipedProgram {
    /// Starts a program with its environment and arguments, and with its descendants ended with
    /// it if so set; other settings are ignored.
    ///
    /// # Errors
    /// When it is missing or cannot be started.
    pub fn start(program: &Program) -> Result<(Self, ChildStdout, ChildStdin), ProgramError> {
        let path = find(&program.name)
            .ok_or_else(|| ProgramError::Missing { name: program.name.clone() })?;
        let mut command = Command::new(path);
        command
            .args(program.actual_arguments())
            .envs(for_children().map(|path| ("PATH", path)))
            .envs(program.env.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        prepare_child(&mut command, Vec::new());
        if program.ends_descendants {
            descendants::end_with(&mut command);
        }
        let start_error =
            |source| ProgramError::Start { command_line: program.command_line(), source };
        let mut child = command.spawn().map_err(start_error)?;
        let input = child.stdin.take().expect("stdin is piped");
        let output = child.stdout.take().expect("stdout is piped");
        let errors = child.stderr.take().expect("stderr is piped");
        let (stopping, stop) = UnixStream::pair().map_err(start_error)?;
        let last_lines = Arc::new(Mutex::new(Vec::new()));
        let shared_lines = Arc::clone(&last_lines);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(UntilStopped { errors, stop }).lines().map_while(Result::ok)
            {
                if !line.trim().is_empty() {
                    let mut lines = shared_lines.lock().unwrap_or_else(PoisonError::into_inner);
                    let excess = (lines.len() + 1).saturating_sub(KEPT_LINES);
                    lines.drain(..excess);
                    lines.push(line.trim().to_owned());
                }
            }
        });
        let reader = Some(reader);
        let ends_descendants = program.ends_descendants;
        let stopping = Some(stopping);
        Ok((Self { child, ends_descendants, last_lines, reader, stopping }, output, input))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends the program and returns the last line of its error output, or an empty string.
    pub fn last_error_line(&mut self) -> String {
        self.last_error_lines().pop().unwrap_or_default()
    }

    /// Ends the program and returns the last lines of its error output.
    pub fn last_error_lines(&mut self) -> Vec<String> {
        self.end();
        self.stopping = None;
        if let Some(thread) = self.reader.take() {
            let _ = thread.join();
        }
        self.last_lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the program has ended by itself.
    pub fn has_ended(&self) -> bool {
        waiting::ChildWatch::new(&self.child).has_ended()
    }

    /// Kills the program with all of its process group, and with its descendants if so set; returns
    /// how the program ended.
    ///
    /// # Errors
    /// When its status cannot be read.
    pub fn kill_group(&mut self) -> std::io::Result<ExitStatus> {
        let group = rustix::process::Pid::from_child(&self.child);
        if self.ends_descendants {
            // Killed, it would leave those that left the group.
            let _ = rustix::process::kill_process(group, rustix::process::Signal::TERM);
            let _ = waiting::ChildWatch::new(&self.child).wait(GRACE);
        }
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        self.child.wait()
    }

    /// Waits briefly for the program to end, then kills its process group.
    fn end(&mut self) {
        if !matches!(waiting::child(&mut self.child, None, GRACE), Ok(None)) {
            return;
        }
        let _ = self.kill_group();
    }
}

impl Drop for PipedProgram {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn input_is_answered_with_output() {
        let (piped, mut output, mut input) =
            PipedProgram::start(&Program::new("cat")).expect("cat");
        input.write_all(b"hello").expect("cat reads its input");
        drop(input);
        let mut text = String::new();
        output.read_to_string(&mut text).expect("cat writes its output");
        assert_eq!(text, "hello");
        drop(piped);
    }

    #[test]
    fn the_last_line_of_its_errors_is_kept() {
        let program = Program::new("sh").args(["-c", "echo first >&2; echo last >&2; exit 3"]);
        let (mut piped, _output, _input) = PipedProgram::start(&program).expect("sh");
        assert_eq!(piped.last_error_line(), "last");
        assert_eq!(piped.last_error_lines(), ["first", "last"]);
    }

    #[test]
    fn a_program_is_killed_with_its_children() {
        let program = Program::new("sh").args(["-c", "sleep 60 & echo $!; sleep 60"]);
        let (mut piped, output, _input) = PipedProgram::start(&program).expect("sh");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("sh prints");
        assert!(!piped.has_ended());
        let status = piped.kill_group().expect("a status");
        assert_eq!(status.code(), None);
        // It is gone, or a zombie whose new parent has not looked yet.
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", line.trim()));
        let until = std::time::Instant::now() + Duration::from_secs(20);
        while stat().is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(std::time::Instant::now() < until, "its child still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_process_left_behind_does_not_block() {
        let program = Program::new("sh").args(["-c", "echo last >&2; setsid sleep 20 & exit 3"]);
        let (mut piped, _output, _input) = PipedProgram::start(&program).expect("sh");
        let start = std::time::Instant::now();
        assert_eq!(piped.last_error_line(), "last");
        assert!(start.elapsed() < Duration::from_secs(15));
    }
}
