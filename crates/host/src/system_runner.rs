//! Running programs on this machine.
//!
//! A program runs in its own process group, which is killed as a whole when its time is up, when
//! the user interrupts, or when flashfit itself dies. Its output is kept, never shown directly.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::interrupt::Interrupt;
use crate::program::{Outcome, Program, ProgramError, Runner};

const POLL_INTERVAL: Duration = Duration::from_millis(2);
const GRACE: Duration = Duration::from_secs(3);
/// Where programs are looked for without a `PATH`.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Runs programs on this machine.
#[derive(Debug, Clone, Default)]
pub struct SystemRunner {
    interrupt: Interrupt,
}

impl SystemRunner {
    /// Programs are ended when `interrupt` is raised.
    pub fn new(interrupt: Interrupt) -> Self {
        Self { interrupt }
    }

    /// What ends the programs.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }
}

impl Runner for SystemRunner {
    fn run(&self, program: &Program) -> Result<Outcome, ProgramError> {
        let command_line = program.command_line();
        let start_error =
            |source| ProgramError::Start { command_line: command_line.clone(), source };
        let path = find(&program.name)
            .ok_or_else(|| ProgramError::Missing { name: program.name.clone() })?;
        let mut command = Command::new(path);
        command
            .args(&program.args)
            .envs(program.env.iter().map(|(k, v)| (k, v)))
            .env("LC_ALL", "C")
            .stdin(if program.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let cgroups = open_cgroups(&program.cgroup_procs).map_err(start_error)?;
        prepare_child(&mut command, cgroups.iter().map(AsRawFd::as_raw_fd).collect());
        let started = Instant::now();
        let mut child = command.spawn().map_err(start_error)?;
        if let (Some(text), Some(mut pipe)) = (&program.stdin, child.stdin.take()) {
            // A program that does not read its input tells so by its exit code.
            let _ = pipe.write_all(text.as_bytes());
        }
        let stdout = drain(child.stdout.take());
        let stderr = drain(child.stderr.take());
        let ended = self.wait(&mut child, program, started);
        let text = |handle: Drained| handle.and_then(|h| h.join().ok()).unwrap_or_default();
        let (stdout, stderr) = (text(stdout), text(stderr));
        let status = ended?;
        Ok(Outcome {
            code: status.code(),
            signal: status.signal(),
            stdout,
            stderr,
            elapsed: started.elapsed(),
            command_line,
        })
    }
}

impl SystemRunner {
    fn wait(
        &self,
        child: &mut Child,
        program: &Program,
        started: Instant,
    ) -> Result<std::process::ExitStatus, ProgramError> {
        let command_line = program.command_line();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(source) => return Err(ProgramError::Start { command_line, source }),
            }
            if self.interrupt.is_raised() {
                end_group(child);
                return Err(ProgramError::Interrupted { command_line });
            }
            if started.elapsed() > program.timeout {
                end_group(child);
                return Err(ProgramError::TimedOut { command_line, limit: program.timeout });
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

type Drained = Option<std::thread::JoinHandle<String>>;

fn drain<R: Read + Send + 'static>(pipe: Option<R>) -> Drained {
    pipe.map(|mut pipe| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // What could be read until an error is still worth keeping.
            let _ = pipe.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    })
}

/// Asks the whole group to end, and after a grace period makes it.
fn end_group(child: &mut Child) {
    let group = rustix::process::Pid::from_child(child);
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
    let asked = Instant::now();
    while asked.elapsed() < GRACE {
        if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            break;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    let _ = child.wait();
}

fn open_cgroups(paths: &[PathBuf]) -> std::io::Result<Vec<std::fs::File>> {
    paths.iter().map(|path| std::fs::OpenOptions::new().write(true).open(path)).collect()
}

/// Makes the child die with its parent and join control groups before it runs anything.
#[expect(unsafe_code, reason = "pre_exec is unsafe by nature")]
pub(crate) fn prepare_child(command: &mut Command, cgroup_fds: Vec<i32>) {
    // SAFETY: between fork and exec only async-signal-safe calls are made: prctl and write.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            for fd in &cgroup_fds {
                if libc::write(*fd, b"0".as_ptr().cast(), 1) != 1 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
}

/// Where a program is, looked up in `PATH` and then in each `sbin` beside a `bin` of `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Path::new(name).exists().then(|| PathBuf::from(name));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into());
    find_in(&path, name)
}

/// An ordinary user's path leaves out the folders of the administrator's programs; one without the
/// ordinary ones too was made so on purpose. The working directory is never searched.
fn find_in(path: &OsStr, name: &str) -> Option<PathBuf> {
    let folders: Vec<PathBuf> =
        std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect();
    let beside = folders.iter().filter(|folder| folder.ends_with("bin"));
    let beside: Vec<PathBuf> = beside.map(|folder| folder.with_file_name("sbin")).collect();
    let candidates = folders.iter().chain(&beside).map(|folder| folder.join(name));
    candidates.into_iter().find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::{ExitClass, Explain};

    #[test]
    fn output_and_exit_code_are_kept() {
        let program = Program::new("sh").args(["-c", "echo out; echo err >&2; exit 7"]);
        let outcome = SystemRunner::default().run(&program).unwrap();
        assert_eq!((outcome.code, outcome.success()), (Some(7), false));
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("out\n", "err\n"));
    }

    #[test]
    fn a_program_that_is_not_there_is_missing() {
        let outcome = SystemRunner::default().run(&Program::new("flashfit-no-such-program"));
        assert!(matches!(outcome, Err(ProgramError::Missing { .. })));
    }

    #[test]
    fn a_timeout_ends_the_whole_group() {
        let marker = format!("{}.5", 86_000 + std::process::id() % 1000);
        let program = Program::new("sh")
            .args(["-c", &format!("sleep {marker} & wait")])
            .timeout(Duration::from_millis(200));
        let error = SystemRunner::default().run(&program).unwrap_err();
        assert!(matches!(error, ProgramError::TimedOut { .. }));
        let left = SystemRunner::default()
            .run(&Program::new("sh").args(["-c", "ps -e -o args= | cat"]))
            .unwrap();
        assert!(!left.stdout.lines().any(|line| line == format!("sleep {marker}")));
    }

    #[test]
    fn an_interrupt_ends_the_program() {
        let interrupt = Interrupt::new();
        interrupt.raise();
        let error = SystemRunner::new(interrupt).run(&Program::new("sleep").arg("60")).unwrap_err();
        assert_eq!(error.class(), ExitClass::Interrupted);
    }

    #[test]
    fn the_administrators_programs_are_looked_for_beside_the_ordinary_ones() {
        let root = tempfile::tempdir().unwrap();
        let (bin, sbin) = (root.path().join("bin"), root.path().join("sbin"));
        let other = root.path().join("other");
        for folder in [&bin, &sbin, &other] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(sbin.join("mkfs"), "").unwrap();
        assert_eq!(find_in(bin.as_os_str(), "mkfs"), Some(sbin.join("mkfs")));
        assert_eq!(find_in(other.as_os_str(), "mkfs"), None);
        std::fs::write(bin.join("mkfs"), "").unwrap();
        let both = std::env::join_paths([&other, &bin]).unwrap();
        assert_eq!(find_in(&both, "mkfs"), Some(bin.join("mkfs")));
        for path in ["", ".", "::"] {
            assert_eq!(find_in(OsStr::new(path), "Cargo.toml"), None);
        }
    }
}
