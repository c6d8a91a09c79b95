//! The way to an agent on another machine, by ssh(1) with the user's own configuration and keys.
//!
//! This very program is copied to a folder of its own there, unless the same flashfit is there
//! already, and started as an agent that outlives the connection: who is cut off connects again
//! and finds what was done meanwhile. When the agent ends it removes the folder.
//!
//! Limits: the machine there has the processor of this one and a POSIX shell; who logs in is root
//! or may use sudo without a password.

use std::path::Path;
use std::time::Duration;

use flashfit_host::piped::PipedProgram;
use flashfit_host::program::{ProgramOutcome, quote};
use flashfit_host::{Program, ProgramError, Runner, SshAddress};
use flashfit_user_error::{ExitClass, UserError};

use super::link::{Link, LinkEnds, LinkError, RETRY_INTERVAL};
use crate::agent::LOCK;

/// ssh's own exit code for a connection that failed.
const CONNECTION_FAILED: i32 = 255;
/// How long a lost connection is tried again.
const PATIENCE: Duration = Duration::from_secs(300);
/// A slow line takes a while for a program of some megabytes.
const COPY_WAIT: Duration = Duration::from_secs(600);
/// What kills an agent twice is not over by itself.
const SUCCESSORS: u32 = 1;

/// The way to one machine.
#[derive(Debug)]
pub struct SshLink {
    address: SshAddress,
    /// The agent's folder there.
    folder: String,
    /// The program there that becomes the agent.
    program: String,
    process: Option<PipedProgram>,
    connected: bool,
    /// How often an agent that is gone may be followed by another.
    successors: u32,
    patience: Duration,
    retry_interval: Duration,
    /// What people call it, where that is not the host.
    name: Option<String>,
}

impl SshLink {
    /// Looks at the machine and puts `own`, this program of version `version`, there if need be.
    /// `token` names the folder there; an agent that is left there by who used it before is ended.
    ///
    /// # Errors
    /// When the machine cannot be reached, or `own` does not run there.
    pub fn new(
        runner: &dyn Runner,
        address: SshAddress,
        own: &Path,
        version: &str,
        token: &str,
    ) -> Result<Self, LinkError> {
        let folder = format!("/tmp/flashfit-{token}");
        let mut link = Self {
            address,
            folder,
            program: String::new(),
            process: None,
            connected: false,
            successors: SUCCESSORS,
            patience: PATIENCE,
            retry_interval: RETRY_INTERVAL,
            name: None,
        };
        let place = quote(&link.folder);
        // An agent that an earlier connection has left would keep its device. Its folder has a name
        // that others there can have seen: what they put into one of their own is not run.
        let (ours, theirs) = (is_ours(&place), is_theirs(&place));
        let look = format!(
            "uname -m; flashfit --version 2>/dev/null || echo none; {AS_ROOT} true || exit; \
             if [ -e {place} ] && ! {ours}; then {theirs}; exit 1; fi; \
             if [ -S {place}/agent.socket ]; then own={place}/flashfit; [ -x $own ] || own=flashfit; \
             {AS_ROOT} $own agent --folder {place} --end; fi"
        );
        let seen = link.run(runner, &link.command(&look))?;
        let mut lines = seen.stdout.lines().map(str::trim);
        let (machine, found) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
        if found == format!("flashfit {version}") {
            link.program = "flashfit".to_owned();
            return Ok(link);
        }
        if machine != std::env::consts::ARCH {
            return Err(link.error(
                format!("it is a machine of the kind {machine}, and this program is not for it"),
                Some("put a flashfit for it there as `flashfit` (see docs/test-beds.md)"),
                ExitClass::Environment,
            ));
        }
        link.program = format!("{}/flashfit", link.folder);
        link.copy(runner, own)?;
        Ok(link)
    }

    /// Called `name` in messages, and given up when it was lost for `patience`: for one of several
    /// machines, the others of which go on.
    #[must_use]
    pub fn one_of_several(self, name: &str, patience: Duration) -> Self {
        Self { name: Some(name.to_owned()), patience, successors: 0, ..self }
    }

    /// With this time between two tries to connect again.
    #[must_use]
    pub fn retried_every(self, retry_interval: Duration) -> Self {
        Self { retry_interval, ..self }
    }

    fn copy(&self, runner: &dyn Runner, own: &Path) -> Result<(), LinkError> {
        let (folder, program) = (quote(&self.folder), quote(&self.program));
        // Read by the shell that ssh is started from, so that it goes through a pipe.
        let there = format!(
            "umask 077; mkdir -p {folder} || exit; if ! {}; then {}; exit 1; fi; \
             : >> {folder}/{LOCK} && cat > {program} && chmod 700 {program} && {program} --version",
            is_ours(&folder),
            is_theirs(&folder)
        );
        let ssh = self.command(&there).command_line();
        let program = Program::new("sh")
            .args(["-c", &format!("{ssh} < {}", quote(&own.display().to_string()))])
            .timeout(COPY_WAIT);
        let outcome = runner.run(&program).map_err(|error| self.of_program(&error))?;
        if outcome.success() {
            return Ok(());
        }
        let why = last_line(&outcome);
        let hint = if why.contains("No space left on device") {
            "make room in /tmp there, and do it again"
        } else {
            "a program without libraries runs everywhere: make static, and use that one"
        };
        Err(self.error(
            format!("flashfit cannot be put there: {why}"),
            Some(hint),
            ExitClass::Environment,
        ))
    }

    fn run(&self, runner: &dyn Runner, program: &Program) -> Result<ProgramOutcome, LinkError> {
        let outcome = runner.run(program).map_err(|error| self.of_program(&error))?;
        if outcome.success() {
            return Ok(outcome);
        }
        let why = last_line(&outcome);
        if outcome.code == Some(CONNECTION_FAILED) {
            let hint = format!("ssh {} should work without a question", self.address.host);
            let mut error = self.error(why, Some(&hint), ExitClass::Environment);
            error.may_pass = true;
            return Err(error);
        }
        let (what, hint) = if why.ends_with(SOMEBODY_ELSES) {
            (why, "look at what is there, and remove it")
        } else {
            let hint = "log in as root, or let the user there use sudo without a password";
            (format!("there are no rights to mount: {why}"), hint)
        };
        Err(self.error(what, Some(hint), ExitClass::Environment))
    }

    /// ssh with what is to be done there.
    fn command(&self, there: &str) -> Program {
        let options = [
            "-T",
            "-oBatchMode=yes",
            "-oConnectTimeout=10",
            "-oServerAliveInterval=5",
            "-oServerAliveCountMax=3",
        ];
        Program::new("ssh").args(options).args(self.address.arguments()).arg(there)
    }

    fn of_program(&self, error: &ProgramError) -> LinkError {
        let hint = error.hint();
        self.error(error.to_string(), hint.as_deref(), error.class())
    }

    fn error(&self, message: String, hint: Option<&str>, class: ExitClass) -> LinkError {
        let message = format!("{}: {message}", self.place());
        LinkError { message, hint: hint.map(str::to_owned), class, may_pass: false }
    }
}

/// Runs what follows as root.
const AS_ROOT: &str = "$([ \"$(id -u)\" = 0 ] || echo sudo -n)";

const SOMEBODY_ELSES: &str = "is somebody else's";

/// A condition for the shell there: who logs in, or root for them, has made this folder.
fn is_ours(folder: &str) -> String {
    format!("{{ [ ! -L {folder} ] && {{ [ -O {folder} ] || {AS_ROOT} test -O {folder}; }}; }}")
}

/// What the shell there says of a folder that is not ours.
fn is_theirs(folder: &str) -> String {
    format!("echo {folder} \"{SOMEBODY_ELSES}\" >&2")
}

impl Link for SshLink {
    fn connect(&mut self) -> Result<LinkEnds, LinkError> {
        self.process = None;
        // What is lost is not made up for by another agent.
        let again = if self.connected { " --again" } else { "" };
        self.connected = true;
        let (program, folder) = (quote(&self.program), quote(&self.folder));
        let there = format!("{AS_ROOT} {program} agent --folder {folder}{again}");
        let (process, output, input) =
            PipedProgram::start(&self.command(&there)).map_err(|error| self.of_program(&error))?;
        self.process = Some(process);
        Ok(LinkEnds { input: Box::new(output), output: Box::new(input) })
    }

    fn patience(&self) -> Duration {
        self.patience
    }

    fn retry_interval(&self) -> Duration {
        self.retry_interval
    }

    fn renew(&mut self) -> bool {
        if self.successors == 0 {
            return false;
        }
        self.successors -= 1;
        self.connected = false;
        true
    }

    fn last_error_line(&mut self) -> Option<String> {
        let words = self.process.as_mut().map(PipedProgram::last_error_line)?;
        (!words.is_empty()).then(|| format!("{}: {words}", self.place()))
    }

    fn place(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.address.host.clone())
    }
}

/// What was said last, of errors where there are any.
fn last_line(outcome: &ProgramOutcome) -> String {
    let last =
        |text: &str| text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned);
    let said = last(&outcome.stderr).or_else(|| last(&outcome.stdout));
    said.unwrap_or_else(|| "it said nothing".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_before_what_else_was_said() {
        let outcome = ProgramOutcome {
            stdout: "x86_64\nnone\n".to_owned(),
            stderr: "sudo: a password is required\n\n".to_owned(),
            ..ProgramOutcome::default()
        };
        assert_eq!(last_line(&outcome), "sudo: a password is required");
        assert_eq!(last_line(&ProgramOutcome { stderr: String::new(), ..outcome }), "none");
    }
}
