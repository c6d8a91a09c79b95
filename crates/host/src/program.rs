//! Describes external programs (fio, mkfs, sfdisk, mount …) and their outcome, and the [`Runner`]
//! trait that runs them.
//!
//! Limit: output is kept in memory, so this suits programs with little output.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::confinement::Confinement;
use crate::handed_file::HandedFile;
use crate::path_text::showable;
use crate::program_path;
pub use crate::program_path::find;
pub use crate::scripted_runner::ScriptedRunner;
pub use crate::system_runner::SystemRunner;
use flashfit_user_error::{ExitClass, Hint, UserError};

#[derive(Debug, Clone)]
pub struct Program {
    pub(crate) name: String,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) stdin: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) cgroup_procs: Vec<PathBuf>,
    pub(crate) shows_output: bool,
    pub(crate) handed: Option<HandedFile>,
    pub(crate) confinement: Option<Confinement>,
    pub(crate) ends_descendants: bool,
    /// The most of each output that is kept, from its end.
    pub(crate) kept_bytes: Option<usize>,
}

impl Program {
    /// `name` is looked up with [`find`].
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: None,
            timeout: Duration::from_secs(600),
            cgroup_procs: Vec::new(),
            shows_output: false,
            handed: None,
            confinement: None,
            ends_descendants: false,
            kept_bytes: None,
        }
    }

    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    #[must_use]
    pub fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((key.into(), value.into()));
        self
    }

    /// Text for the standard input; the default is `/dev/null`.
    #[must_use]
    pub fn stdin(mut self, text: impl Into<String>) -> Self {
        self.stdin = Some(text.into());
        self
    }

    /// Time limit; ten minutes by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs the program in the control groups with these `cgroup.procs` files.
    #[must_use]
    pub fn inside(mut self, cgroup_procs: &[PathBuf]) -> Self {
        self.cgroup_procs = cgroup_procs.to_vec();
        self
    }

    /// Shows the output on standard error instead of capturing it, for a command of the user. The
    /// language of its messages is not changed.
    #[must_use]
    pub fn show_output(mut self) -> Self {
        self.shows_output = true;
        self
    }

    /// Gives the program the open `file` instead of its `name` in the arguments, so that it cannot
    /// be led to another file. Command lines and messages keep the name.
    #[must_use]
    pub fn hand(mut self, name: &Path, file: Arc<File>) -> Self {
        self.handed = Some(HandedFile::new(name, file));
        self
    }

    /// Lets the program write to one file system only, and ends all its children with it.
    #[must_use]
    pub fn confine(mut self, confinement: Confinement) -> Self {
        self.confinement = Some(confinement);
        self
    }

    /// Ends all that it started when it ends, processes of other sessions too.
    #[must_use]
    pub fn end_descendants(mut self) -> Self {
        self.ends_descendants = true;
        self
    }

    /// Keeps only the end of what it prints.
    #[must_use]
    pub fn keep_last(mut self, bytes: usize) -> Self {
        self.kept_bytes = Some(bytes);
        self
    }

    /// Where it is confined to.
    pub fn confinement(&self) -> Option<&Confinement> {
        self.confinement.as_ref()
    }

    /// The arguments that it is started with.
    pub(crate) fn actual_arguments(&self) -> Vec<OsString> {
        match &self.handed {
            Some(handed) => self.args.iter().map(|arg| handed.argument(arg)).collect(),
            None => self.args.clone(),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn arguments(&self) -> &[OsString] {
        &self.args
    }

    pub fn standard_input(&self) -> Option<&str> {
        self.stdin.as_deref()
    }

    /// Variables set in addition to the inherited ones.
    pub fn environment(&self) -> &[(String, String)] {
        &self.env
    }

    /// The command line, quoted for a POSIX shell.
    pub fn command_line(&self) -> String {
        let args = self.args.iter().map(|arg| quote_os(arg));
        std::iter::once(quote(&self.name)).chain(args).collect::<Vec<_>>().join(" ")
    }

    /// The words of the command for a POSIX shell, with the lines of its standard input.
    pub fn shell_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(text) = &self.stdin {
            words.extend(["printf".to_owned(), quote("%s\\n")]);
            words.extend(text.lines().map(quote));
            words.push("|".to_owned());
        }
        words.push(quote(&self.name));
        words.extend(self.args.iter().map(|arg| quote_os(arg)));
        words
    }
}

/// Quotes a word for a POSIX shell if necessary.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@%+^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Quotes a path for a POSIX shell if necessary.
pub fn quote_path(path: &Path) -> String {
    quote_os(path.as_os_str())
}

/// Quotes a word that may have bytes that are not UTF-8, or characters that cannot be shown: those
/// as octal escapes in `$'...'` (POSIX.1-2024).
fn quote_os(word: &OsStr) -> String {
    if let Some(text) = showable(word) {
        return quote(text);
    }
    let mut text = String::from("$'");
    for byte in word.as_bytes() {
        match byte {
            b'\'' | b'\\' => {
                text.push('\\');
                text.push(char::from(*byte));
            }
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => write!(text, "\\{byte:03o}").expect("a string takes all text"),
        }
    }
    text.push('\'');
    text
}

#[derive(Debug, Clone, Default)]
pub struct ProgramOutcome {
    /// Exit code; `None` if a signal ended the program.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub elapsed: Duration,
    pub command_line: String,
}

impl ProgramOutcome {
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error("the program `{name}` was not found")]
    Missing { name: String },
    /// It could not be started or waited for.
    #[error("cannot run `{command_line}`: {source}")]
    Start { command_line: String, source: std::io::Error },
    #[error("`{command_line}` was terminated: it ran longer than {} s", limit.as_secs())]
    TimedOut { command_line: String, limit: Duration },
    /// During a command in backquotes, or something else that took time.
    #[error("interrupted during {during}")]
    Interrupted { during: String },
    #[error("`{command_line}` failed ({how}): {message}")]
    Failed {
        command_line: String,
        /// Exit code or signal, in words.
        how: String,
        /// The last lines of its output.
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

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Missing { name } => {
                let install = || package_of(name).map(|name| format!("apt-get install {name}"));
                program_path::advice(name).or_else(install).map(Into::into)
            }
            _ => None,
        }
    }
}

/// The Debian package of a program that flashfit runs.
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
        "nvme" => "nvme-cli",
        "smartctl" => "smartmontools",
        "sfdisk" => "fdisk",
        "mount" | "umount" => "mount",
        "busybox" => "busybox-static",
        "qemu-system-x86_64" => "qemu-system-x86",
        "qemu-system-aarch64" => "qemu-system-arm",
        "blkid" | "blkdiscard" | "partx" | "losetup" | "wipefs" => "util-linux",
        _ => return None,
    })
}

/// Runs programs: [`SystemRunner`] in production, [`ScriptedRunner`] in tests.
pub trait Runner: Send + Sync {
    /// Runs a program to its end. A non-zero exit code is not an error.
    ///
    /// # Errors
    /// When it cannot be started, exceeds its time limit, or the user interrupts.
    fn run(&self, program: &Program) -> Result<ProgramOutcome, ProgramError>;

    /// Runs a program; a non-zero exit code is an error.
    ///
    /// # Errors
    /// Those of [`Runner::run`], and [`ProgramError::Failed`].
    fn run_checked(&self, program: &Program) -> Result<ProgramOutcome, ProgramError> {
        let outcome = self.run(program)?;
        if outcome.success() { Ok(outcome) } else { Err(failed(&outcome)) }
    }

    /// Waits, without a program: small systems lack `sleep`, and their users interrupt as well.
    ///
    /// # Errors
    /// [`ProgramError::Interrupted`].
    fn wait(&self, time: Duration) -> Result<(), ProgramError> {
        std::thread::sleep(time);
        Ok(())
    }
}

/// The error for an unsuccessful outcome.
pub fn failed(outcome: &ProgramOutcome) -> ProgramError {
    let how = match (outcome.code, outcome.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown status".to_owned(),
    };
    let output = if outcome.stderr.trim().is_empty() { &outcome.stdout } else { &outcome.stderr };
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let message = lines[lines.len().saturating_sub(3)..].join(" / ");
    ProgramError::Failed { command_line: outcome.command_line.clone(), how, message }
}

/// A program's version: the first line that it prints for `args`.
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
        assert_eq!(error.hint(), Some("apt-get install btrfs-progs".into()));
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote("^has_journal"), "^has_journal");
        assert_eq!(quote(""), "''");
    }

    #[test]
    fn a_path_that_cannot_be_shown_is_quoted_by_octal_escapes() {
        assert_eq!(quote_path(Path::new("a b")), "'a b'");
        assert_eq!(quote_path(Path::new("nl\nx'.img")), r"$'nl\012x\'.img'");
        assert_eq!(quote_path(Path::new("esc\x1b[31m")), r"$'esc\033[31m'");
    }
}
