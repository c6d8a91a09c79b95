//! Ends all that a program started when it ends, processes of other sessions too.
//!
//! The process that was started stays as the reaper of orphans (`PR_SET_CHILD_SUBREAPER`, prctl(2))
//! and waits for the program, which runs as its child; whatever loses its parent becomes a child of
//! the reaper. Once the program has ended, or at a SIGTERM, all children of the reaper are killed.
//! A SIGTERM is also what it gets if the caller dies. So nothing is killed that the program did not
//! start. Unlike in a PID namespace ([`crate::Confinement`]), `/proc` and process IDs are the
//! machine's.
//!
//! Limits: if the reaper itself is killed, or the kernel lists no children
//! (`CONFIG_PROC_CHILDREN`), only the process group of the program is ended, by those who wait for
//! the reaper.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::confinement::{checked, end_with_parent, forked, wait_for};

/// Has room for the numbers of some hundred processes; the list is read again until it is empty.
const LIST_BYTES: usize = 4096;

/// Ends the descendants of the command when it ends.
#[expect(unsafe_code, reason = "Command::pre_exec is unsafe")]
pub(crate) fn end_with(command: &mut Command) {
    // SAFETY: between fork and exec, only system calls are made, and nothing is allocated.
    unsafe {
        command.pre_exec(enter);
    }
}

/// Returns in the process that becomes the command.
#[expect(unsafe_code, reason = "prctl")]
fn enter() -> io::Result<()> {
    // SAFETY: numbers only. A SIGKILL would leave the descendants.
    unsafe {
        checked(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))?;
        checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM))?;
    }
    match forked()? {
        0 => end_with_parent(),
        child => wait_for(child, end_children),
    }
}

/// Kills the children of this process until it has none. Only system calls, as after a fork.
#[expect(unsafe_code, reason = "waits without the standard library's state")]
fn end_children() {
    // SAFETY: no pointers.
    let has_reaped = |flags| unsafe { libc::waitpid(-1, std::ptr::null_mut(), flags) } > 0;
    while kill_listed() {
        // Whoever was killed ends, and its children become this process's.
        has_reaped(0);
        while has_reaped(libc::WNOHANG) {}
    }
}

/// Kills the children that the kernel lists; whether there was one.
#[expect(unsafe_code, reason = "reads and signals without the standard library's state")]
fn kill_listed() -> bool {
    let mut text = [0_u8; LIST_BYTES];
    // SAFETY: a constant string, and a buffer with its length.
    let length = unsafe {
        let list = libc::open(c"/proc/thread-self/children".as_ptr(), libc::O_RDONLY);
        let length = libc::read(list, text.as_mut_ptr().cast(), text.len());
        libc::close(list);
        length
    };
    let mut has_killed = false;
    let (mut number, length) = (0, usize::try_from(length).unwrap_or(0));
    // A number that the end of the buffer cuts off has no space after it.
    for byte in &text[..length] {
        match byte {
            b'0'..=b'9' => number = number * 10 + libc::pid_t::from(byte - b'0'),
            _ if number > 0 => {
                // SAFETY: numbers only. A child that was not waited for keeps its number.
                has_killed |= unsafe { libc::kill(number, libc::SIGKILL) } == 0;
                number = 0;
            }
            _ => {}
        }
    }
    has_killed
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::time::{Duration, Instant};

    use rustix::process::Resource;

    use crate::interrupt::Interrupt;
    use crate::piped::PipedProgram;
    use crate::program::{Program, ProgramError, Runner, SystemRunner};

    fn shell(command: &str) -> Program {
        Program::new("sh").args(["-c", command]).end_descendants()
    }

    fn is_running(pid: &str) -> bool {
        std::path::Path::new("/proc").join(pid.trim()).exists()
    }

    /// Leaves a process in another session, whose parent has ended; prints its number.
    const LEAVE: &str = "setsid sh -c 'sleep 1000 & echo $!'";

    #[test]
    fn what_left_the_process_group_ends_with_the_program() {
        let outcome = SystemRunner::default().run(&shell(&format!("{LEAVE}; exit 7"))).unwrap();
        assert_eq!(outcome.code, Some(7));
        assert!(outcome.elapsed < Duration::from_secs(20), "{:?}", outcome.elapsed);
        assert!(!is_running(&outcome.stdout), "{outcome:?}");
        let many = format!("for i in 0 1 2 3 4 5 6 7 8 9; do {LEAVE}; done");
        let outcome = SystemRunner::default().run(&shell(&many)).unwrap();
        assert_eq!(outcome.stdout.lines().count(), 10, "{outcome:?}");
        assert!(!outcome.stdout.lines().any(is_running), "{outcome:?}");
    }

    #[test]
    fn exit_codes_and_signals_are_those_of_the_program() {
        let run = |command: &str| SystemRunner::default().run(&shell(command)).unwrap();
        assert_eq!(run("exit 3").code, Some(3));
        assert_eq!(run("kill -9 $$").signal, Some(9));
        assert_eq!(run("kill -TERM $$").signal, Some(15));
        let outcome = SystemRunner::default().run(&shell("cat").stdin("text")).unwrap();
        assert_eq!(outcome.stdout, "text");
        let missing = Program::new("/dev/null").end_descendants();
        let error = SystemRunner::default().run(&missing).unwrap_err();
        assert!(matches!(error, ProgramError::Start { .. } | ProgramError::Missing { .. }));
    }

    #[test]
    fn a_signal_is_reported_although_this_process_handles_it() {
        let _interrupt = Interrupt::on_signals().unwrap();
        let run = |command: &str| SystemRunner::default().run(&shell(command)).unwrap();
        // The standard library handles SIGSEGV, the interrupt SIGHUP.
        for signal in [libc::SIGSEGV, libc::SIGHUP, libc::SIGTERM, libc::SIGABRT] {
            let outcome = run(&format!("ulimit -c 0; kill -{signal} $$"));
            assert_eq!((outcome.code, outcome.signal), (None, Some(signal)), "{outcome:?}");
        }
    }

    /// A core dump of the reaper would be the memory of this process.
    #[test]
    #[expect(unsafe_code, reason = "Command::pre_exec is unsafe")]
    fn the_reaper_leaves_no_core_dump() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -c 0; kill -ABRT $$"]).current_dir(folder.path());
        // SAFETY: only a system call between fork and exec.
        unsafe {
            command.pre_exec(|| {
                let mut limit = rustix::process::getrlimit(Resource::Core);
                limit.current = limit.maximum;
                Ok(rustix::process::setrlimit(Resource::Core, limit)?)
            });
        }
        super::end_with(&mut command);
        let status = command.status().unwrap();
        assert_eq!((status.signal(), status.core_dumped()), (Some(libc::SIGABRT), false));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_time_limit_and_a_kill_end_all_of_them() {
        let pids = tempfile::NamedTempFile::new().unwrap();
        let hangs = format!("{LEAVE} >{}; sleep 1000", pids.path().display());
        let limit = Duration::from_secs(2);
        let error = SystemRunner::default().run(&shell(&hangs).timeout(limit)).unwrap_err();
        assert!(matches!(error, ProgramError::TimedOut { .. }), "{error}");
        let pid = std::fs::read_to_string(pids.path()).unwrap();
        assert!(!pid.is_empty() && !is_running(&pid), "{pid}");

        let program = shell(&format!("{LEAVE}; exec >&-; sleep 1000"));
        let (mut piped, mut output, _input) = PipedProgram::start(&program).unwrap();
        let mut first = [0; 20];
        let length = output.read(&mut first).unwrap();
        let pid = String::from_utf8_lossy(&first[..length]).into_owned();
        assert!(is_running(&pid), "{pid}");
        let start = Instant::now();
        assert!(!piped.kill_group().unwrap().success());
        assert!(!is_running(&pid), "{pid}");
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
}
