//! The QEMU process: starts and ends it, and ensures that it never outlives this process.
//!
//! QEMU has its own process group, so an interrupt from the terminal does not end it. The kernel
//! kills it when this process ends (`PR_SET_PDEATHSIG`). Because that is tied to the *thread* that
//! started it, one thread stays alive as long as QEMU.

use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use flashfit_host::waiting;

const GRACE: Duration = Duration::from_secs(3);

/// A running QEMU, killed on drop.
#[derive(Debug)]
pub(crate) struct Qemu {
    child: Arc<Mutex<Child>>,
    id: u32,
    /// Keeps the starting thread alive; dropping the sender ends it.
    starter_thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Qemu {
    /// Starts `program` with its output redirected to the file `log`.
    pub(crate) fn start(program: &Path, args: &[String], log: &Path) -> io::Result<Self> {
        let said = File::create(log)?;
        let mut command = Command::new(program);
        command.args(args).env("LC_ALL", "C").stdin(Stdio::null()).process_group(0);
        command.stdout(said.try_clone()?).stderr(said);
        die_with_parent(&mut command);
        let (end, ended): (Sender<()>, Receiver<()>) = channel();
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new().name("qemu".into()).spawn(move || {
            let started = command.spawn().map(|child| Arc::new(Mutex::new(child)));
            let is_running = started.is_ok();
            if sender.send(started).is_ok() && is_running {
                // Returns when the other end is dropped.
                let _ = ended.recv();
            }
        })?;
        let child = receiver.recv().map_err(io::Error::other)??;
        let id = lock(&child).id();
        Ok(Self { child, id, starter_thread: Some((end, thread)) })
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// The exit status, if it has ended.
    pub(crate) fn exit_status(&self) -> Option<ExitStatus> {
        lock(&self.child).try_wait().ok().flatten()
    }

    /// Terminates QEMU, which lets it finish its writes, and kills it if it does not end.
    pub(crate) fn end(&self) {
        {
            let mut child = lock(&self.child);
            if matches!(child.try_wait(), Ok(None)) {
                let process = rustix::process::Pid::from_child(&child);
                let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
                // The result does not matter: it is killed next.
                let _ = waiting::child(&mut child, None, GRACE);
            }
        }
        self.kill();
    }

    /// Kills QEMU and waits for its end.
    pub(crate) fn kill(&self) {
        let mut child = lock(&self.child);
        if matches!(child.try_wait(), Ok(None)) {
            let _ = child.kill();
        }
        let _ = child.wait();
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.kill();
        if let Some((end, thread)) = self.starter_thread.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

pub(crate) fn describe_exit(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "it powered off".to_owned(),
        (Some(code), _) => format!("QEMU ended with {code}"),
        (None, Some(signal)) => format!("QEMU was ended by signal {signal}"),
        (None, None) => "QEMU ended".to_owned(),
    }
}

fn lock(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(unsafe_code, reason = "pre_exec is unsafe by nature")]
fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: between fork and exec only async-signal-safe calls are made: prctl and getppid.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have ended before the signal was set up.
            if u32::try_from(libc::getppid()) != Ok(parent) {
                return Err(io::Error::from_raw_os_error(libc::ECHILD));
            }
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(script: &str, log: &Path) -> io::Result<Qemu> {
        Qemu::start(Path::new("/bin/sh"), &["-c".to_owned(), script.to_owned()], log)
    }

    #[test]
    fn qemu_survives_the_end_of_the_calling_thread() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let inside = log.clone();
        let started = std::thread::spawn(move || started("exec sleep 60", &inside)).join();
        let qemu = started.unwrap().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert!(qemu.exit_status().is_none());
        let process = format!("/proc/{}", qemu.id());
        drop(qemu);
        assert!(!Path::new(&process).exists());
    }

    #[test]
    fn exit_status_and_output_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let qemu = started("echo no such machine >&2; exit 3", &log).unwrap();
        while qemu.exit_status().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(describe_exit(qemu.exit_status().unwrap()), "QEMU ended with 3");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "no such machine\n");
        let qemu = started("exec sleep 60", &log).unwrap();
        qemu.end();
        assert_eq!(describe_exit(qemu.exit_status().unwrap()), "QEMU was ended by signal 15");
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        assert!(Qemu::start(Path::new("/nowhere/qemu"), &[], &log).is_err());
    }
}
