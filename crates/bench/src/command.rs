//! A command of the user as a stage: prepares, runs it with a cold or warm cache, cleans up.
//!
//! It runs with sh(1) in a new directory of the file system that is measured, and can write nowhere
//! else ([`flashfit_host::Confinement`]). Whatever it started ends with it. Its figure is its time,
//! with writeback if the stage says so. Limits: it needs a mounted file system and root; `sh` and
//! what it runs must be there on the machine of the trial.

use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_host::memory_limit::MemoryLimit;
use flashfit_host::{Confinement, Program, ProgramOutcome, Runner};

use crate::error::BenchError;
use crate::fio::system;
use crate::stage::StageSpec;

const USERS: &str = "/etc/passwd";
/// How much of the output is kept.
const OUTPUT_BYTES: usize = 16 << 10;
/// How many lines of it an error has.
const OUTPUT_LINES: usize = 5;

/// Runs the commands of one stage.
pub(crate) struct CommandRunner<'a> {
    pub runner: &'a dyn Runner,
    pub memory_limit: Option<&'a MemoryLimit>,
    pub stage: &'a StageSpec,
    pub mount_point: &'a Path,
    pub folder: PathBuf,
    /// In addition to the directory.
    pub variables: Vec<(String, String)>,
}

impl CommandRunner<'_> {
    /// Gives the directory to the user of the commands.
    pub fn own_folder(&self) -> Result<(), BenchError> {
        let Some((user, group)) = self.user()? else { return Ok(()) };
        std::os::unix::fs::chown(&self.folder, Some(user), Some(group)).map_err(|error| {
            BenchError::Command {
                command: format!("chown {user}:{group}"),
                reason: format!("the file system has no owners of files ({error}); omit `user`"),
            }
        })
    }

    /// Runs one of the commands.
    ///
    /// # Errors
    /// [`BenchError::Command`] if it fails; when it cannot be run, at the time limit, and at an
    /// interrupt.
    pub fn run(&self, command: &str) -> Result<ProgramOutcome, BenchError> {
        let folder = self.folder.display().to_string();
        let confinement = Confinement {
            mount_point: self.mount_point.to_owned(),
            folder: self.folder.clone(),
            user: self.user()?,
        };
        let mut program = Program::new("sh")
            .args(["-c", command])
            .timeout(Duration::from_secs(self.stage.limit_s))
            .keep_last(OUTPUT_BYTES)
            .confine(confinement);
        for name in ["HOME", "TMPDIR", "PWD", "DIRECTORY"] {
            program = program.env(name, &folder);
        }
        for (name, value) in &self.variables {
            program = program.env(name, value);
        }
        if let Some(limit) = self.memory_limit {
            program = program.inside(&limit.procs());
        }
        let outcome = self.runner.run(&program)?;
        if outcome.success() { Ok(outcome) } else { Err(failed(command, &outcome)) }
    }

    fn user(&self) -> Result<Option<(u32, u32)>, BenchError> {
        let Some(user) = &self.stage.user else { return Ok(None) };
        let text = std::fs::read_to_string(USERS).map_err(system(Path::new(USERS)));
        user_and_group(user, &text.unwrap_or_default()).map(Some).ok_or_else(|| {
            BenchError::Command {
                command: format!("user = \"{user}\""),
                reason: format!("{USERS} of the machine where the trial runs has no such user"),
            }
        })
    }
}

/// The numbers of a user: as given with a `:`, or from the lines of passwd(5).
fn user_and_group(user: &str, passwd: &str) -> Option<(u32, u32)> {
    if let Some((user, group)) = user.split_once(':') {
        return Some((user.parse().ok()?, group.parse().ok()?));
    }
    let mut lines = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let fields = lines.find(|fields| fields.first() == Some(&user))?;
    Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
}

fn failed(command: &str, outcome: &ProgramOutcome) -> BenchError {
    let how = match (outcome.code, outcome.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or_default()),
    };
    let output = [outcome.stdout.as_str(), &outcome.stderr].join("\n");
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(OUTPUT_LINES)..].join(" / ");
    let reason = if last.is_empty() { how } else { format!("{how}: {last}") };
    BenchError::Command { command: command.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_names_or_numbers() {
        let passwd = "root:x:0:0::/root:/bin/sh\nme:x:1000:100::/home/me:/bin/sh\n";
        assert_eq!(user_and_group("me", passwd), Some((1000, 100)));
        assert_eq!(user_and_group("65534:65533", ""), Some((65534, 65533)));
        for wrong in ["you", "1000", "a:b", ":"] {
            assert_eq!(user_and_group(wrong, passwd), None, "{wrong}");
        }
    }

    #[test]
    fn an_error_has_the_last_lines_of_the_output() {
        let outcome = ProgramOutcome {
            code: Some(3),
            stdout: "1\n2\n3\n4\n".into(),
            stderr: "\n5\n6\n".into(),
            ..ProgramOutcome::default()
        };
        let text = failed("make all", &outcome).to_string();
        assert!(text.ends_with("`make all` failed: exit code 3: 2 / 3 / 4 / 5 / 6"), "{text}");
    }
}
