//! The link to an agent on another machine, through ssh(1) with the user's configuration and keys.
//!
//! Copies this program to a new directory there, unless the same build is installed, and starts
//! it as an agent that outlives the connection, so a lost connection does not lose work. The agent
//! removes the directory when it ends.
//!
//! Limits: the machine must have the processor architecture of this one and a POSIX shell; the user
//! must be root or may use sudo without a password.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use flashfit_host::interrupt::Interrupt;
use flashfit_host::piped::PipedProgram;
use flashfit_host::program::{ProgramOutcome, quote, quote_path};
use flashfit_host::{Program, ProgramError, Runner, SshAddress};
use flashfit_user_error::{ExitClass, Hint, UserError};

use super::link::{Link, LinkEnds, LinkError, RETRY_INTERVAL};
use super::login_output::{self, AfterLogin};
use crate::agent::LOCK;

/// Exit code of ssh(1) if the connection failed.
const CONNECTION_FAILED: i32 = 255;
/// That of a copied program that does not run on the host.
const DOES_NOT_RUN: i32 = 3;
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(300);
/// For a program of some megabytes over a slow network.
const COPY_TIMEOUT: Duration = Duration::from_secs(600);
/// For a login on a slow board that has just started.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(120);
/// An agent that dies twice is not restarted again.
const MAX_RESTARTS: u32 = 1;

/// From and to a program there.
pub type LinkEnd = (ChildStdout, ChildStdin);

#[derive(Debug)]
pub struct SshLink {
    address: SshAddress,
    /// The agent's directory there.
    folder: String,
    /// The program there that runs as the agent.
    program: String,
    process: Option<PipedProgram>,
    connected: bool,
    restarts_left: u32,
    reconnect_timeout: Duration,
    retry_interval: Duration,
    /// Label, if it is not the host name.
    name: Option<String>,
}

impl SshLink {
    /// Checks the machine and copies `own`, this program, if needed. `build` is its version with
    /// what it was built from, which `flashfit agent --build` prints. `token` names the directory
    /// there; an agent left there by an earlier connection is ended.
    ///
    /// # Errors
    /// If the machine cannot be reached, or `own` does not run there.
    pub fn new(
        runner: &dyn Runner,
        address: SshAddress,
        own: &Path,
        build: &str,
        token: &str,
    ) -> Result<Self, LinkError> {
        let folder = format!("/tmp/flashfit-{token}");
        let mut link = Self {
            address,
            folder,
            program: String::new(),
            process: None,
            connected: false,
            restarts_left: MAX_RESTARTS,
            reconnect_timeout: RECONNECT_TIMEOUT,
            retry_interval: RETRY_INTERVAL,
            name: None,
        };
        let folder_arg = quote(&link.folder);
        // An agent left by an earlier connection would keep its device locked. Other users may know
        // the name of the directory, so nothing is run from one that belongs to them.
        let (own_test, refusal) = (is_own_test(&folder_arg), report_not_owned(&folder_arg));
        let script = format!(
            "uname -m; flashfit agent --build 2>/dev/null || flashfit --version 2>/dev/null || \
             echo none; {AS_ROOT} true || exit; \
             if [ -e {folder_arg} ] && ! {own_test}; then {refusal}; exit 1; fi; \
             if [ -S {folder_arg}/agent.socket ]; then own={folder_arg}/flashfit; [ -x $own ] || own=flashfit; \
             ! command -v $own > /dev/null || {AS_ROOT} $own agent --folder {folder_arg} --end; fi"
        );
        let seen = link.run(runner, &link.command(&login_output::separated(&script)))?;
        let output = login_output::after(&seen.stdout).ok_or_else(|| link.no_shell(&seen))?;
        let mut lines = output.lines().map(str::trim);
        let (machine, found) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
        if found == format!("flashfit {build}") {
            link.program = "flashfit".to_owned();
            return Ok(link);
        }
        if machine != std::env::consts::ARCH {
            return Err(link.other_architecture(machine, found, build));
        }
        link.program = format!("{}/flashfit", link.folder);
        link.copy(runner, own)?;
        Ok(link)
    }

    /// For one of several machines: labels it `name`, does not restart its agent, and gives up
    /// after `reconnect_timeout`.
    #[must_use]
    pub fn one_of_several(self, name: &str, reconnect_timeout: Duration) -> Self {
        Self { name: Some(name.to_owned()), reconnect_timeout, restarts_left: 0, ..self }
    }

    #[must_use]
    pub fn with_retry_interval(self, retry_interval: Duration) -> Self {
        Self { retry_interval, ..self }
    }

    /// Starts this program there with other arguments than those of an agent, which contain nothing
    /// that a shell would change. When it ends, its directory is removed.
    ///
    /// # Errors
    /// If ssh cannot be started, or the login there takes too long or is interrupted.
    pub fn start(
        &self,
        arguments: &str,
        interrupt: &Interrupt,
    ) -> Result<(PipedProgram, LinkEnd), LinkError> {
        let (program, folder) = (quote(&self.program), quote(&self.folder));
        let there =
            format!("{AS_ROOT} {program} {arguments}; code=$?; rm -rf {folder}; exit $code");
        let command = self.command(&login_output::separated(&there));
        let (process, mut output, input) =
            PipedProgram::start(&command).map_err(|error| self.of_program(&error))?;
        let deadline = Instant::now() + LOGIN_TIMEOUT;
        match login_output::skip_until(&mut output, deadline, interrupt) {
            Err(error) if error.kind() == ErrorKind::TimedOut => Err(self.slow_login(interrupt)),
            // Without a separator, the caller finds what is wrong with the output or its end.
            _ => Ok((process, (output, input))),
        }
    }

    /// It may be tried again: the board may be starting, and after an interrupt the caller decides.
    fn slow_login(&self, interrupt: &Interrupt) -> LinkError {
        let (message, class) = match interrupt.is_raised() {
            true => ("interrupted".to_owned(), ExitClass::Interrupted),
            false => {
                let seconds = LOGIN_TIMEOUT.as_secs();
                let message = format!("the login there has not run flashfit after {seconds} s");
                (message, ExitClass::Environment)
            }
        };
        LinkError { is_transient: true, ..self.error(message, None, class) }
    }

    fn other_architecture(&self, machine: &str, found: &str, build: &str) -> LinkError {
        let there =
            format!("its architecture is {machine}, and this program is not built for that");
        let (message, hint) = if found.starts_with("flashfit") {
            let message = format!("{there}; {found} is installed there, not flashfit {build}");
            (message, "install the flashfit that was built from the same source there")
        } else {
            (there, "install a flashfit for it there as `flashfit` (see docs/test-beds.md)")
        };
        self.error(message, Some(hint.into()), ExitClass::Environment)
    }

    fn copy(&self, runner: &dyn Runner, own: &Path) -> Result<(), LinkError> {
        // `sh` redirects the file to the standard input of ssh, and says if it cannot be read.
        let size_bytes = std::fs::metadata(own).map_or(0, |metadata| metadata.len());
        let there = copy_script(&self.folder, &self.program, size_bytes);
        let ssh = self.command(&there).command_line();
        let program = Program::new("sh")
            .args(["-c", &format!("{ssh} < {}", quote_path(own))])
            .timeout(COPY_TIMEOUT);
        let outcome = runner.run(&program).map_err(|error| self.of_program(&error))?;
        if outcome.success() {
            return Ok(());
        }
        let why = last_line(&outcome);
        let hint = if outcome.code == Some(DOES_NOT_RUN) && !why.contains("Permission denied") {
            "build a program without shared libraries and use it: make static"
        } else {
            "make room in /tmp there, or make it writable, and try again"
        };
        Err(self.error(
            format!("flashfit cannot be copied there: {why}"),
            Some(hint.into()),
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
            let hint = format!("ssh {} must work without a password prompt", self.address.host);
            let mut error = self.error(why, Some(hint.into()), ExitClass::Environment);
            error.is_transient = true;
            return Err(error);
        }
        if login_output::after(&outcome.stdout).is_none() {
            return Err(self.no_shell(&outcome));
        }
        let (what, hint) = if why.ends_with(NOT_OWNED) {
            (why, "check what is there and remove it")
        } else {
            let hint = "log in as root, or allow the user there to use sudo without a password";
            (format!("the user may not mount file systems: {why}"), hint)
        };
        Err(self.error(what, Some(hint.into()), ExitClass::Environment))
    }

    fn no_shell(&self, outcome: &ProgramOutcome) -> LinkError {
        let hint = "the user there needs a POSIX shell that runs commands given to ssh";
        let why = login_output::explain(&outcome.stdout);
        self.error(why, Some(hint.into()), ExitClass::Environment)
    }

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
        self.error(error.to_string(), error.hint(), error.class())
    }

    fn error(&self, message: String, hint: Option<Hint>, class: ExitClass) -> LinkError {
        let message = format!("{}: {message}", self.label());
        LinkError { message, hint, class, is_transient: false }
    }
}

/// Prefix that runs a command as root.
const AS_ROOT: &str = "$([ \"$(id -u)\" = 0 ] || echo sudo -n)";

const NOT_OWNED: &str = "belongs to another user";

/// A shell condition: the directory belongs to the user, or to root and the user may use sudo.
fn is_own_test(folder: &str) -> String {
    format!("{{ [ ! -L {folder} ] && {{ [ -O {folder} ] || {AS_ROOT} test -O {folder}; }}; }}")
}

/// A shell command that reports a directory of another user.
fn report_not_owned(folder: &str) -> String {
    format!("echo {folder} \"{NOT_OWNED}\" >&2")
}

impl Link for SshLink {
    fn connect(&mut self) -> Result<LinkEnds, LinkError> {
        self.process = None;
        // On a reconnect, the agent must still run; its state would be missing in a new one.
        let again = if self.connected { " --again" } else { "" };
        self.connected = true;
        let (program, folder) = (quote(&self.program), quote(&self.folder));
        let there = format!("{AS_ROOT} {program} agent --folder {folder}{again}");
        let command = self.command(&login_output::separated(&there));
        let (process, output, input) =
            PipedProgram::start(&command).map_err(|error| self.of_program(&error))?;
        self.process = Some(process);
        Ok(LinkEnds { input: Box::new(AfterLogin::new(output)), output: Box::new(input) })
    }

    fn reconnect_timeout(&self) -> Duration {
        self.reconnect_timeout
    }

    fn retry_interval(&self) -> Duration {
        self.retry_interval
    }

    fn restart(&mut self) -> bool {
        if self.restarts_left == 0 {
            return false;
        }
        self.restarts_left -= 1;
        self.connected = false;
        true
    }

    fn last_error_line(&mut self) -> Option<String> {
        let words = self.process.as_mut().map(PipedProgram::last_error_line)?;
        (!words.is_empty()).then(|| format!("{}: {words}", self.label()))
    }

    fn translate_hint(&self, hint: Hint) -> Hint {
        // The address of a board of a lab is known to the lab alone.
        let reached_as = self.name.is_none().then_some(self.address.host.as_str());
        hint.from_host(&self.label(), reached_as)
    }

    fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.address.host.clone())
    }
}

/// The last line of standard error or, if that is empty, of standard output.
fn last_line(outcome: &ProgramOutcome) -> String {
    let last =
        |text: &str| text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned);
    let output = last(&outcome.stderr).or_else(|| last(&outcome.stdout));
    output.unwrap_or_else(|| "no output".to_owned())
}

/// Commands that copy a program of this size from their input. If the connection ends within the
/// copy, what is there remains, because an earlier copy may have to end its agent.
fn copy_script(folder: &str, program: &str, size_bytes: u64) -> String {
    let (folder, copy, program) = (quote(folder), quote(&format!("{program}.new")), quote(program));
    format!(
        "umask 077; mkdir -p {folder} || exit; if ! {}; then {}; exit 1; fi; \
         : >> {folder}/{LOCK} && cat > {copy} && chmod 700 {copy} && \
         {{ [ \"$(wc -c < {copy})\" -eq {size_bytes} ] || \
         {{ echo 'only a part arrived' >&2; false; }}; }} && \
         mv -f {copy} {program} || {{ rm -f {copy}; exit 1; }}; \
         {program} --version || {{ rm -f {program}; exit {DOES_NOT_RUN}; }}",
        is_own_test(&folder),
        report_not_owned(&folder)
    )
}

#[cfg(test)]
mod tests {
    use flashfit_host::SystemRunner;
    use flashfit_host::program::ScriptedRunner;

    use super::*;

    const BUILD: &str = "0.2.0 build 1a";

    /// What comes of a machine with this processor, whose login prints a greeting and whose
    /// flashfit prints `found`.
    fn link(machine: &str, found: &str) -> Result<SshLink, LinkError> {
        let outcome = |stdout: &str| ProgramOutcome {
            code: Some(0),
            stdout: stdout.to_owned(),
            ..ProgramOutcome::default()
        };
        let separated = login_output::separated("").replace("echo; echo ", "");
        let separator = separated.trim_end_matches("; ");
        let runner = ScriptedRunner::new()
            .answer("ssh", outcome(&format!("Welcome\n{separator}\n{machine}\n{found}\n")))
            .answer("sh", outcome(""));
        let address = SshAddress { host: "board".to_owned(), ..SshAddress::default() };
        SshLink::new(&runner, address, Path::new("/own"), BUILD, "token")
    }

    #[test]
    fn only_a_flashfit_of_the_same_source_is_used() {
        let same = format!("flashfit {BUILD}");
        for machine in [std::env::consts::ARCH, "riscv64"] {
            assert_eq!(link(machine, &same).unwrap().program, "flashfit");
        }
        for found in ["flashfit 0.2.0 build 2b", "flashfit 0.2.0", "none"] {
            let copied = link(std::env::consts::ARCH, found).unwrap();
            assert_eq!(copied.program, "/tmp/flashfit-token/flashfit");
            let refused = link("riscv64", found).unwrap_err().message;
            assert!(refused.contains("its architecture is riscv64"), "{refused}");
            let is_named = refused.contains(&format!("{found} is installed there, not {same}"));
            assert_eq!(is_named, found != "none", "{refused}");
        }
    }

    #[test]
    fn a_copy_that_was_cut_short_takes_the_place_of_nothing() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("flashfit-token");
        let program = folder.join("flashfit");
        let version = |word: &str| format!("#!/bin/sh\necho {word}\n# The end of the program\n");
        let copied = |whole: &str, arrived: usize| {
            let script = copy_script(
                folder.to_str().unwrap(),
                program.to_str().unwrap(),
                whole.len() as u64,
            );
            let copy = Program::new("sh").args(["-c", &script]).stdin(&whole[..arrived]);
            SystemRunner::default().run(&copy).unwrap()
        };
        let first = version("first");
        assert_eq!(copied(&first, first.len()).stdout, "first\n");
        let second = version("second");
        let cut = copied(&second, second.len() - 5);
        assert!(!cut.success() && cut.stderr.contains("only a part"), "{cut:?}");
        assert_eq!(std::fs::read_to_string(&program).unwrap(), first);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2, "the program and the lock");
        assert_eq!(copied(&second, second.len()).stdout, "second\n");
    }

    #[test]
    fn the_last_line_prefers_standard_error() {
        let outcome = ProgramOutcome {
            stdout: "x86_64\nnone\n".to_owned(),
            stderr: "sudo: a password is required\n\n".to_owned(),
            ..ProgramOutcome::default()
        };
        assert_eq!(last_line(&outcome), "sudo: a password is required");
        assert_eq!(last_line(&ProgramOutcome { stderr: String::new(), ..outcome }), "none");
    }
}
