//! A program that is talked to while it runs: its input and output are the caller's, what it
//! complains of is kept.
//!
//! It has a process group of its own, so that an interrupt from the terminal does not take it away,
//! and it is killed when the thread that started it dies, and when the value goes.

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

/// After its input has ended.
const GRACE: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub struct PipedProgram {
    child: Child,
    last_line: Arc<Mutex<String>>,
    complaints: Option<JoinHandle<()>>,
    /// Closed when only what has been written so far is to be read.
    stopping: Option<UnixStream>,
}

/// Reads until the end, or until there is nothing more and the other end of `stop` is closed: a
/// process that the program left behind may keep the pipe open for ever.
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
    /// Starts a program; its environment and arguments are used, and nothing else of it.
    ///
    /// # Errors
    /// When it is not there or cannot be started.
    pub fn start(program: &Program) -> Result<(Self, ChildStdout, ChildStdin), ProgramError> {
        let path = find(&program.name)
            .ok_or_else(|| ProgramError::Missing { name: program.name.clone() })?;
        let mut command = Command::new(path);
        command
            .args(&program.args)
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
        let input = child.stdin.take().expect("it was asked for");
        let output = child.stdout.take().expect("it was asked for");
        let errors = child.stderr.take().expect("it was asked for");
        let (stopping, stop) = UnixStream::pair().map_err(start_error)?;
        let last_line = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&last_line);
        let complaints = std::thread::spawn(move || {
            for line in BufReader::new(UntilStopped { errors, stop }).lines().map_while(Result::ok)
            {
                if !line.trim().is_empty() {
                    *kept.lock().unwrap_or_else(PoisonError::into_inner) = line.trim().to_owned();
                }
            }
        });
        let complaints = Some(complaints);
        Ok((Self { child, last_line, complaints, stopping: Some(stopping) }, output, input))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The last line of what it complained of, once it has ended; empty if it never did.
    pub fn last_words(&mut self) -> String {
        self.end();
        self.stopping = None;
        if let Some(thread) = self.complaints.take() {
            let _ = thread.join();
        }
        self.last_line.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits a moment for it to end by itself, and then makes it.
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
    fn a_program_is_talked_to() {
        let (piped, mut output, mut input) =
            PipedProgram::start(&Program::new("cat")).expect("cat");
        input.write_all(b"hello").expect("it listens");
        drop(input);
        let mut text = String::new();
        output.read_to_string(&mut text).expect("it answers");
        assert_eq!(text, "hello");
        drop(piped);
    }

    #[test]
    fn what_it_complains_of_is_kept() {
        let program = Program::new("sh").args(["-c", "echo first >&2; echo last >&2; exit 3"]);
        let (mut piped, _output, _input) = PipedProgram::start(&program).expect("sh");
        assert_eq!(piped.last_words(), "last");
    }
    #[test]
    fn what_it_left_behind_is_not_waited_for() {
        let program = Program::new("sh").args(["-c", "echo last >&2; setsid sleep 20 & exit 3"]);
        let (mut piped, _output, _input) = PipedProgram::start(&program).expect("sh");
        let began = std::time::Instant::now();
        assert_eq!(piped.last_words(), "last");
        assert!(began.elapsed() < Duration::from_secs(15));
    }
}
