//! Running external programs (fio, mkfs, sfdisk, mount …): the one place where that is done.
//!
//! A program runs in its own process group, which is killed as a whole when its time is up, when
//! the user interrupts, or when flashfit itself dies. Its output is kept, never shown directly.
//! Limits: output is held in memory, so this is for programs that print little.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::explain::{ExitClass, Explain};
use crate::interrupt::Interrupt;

const POLL_INTERVAL: Duration = Duration::from_millis(2);
const GRACE: Duration = Duration::from_secs(3);
/// Where programs are looked for without a `PATH`.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program with its arguments, not yet run.
#[derive(Debug, Clone)]
pub struct Program {
    name: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    stdin: Option<String>,
    timeout: Duration,
    cgroup_procs: Vec<PathBuf>,
}

impl Program {
    /// `name` is looked up as [`find`] does.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: None,
            timeout: Duration::from_secs(600),
            cgroup_procs: Vec::new(),
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds several arguments.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((key.into(), value.into()));
        self
    }

    /// Text for its standard input; without it, `/dev/null`.
    #[must_use]
    pub fn stdin(mut self, text: impl Into<String>) -> Self {
        self.stdin = Some(text.into());
        self
    }

    /// How long it may run; ten minutes unless told.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs it inside the control groups whose `cgroup.procs` files these are.
    #[must_use]
    pub fn inside(mut self, cgroup_procs: &[PathBuf]) -> Self {
        self.cgroup_procs = cgroup_procs.to_vec();
        self
    }

    /// The program's name as given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The environment variables set for it.
    pub fn environment(&self) -> &[(String, String)] {
        &self.env
    }

    /// The command as a user could type it, quoted for a POSIX shell.
    pub fn command_line(&self) -> String {
        std::iter::once(&self.name)
            .chain(&self.args)
            .map(|w| quote(w))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Quotes one word for a POSIX shell, where it needs it.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@%+^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// How a program ended.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// From start to end.
    pub elapsed: Duration,
    /// The command as it was run.
    pub command_line: String,
}

impl Outcome {
    /// Whether it exited with 0.
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }
}

/// Why a program could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It is not installed.
    #[error("the program `{name}` was not found")]
    Missing {
        /// Its name.
        name: String,
    },
    /// It could not be started or waited for.
    #[error("cannot run `{command_line}`: {source}")]
    Start {
        /// The command.
        command_line: String,
        /// Why.
        source: std::io::Error,
    },
    /// It ran longer than it may.
    #[error("`{command_line}` was ended after {} s", limit.as_secs())]
    TimedOut {
        /// The command.
        command_line: String,
        /// What it was given.
        limit: Duration,
    },
    /// The user interrupted.
    #[error("interrupted during `{command_line}`")]
    Interrupted {
        /// The command.
        command_line: String,
    },
    /// It said no.
    #[error("`{command_line}` failed ({how}): {message}")]
    Failed {
        /// The command.
        command_line: String,
        /// Its exit code or signal, in words.
        how: String,
        /// The last lines of what it printed.
        message: String,
    },
}

impl Explain for ProgramError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Missing { .. } | Self::Start { .. } => ExitClass::Environment,
            Self::TimedOut { .. } | Self::Failed { .. } => ExitClass::Io,
            Self::Interrupted { .. } => ExitClass::Interrupted,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { name } => {
                package_of(name).map(|package| format!("apt-get install {package}"))
            }
            _ => None,
        }
    }
}

/// The Debian package that brings a program that flashfit runs.
fn package_of(program: &str) -> Option<&'static str> {
    Some(match program {
        "fio" => "fio",
        "mkfs.ext4" | "mke2fs" | "tune2fs" | "e2fsck" | "dumpe2fs" => "e2fsprogs",
        "mkfs.btrfs" | "btrfs" => "btrfs-progs",
        "sfdisk" => "fdisk",
        "mount" | "umount" => "mount",
        "blkdiscard" | "partx" | "losetup" | "wipefs" => "util-linux",
        _ => return None,
    })
}

/// Runs programs. The real one is [`SystemRunner`]; tests use [`ScriptedRunner`].
pub trait Runner: Send + Sync {
    /// Runs to the end and returns how it ended, whatever its exit code.
    ///
    /// # Errors
    /// When it cannot be started, runs too long, or the user interrupts.
    fn run(&self, program: &Program) -> Result<Outcome, ProgramError>;

    /// As [`Runner::run`], and an exit code other than 0 is an error.
    ///
    /// # Errors
    /// As [`Runner::run`], and [`ProgramError::Failed`].
    fn run_checked(&self, program: &Program) -> Result<Outcome, ProgramError> {
        let outcome = self.run(program)?;
        if outcome.success() { Ok(outcome) } else { Err(failed(&outcome)) }
    }
}

/// The error for an outcome that was not a success.
pub fn failed(outcome: &Outcome) -> ProgramError {
    let how = match (outcome.code, outcome.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown status".to_owned(),
    };
    let said = if outcome.stderr.trim().is_empty() { &outcome.stdout } else { &outcome.stderr };
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let message = lines[lines.len().saturating_sub(3)..].join(" / ");
    ProgramError::Failed { command_line: outcome.command_line.clone(), how, message }
}

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
fn prepare_child(command: &mut Command, cgroup_fds: Vec<i32>) {
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

/// What a program says of its version: the first line of what it prints for `args`.
pub fn version(runner: &dyn Runner, name: &str, args: &[String]) -> Option<String> {
    let outcome = runner.run(&Program::new(name).args(args.to_vec())).ok()?;
    let line = |text: &str| text.lines().next().map(|line| line.trim().to_owned());
    line(&outcome.stdout).or_else(|| line(&outcome.stderr)).filter(|line| !line.is_empty())
}

/// Answers from a script instead of running anything; for tests.
#[derive(Debug, Default)]
pub struct ScriptedRunner {
    answers: Vec<(String, Outcome)>,
    calls: Mutex<Vec<String>>,
}

impl ScriptedRunner {
    /// A runner to which every program is missing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A command line that starts with `prefix` ends with `outcome`. The first match answers.
    #[must_use]
    pub fn answer(mut self, prefix: &str, outcome: Outcome) -> Self {
        self.answers.push((prefix.to_owned(), outcome));
        self
    }

    /// The command lines that were asked for, in order.
    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().expect("no test panics while it holds the lock").clone()
    }
}

impl Runner for ScriptedRunner {
    fn run(&self, program: &Program) -> Result<Outcome, ProgramError> {
        let command_line = program.command_line();
        self.calls
            .lock()
            .expect("no test panics while it holds the lock")
            .push(command_line.clone());
        self.answers
            .iter()
            .find(|(prefix, _)| command_line.starts_with(prefix))
            .map(|(_, outcome)| Outcome { command_line, ..outcome.clone() })
            .ok_or_else(|| ProgramError::Missing { name: program.name.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_exit_code_are_kept() {
        let program = Program::new("sh").args(["-c", "echo out; echo err >&2; exit 7"]);
        let outcome = SystemRunner::default().run(&program).unwrap();
        assert_eq!((outcome.code, outcome.success()), (Some(7), false));
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("out\n", "err\n"));
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let error = ProgramError::Missing { name: "mkfs.btrfs".into() };
        assert_eq!(error.hint().as_deref(), Some("apt-get install btrfs-progs"));
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

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote("^has_journal"), "^has_journal");
        assert_eq!(quote(""), "''");
    }
}
