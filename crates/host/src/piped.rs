//! A program whose input and output the caller uses while it runs; its error output is collected.
//!
//! It has its own process group, so an interrupt from the terminal does not kill it. It is killed
//! when the thread that started it ends or the value is dropped.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::PollFlags;

use crate::program::{Program, ProgramError};
use crate::program_path::{find, for_children};
use crate::system_runner::prepare_child;
use crate::waiting;

/// Time to end after its input was closed.
const GRACE: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub struct PipedProgram {
    child: Child,
    last_line: Arc<Mutex<String>>,
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
    /// Starts a program with its environment and arguments; other settings are ignored.
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
        let start_error =
            |source| ProgramError::Start { command_line: program.command_line(), source };
        let mut child = command.spawn().map_err(start_error)?;
        let input = child.stdin.take().expect("stdin is piped");
        let output = child.stdout.take().expect("stdout is piped");
        let errors = child.stderr.take().expect("stderr is piped");
        let (stopping, stop) = UnixStream::pair().map_err(start_error)?;
        let last_line = Arc::new(Mutex::new(String::new()));
        let shared_line = Arc::clone(&last_line);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(UntilStopped { errors, stop }).lines().map_while(Result::ok)
            {
                if !line.trim().is_empty() {
                    *shared_line.lock().unwrap_or_else(PoisonError::into_inner) =
                        line.trim().to_owned();
                }
            }
        });
        let reader = Some(reader);
        Ok((Self { child, last_line, reader, stopping: Some(stopping) }, output, input))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends the program and returns the last line of its error output, or an empty string.
    pub fn last_error_line(&mut self) -> String {
        self.end();
        self.stopping = None;
        if let Some(thread) = self.reader.take() {
            let _ = thread.join();
        }
        self.last_line.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits briefly for the program to end, then kills its process group.
    fn end(&mut self) {
        if !matches!(waiting::child(&mut self.child, None, GRACE), Ok(None)) {
            return;
        }
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
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
