//! Runs programs on this machine.
//!
//! A program runs in its own process group, which is killed as a whole when its time limit expires,
//! when the user interrupts, or when flashfit itself dies. Its output is captured.

use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::descendants;
use crate::exchange::{ExchangeLimits, Stopped, exchange};
use crate::interrupt::Interrupt;
use crate::program::{Program, ProgramError, ProgramOutcome, Runner};
use crate::program_path::{find, for_children};

/// A [`Runner`] that runs programs on this machine.
#[derive(Debug, Clone, Default)]
pub struct SystemRunner {
    interrupt: Interrupt,
}

impl SystemRunner {
    /// Programs are terminated when `interrupt` is raised.
    pub fn new(interrupt: Interrupt) -> Self {
        Self { interrupt }
    }

    /// The interrupt that terminates the programs.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }
}

impl Runner for SystemRunner {
    fn run(&self, program: &Program) -> Result<ProgramOutcome, ProgramError> {
        let command_line = program.command_line();
        let start_error =
            |source| ProgramError::Start { command_line: command_line.clone(), source };
        let path = find(&program.name)
            .ok_or_else(|| ProgramError::Missing { name: program.name.clone() })?;
        let mut command = Command::new(path);
        command
            .args(program.actual_arguments())
            .envs(for_children().map(|path| ("PATH", path)))
            .envs(program.env.iter().map(|(k, v)| (k, v)))
            .stdin(if program.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .process_group(0);
        if program.shows_output {
            command.stdout(std::io::stderr()).stderr(Stdio::inherit());
        } else {
            command.env("LC_ALL", "C").stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let cgroups = open_cgroups(&program.cgroup_procs).map_err(start_error)?;
        prepare_child(&mut command, cgroups.iter().map(AsRawFd::as_raw_fd).collect());
        if let Some(confinement) = &program.confinement {
            confinement.apply(&mut command).map_err(start_error)?;
        }
        if program.ends_descendants {
            descendants::end_with(&mut command);
        }
        let started = Instant::now();
        let child = command.spawn().map_err(start_error)?;
        let input = program.stdin.as_deref();
        let limits = ExchangeLimits {
            time: program.timeout,
            kept_bytes: program.kept_bytes,
            ends_group: program.ends_descendants,
        };
        let ended = exchange(child, input, &self.interrupt, limits).map_err(start_error)?;
        match ended.stopped {
            None => {}
            Some(Stopped::Interrupted) => {
                let during = format!("`{command_line}`");
                return Err(ProgramError::Interrupted { during });
            }
            Some(Stopped::TimedOut) => {
                return Err(ProgramError::TimedOut { command_line, limit: program.timeout });
            }
        }
        let text = |bytes: Vec<u8>| {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            program.handed.as_ref().map_or(text.clone(), |handed| handed.named(&text))
        };
        Ok(ProgramOutcome {
            code: ended.status.code(),
            signal: ended.status.signal(),
            stdout: text(ended.stdout),
            stderr: text(ended.stderr),
            elapsed: started.elapsed(),
            command_line,
        })
    }

    fn wait(&self, time: Duration) -> Result<(), ProgramError> {
        if self.interrupt.sleep(time) {
            return Err(ProgramError::Interrupted { during: "an idle time".to_owned() });
        }
        Ok(())
    }
}

fn open_cgroups(paths: &[PathBuf]) -> std::io::Result<Vec<std::fs::File>> {
    paths.iter().map(|path| std::fs::OpenOptions::new().write(true).open(path)).collect()
}

/// Makes the child die with its parent and join the control groups before exec.
#[expect(unsafe_code, reason = "Command::pre_exec is unsafe")]
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

#[cfg(test)]
mod tests {
    use super::*;
    use flashfit_user_error::{ExitClass, UserError};

    #[test]
    fn output_and_exit_code_are_kept() {
        let program = Program::new("sh").args(["-c", "echo out; echo err >&2; exit 7"]);
        let outcome = SystemRunner::default().run(&program).unwrap();
        assert_eq!((outcome.code, outcome.success()), (Some(7), false));
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("out\n", "err\n"));
    }

    #[test]
    fn a_handed_file_is_opened_although_its_name_leads_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("name");
        std::fs::write(&path, "first").unwrap();
        let open = std::sync::Arc::new(std::fs::File::open(&path).unwrap());
        std::fs::rename(&path, folder.path().join("aside")).unwrap();
        std::fs::write(&path, "other").unwrap();
        let run = |program: &Program| SystemRunner::default().run(program).unwrap();
        let cat = Program::new("cat").arg(&path);
        assert_eq!(run(&cat).stdout, "other");
        let handed = cat.hand(&path, open);
        assert_eq!(handed.command_line(), format!("cat {}", path.display()));
        assert_eq!(run(&handed).stdout, "first");
        // Messages have the name as well.
        let shown = run(&Program { name: "echo".into(), ..handed });
        assert_eq!(shown.stdout, format!("{}\n", path.display()));
    }

    #[test]
    fn shown_output_is_not_captured() {
        let program = Program::new("sh").args(["-c", "exit 3"]).show_output();
        let outcome = SystemRunner::default().run(&program).unwrap();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(3), ""));
    }

    #[test]
    fn an_unknown_program_is_missing() {
        let outcome = SystemRunner::default().run(&Program::new("flashfit-no-such-program"));
        assert!(matches!(outcome, Err(ProgramError::Missing { .. })));
    }

    #[test]
    fn a_timeout_kills_the_whole_process_group() {
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
        let runner = SystemRunner::new(interrupt);
        let error = runner.run(&Program::new("sleep").arg("60")).unwrap_err();
        assert_eq!(error.class(), ExitClass::Interrupted);
        let error = runner.wait(Duration::from_secs(60)).unwrap_err();
        assert_eq!(error.class(), ExitClass::Interrupted);
    }

    #[test]
    fn a_grandchild_that_keeps_the_output_open_does_not_block() {
        let marker = format!("{}.25", 85_000 + std::process::id() % 1000);
        // The first grandchild is in the process group and gets killed; the second has left it.
        for (start, is_killed) in [("", true), ("setsid ", false)] {
            let seconds = if is_killed { marker.as_str() } else { "20" };
            let script = format!("echo kept; {start}sleep {seconds} & exit 4");
            let program = Program::new("sh").args(["-c", &script]);
            let start = Instant::now();
            let outcome = SystemRunner::default().run(&program).unwrap();
            assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
            assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(4), "kept\n"));
        }
        let left = SystemRunner::default()
            .run(&Program::new("sh").args(["-c", "ps -e -o args= | cat"]))
            .unwrap();
        assert!(!left.stdout.lines().any(|line| line == format!("sleep {marker}")));
    }

    #[test]
    fn a_long_input_is_written_while_output_is_read() {
        let text = "0123456789abcdef\n".repeat(100_000);
        let outcome = SystemRunner::default().run(&Program::new("cat").stdin(text.clone()));
        assert!(outcome.unwrap().stdout == text);
        let ignores_input =
            Program::new("sleep").arg("60").stdin(text).timeout(Duration::from_millis(100));
        let error = SystemRunner::default().run(&ignores_input).unwrap_err();
        assert!(matches!(error, ProgramError::TimedOut { .. }));
    }

    #[test]
    fn the_processor_sleeps_while_a_program_runs() {
        let switches = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("voluntary_ctxt")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        };
        let before = switches();
        SystemRunner::default().run(&Program::new("sleep").arg("0.5")).unwrap();
        let wakeups = switches() - before;
        assert!(wakeups < 40, "{wakeups} wakeups");
    }
}
