//! A program that is talked to while it runs: its input and output are the caller's, what it
//! complains of is kept.
//!
//! It has a process group of its own, so that an interrupt from the terminal does not take it away,
//! and it is killed when the thread that started it dies, and when the value goes.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::program::{Program, ProgramError};
use crate::system_runner::{find, prepare_child};

const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// After its input has ended.
const GRACE: Duration = Duration::from_secs(3);

/// A running program.
#[derive(Debug)]
pub struct Piped {
    child: Child,
    last_line: Arc<Mutex<String>>,
    complaints: Option<JoinHandle<()>>,
}

impl Piped {
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
            .envs(program.env.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        prepare_child(&mut command, Vec::new());
        let mut child = command.spawn().map_err(|source| ProgramError::Start {
            command_line: program.command_line(),
            source,
        })?;
        let input = child.stdin.take().expect("it was asked for");
        let output = child.stdout.take().expect("it was asked for");
        let errors = BufReader::new(child.stderr.take().expect("it was asked for"));
        let last_line = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&last_line);
        let complaints = std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                if !line.trim().is_empty() {
                    *kept.lock().unwrap_or_else(PoisonError::into_inner) = line.trim().to_owned();
                }
            }
        });
        Ok((Self { child, last_line, complaints: Some(complaints) }, output, input))
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The last line of what it complained of, once it has ended; empty if it never did.
    pub fn last_words(&mut self) -> String {
        self.end();
        if let Some(thread) = self.complaints.take() {
            let _ = thread.join();
        }
        self.last_line.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits a moment for it to end by itself, and then makes it.
    fn end(&mut self) {
        let began = Instant::now();
        while began.elapsed() < GRACE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_program_is_talked_to() {
        let (piped, mut output, mut input) = Piped::start(&Program::new("cat")).expect("cat");
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
        let (mut piped, _output, _input) = Piped::start(&program).expect("sh");
        assert_eq!(piped.last_words(), "last");
    }
}
