//! Running external programs (fio, mkfs, sfdisk, mount …): what is run, how it ended, and the seam.
//!
//! Limits: output is held in memory, so this is for programs that print little.

use std::path::PathBuf;
use std::time::Duration;

use crate::program_path;
pub use crate::program_path::find;
pub use crate::scripted_runner::ScriptedRunner;
pub use crate::system_runner::SystemRunner;
use flashfit_user_error::{ExitClass, UserError};

/// A program with its arguments, not yet run.
#[derive(Debug, Clone)]
pub struct Program {
    pub(crate) name: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) stdin: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) cgroup_procs: Vec<PathBuf>,
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

    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

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

    pub fn arguments(&self) -> &[String] {
        &self.args
    }

    /// The text for its standard input, where it is given one.
    pub fn standard_input(&self) -> Option<&str> {
        self.stdin.as_deref()
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
pub struct ProgramOutcome {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// From start to end.
    pub elapsed: Duration,
    /// The command as it was run.
    pub command_line: String,
}

impl ProgramOutcome {
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
    Missing { name: String },
    /// It could not be started or waited for.
    #[error("cannot run `{command_line}`: {source}")]
    Start { command_line: String, source: std::io::Error },
    /// It ran longer than it may.
    #[error("`{command_line}` was ended after {} s", limit.as_secs())]
    TimedOut {
        command_line: String,
        /// What it was given.
        limit: Duration,
    },
    #[error("interrupted during `{command_line}`")]
    Interrupted { command_line: String },
    #[error("`{command_line}` failed ({how}): {message}")]
    Failed {
        command_line: String,
        /// Its exit code or signal, in words.
        how: String,
        /// The last lines of what it printed.
        message: String,
    },
}

impl UserError for ProgramError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Missing { .. } | Self::Start { .. } => ExitClass::Environment,
            Self::TimedOut { .. } | Self::Failed { .. } => ExitClass::Io,
            Self::Interrupted { .. } => ExitClass::Interrupted,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { name } => match program_path::passed_over(name) {
                Some(path) => Some(format!(
                    "root does not use PATH, where it is {}; name folders that only root can \
                     write to: export {}=DIR:/usr/sbin:/usr/bin",
                    path.display(),
                    program_path::VARIABLE
                )),
                None => package_of(name).map(|package| format!("apt-get install {package}")),
            },
            _ => None,
        }
    }
}

/// The Debian package that brings a program that flashfit runs.
fn package_of(program: &str) -> Option<&'static str> {
    Some(match program {
        "fio" => "fio",
        "mkfs.ext2" | "mkfs.ext3" | "mkfs.ext4" | "mke2fs" | "tune2fs" | "e2fsck" | "dumpe2fs" => {
            "e2fsprogs"
        }
        "mkfs.btrfs" | "btrfs" => "btrfs-progs",
        "mkfs.f2fs" | "fsck.f2fs" | "dump.f2fs" => "f2fs-tools",
        "mkfs.fat" | "fsck.fat" => "dosfstools",
        "mkfs.exfat" | "fsck.exfat" | "dump.exfat" => "exfatprogs",
        "mkfs.xfs" | "xfs_db" | "xfs_repair" => "xfsprogs",
        "mkfs.nilfs2" | "nilfs-tune" => "nilfs-tools",
        "mksquashfs" | "unsquashfs" => "squashfs-tools",
        "sfdisk" => "fdisk",
        "mount" | "umount" => "mount",
        "busybox" => "busybox-static",
        "qemu-system-x86_64" => "qemu-system-x86",
        "qemu-system-aarch64" => "qemu-system-arm",
        "blkid" | "blkdiscard" | "partx" | "losetup" | "wipefs" => "util-linux",
        _ => return None,
    })
}

/// Runs programs. The real one is [`SystemRunner`]; tests use [`ScriptedRunner`].
pub trait Runner: Send + Sync {
    /// Runs to the end and returns how it ended, whatever its exit code.
    ///
    /// # Errors
    /// When it cannot be started, runs too long, or the user interrupts.
    fn run(&self, program: &Program) -> Result<ProgramOutcome, ProgramError>;

    /// As [`Runner::run`], and an exit code other than 0 is an error.
    ///
    /// # Errors
    /// As [`Runner::run`], and [`ProgramError::Failed`].
    fn run_checked(&self, program: &Program) -> Result<ProgramOutcome, ProgramError> {
        let outcome = self.run(program)?;
        if outcome.success() { Ok(outcome) } else { Err(failed(&outcome)) }
    }
}

/// The error for an outcome that was not a success.
pub fn failed(outcome: &ProgramOutcome) -> ProgramError {
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

/// What a program says of its version: the first line of what it prints for `args`.
pub fn version(runner: &dyn Runner, name: &str, args: &[String]) -> Option<String> {
    let outcome = runner.run(&Program::new(name).args(args.to_vec())).ok()?;
    let line = |text: &str| text.lines().next().map(|line| line.trim().to_owned());
    line(&outcome.stdout).or_else(|| line(&outcome.stderr)).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let error = ProgramError::Missing { name: "mkfs.btrfs".into() };
        assert_eq!(error.hint().as_deref(), Some("apt-get install btrfs-progs"));
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote("^has_journal"), "^has_journal");
        assert_eq!(quote(""), "''");
    }
}
