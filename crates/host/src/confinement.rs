//! Confines a command of the user to one mounted file system, and ends it with all its children.
//!
//! The command is process 1 of a PID namespace (pid_namespaces(7)), so the kernel ends whatever it
//! started when it ends or is killed, even processes of other sessions. In its mount namespace,
//! everything outside of the file system is read-only, and the only devices are `/dev/null`,
//! `zero`, `full`, `random` and `urandom` (mount_setattr(2), Linux 5.12). It has no capability to
//! change that, and gains none (`no_new_privs`). Limits: network and sockets stay open, and what
//! other users may read it may read as well. Needs root.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID and SETUID (capabilities(7)).
const KEPT_CAPABILITIES: [i32; 7] = [0, 1, 3, 4, 5, 6, 7];
const MOST_CAPABILITIES: i32 = 64;
/// The exit code after a signal, as a shell reports it.
const SIGNAL_EXIT: i32 = 128;

/// Where a command may write, and as whom it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// Where the only writable file system is mounted.
    pub mount_point: PathBuf,
    /// The working directory, below it.
    pub folder: PathBuf,
    /// User and group; `None` for this process's.
    pub user: Option<(u32, u32)>,
}

/// All that the new process needs, made before the fork, after which nothing may be allocated.
struct Prepared {
    mount_point: CString,
    folder: CString,
    devices: Vec<CString>,
    user: Option<(u32, u32)>,
}

/// `struct mount_attr` of mount_setattr(2).
#[repr(C)]
#[derive(Clone, Copy)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

const READ_ONLY: u64 = 0x1;
const NO_DEVICES: u64 = 0x4;

impl Confinement {
    /// Confines the command when it is started.
    ///
    /// # Errors
    /// For a path with a zero byte.
    #[expect(unsafe_code, reason = "Command::pre_exec is unsafe")]
    pub(crate) fn apply(&self, command: &mut Command) -> io::Result<()> {
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
        let devices = DEVICES.iter().map(Path::new).filter(|device| device.exists());
        let prepared = Prepared {
            mount_point: text(&self.mount_point)?,
            folder: text(&self.folder)?,
            devices: devices.map(text).collect::<Result<_, _>>()?,
            user: self.user,
        };
        // SAFETY: between fork and exec, only system calls are made, and nothing is allocated.
        unsafe {
            command.pre_exec(move || prepared.enter());
        }
        Ok(())
    }
}

impl Prepared {
    /// Returns in the process that becomes the command; the one that was started waits for it.
    fn enter(&self) -> io::Result<()> {
        enter_process_namespace()?;
        self.confine_mounts()?;
        drop_capabilities()?;
        self.become_user()?;
        end_with_parent()
    }

    #[expect(unsafe_code, reason = "system calls that rustix does not have")]
    fn confine_mounts(&self) -> io::Result<()> {
        let none = std::ptr::null();
        let mount = |from: &CString, to: &CString, kind: *const libc::c_char, flags| {
            // SAFETY: the strings end with a zero byte and live until the call returns.
            checked(unsafe {
                libc::mount(from.as_ptr(), to.as_ptr(), kind, flags, std::ptr::null())
            })
        };
        // SAFETY: no pointers.
        checked(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
        // SAFETY: constant strings.
        checked(unsafe {
            let flags = libc::MS_REC | libc::MS_PRIVATE;
            libc::mount(none, c"/".as_ptr(), none, flags, std::ptr::null())
        })?;
        // In that of the machine, `/proc/PID/root` leads around the confinement.
        // SAFETY: constant strings.
        checked(unsafe {
            let kind = c"proc".as_ptr();
            libc::mount(kind, c"/proc".as_ptr(), kind, 0, std::ptr::null())
        })?;
        for device in &self.devices {
            mount(device, device, none, libc::MS_BIND)?;
        }
        let closed = READ_ONLY | NO_DEVICES;
        set_attributes(c"/".as_ptr(), libc::AT_RECURSIVE, closed, 0)?;
        for device in &self.devices {
            set_attributes(device.as_ptr(), 0, 0, closed)?;
        }
        set_attributes(self.mount_point.as_ptr(), 0, 0, READ_ONLY)?;
        // SAFETY: the string ends with a zero byte.
        checked(unsafe { libc::chdir(self.folder.as_ptr()) })
    }

    #[expect(unsafe_code, reason = "system calls")]
    fn become_user(&self) -> io::Result<()> {
        let Some((user, group)) = self.user else { return Ok(()) };
        // SAFETY: an empty list of groups, and numbers.
        unsafe {
            checked(libc::setgroups(0, std::ptr::null()))?;
            checked(libc::setgid(group))?;
            checked(libc::setuid(user))
        }
    }
}

pub(crate) fn checked(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[expect(unsafe_code, reason = "the C library may lack mount_setattr")]
fn set_attributes(
    path: *const libc::c_char,
    flags: libc::c_int,
    set: u64,
    clear: u64,
) -> io::Result<()> {
    let attributes = MountAttributes { set, clear, propagation: 0, user_namespace: 0 };
    let (attributes, size) = (&raw const attributes, size_of::<MountAttributes>());
    // SAFETY: path and structure live until the call returns, and the size is that of the latter.
    let result = unsafe {
        libc::syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, path, flags, attributes, size)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[expect(unsafe_code, reason = "prctl")]
fn drop_capabilities() -> io::Result<()> {
    for capability in (0..MOST_CAPABILITIES).filter(|one| !KEPT_CAPABILITIES.contains(one)) {
        // SAFETY: numbers only. Kernels have fewer capabilities than there are numbers.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
    // SAFETY: numbers only.
    checked(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
}

/// A change of user resets this, so it comes last.
#[expect(unsafe_code, reason = "prctl")]
pub(crate) fn end_with_parent() -> io::Result<()> {
    // SAFETY: numbers only.
    checked(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })
}

/// Returns in process 1 of a new PID namespace. The process that was started stays outside, ends
/// the other at a SIGTERM, and then ends as the other did.
#[expect(unsafe_code, reason = "clone, and signals of a process without threads")]
fn enter_process_namespace() -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::unshare(libc::CLONE_NEWPID) })?;
    match forked()? {
        0 => end_with_parent(),
        child => wait_for(child, || {}),
    }
}

/// Forks between fork and exec: 0 in the child, its number in the parent.
#[expect(unsafe_code, reason = "clone")]
pub(crate) fn forked() -> io::Result<libc::pid_t> {
    // SAFETY: no pointers. Without CLONE_VM this is a fork; the handlers of the C library's own
    // fork would run code that is not allowed between fork and exec.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    match child {
        0.. => Ok(child as libc::pid_t),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits for a child, calls `in_the_end`, and ends as the child did. A SIGTERM kills the child.
#[expect(unsafe_code, reason = "waits and signals without the standard library's state")]
pub(crate) fn wait_for(child: libc::pid_t, in_the_end: fn()) -> ! {
    close_from_3();
    // SAFETY: system calls on local variables; the process ends here.
    unsafe {
        let mut signals = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, libc::SIGTERM);
        libc::sigaddset(&raw mut signals, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut());
        let mut status = 0;
        loop {
            match libc::waitpid(-1, &raw mut status, libc::WNOHANG) {
                ended if ended == child => break,
                // An orphan, where this process gets them.
                1.. => {}
                _ => {
                    let signal = libc::sigwaitinfo(&raw const signals, std::ptr::null_mut());
                    if signal == libc::SIGTERM {
                        libc::kill(child, libc::SIGKILL);
                    }
                }
            }
        }
        in_the_end();
        if libc::WIFEXITED(status) {
            libc::_exit(libc::WEXITSTATUS(status));
        }
        let signal = libc::WTERMSIG(status);
        // A core dump would be a copy of the memory of flashfit, and its handlers would return.
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::signal(signal, libc::SIG_DFL);
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const signals, std::ptr::null_mut());
        libc::kill(libc::getpid(), signal);
        libc::_exit(SIGNAL_EXIT + signal)
    }
}

/// The pipe on which a failed start is reported must not stay open in a process that waits.
#[expect(unsafe_code, reason = "close")]
fn close_from_3() {
    /// Linux before 5.9 has no close_range.
    const MOST: libc::c_int = 65_536;
    // SAFETY: the process uses none of its files any more.
    unsafe {
        if libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) != 0 {
            for number in 3..MOST {
                libc::close(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::program::{Program, ProgramError, Runner, SystemRunner};

    fn shell(folder: &Path, command: &str, user: Option<(u32, u32)>) -> Program {
        let mount_point = folder.to_owned();
        let folder = folder.join("inside");
        let confinement = Confinement { mount_point, folder, user };
        Program::new("sh").args(["-c", command]).confine(confinement)
    }

    /// A mounted file system with a directory, or `None` without root.
    fn mounted() -> Option<(tempfile::TempDir, Unmounts)> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mount = Program::new("mount").args(["-t", "tmpfs", "none"]).arg(folder.path());
        SystemRunner::default().run_checked(&mount).ok()?;
        let unmounts = Unmounts(folder.path().to_owned());
        std::fs::create_dir(folder.path().join("inside")).unwrap();
        Some((folder, unmounts))
    }

    struct Unmounts(PathBuf);

    impl Drop for Unmounts {
        fn drop(&mut self) {
            let _ = SystemRunner::default().run(&Program::new("umount").arg(&self.0));
        }
    }

    fn error_of(program: &Program) -> String {
        let outcome = SystemRunner::default().run(program).unwrap();
        assert!(!outcome.success(), "{outcome:?}");
        outcome.stderr
    }

    #[test]
    fn a_command_writes_only_to_its_file_system() {
        let Some((folder, _unmounts)) = mounted() else { return };
        let inside = folder.path();
        let fine =
            shell(inside, "echo x > file && cat file /dev/null && echo $$ > /dev/zero", None);
        let outcome = SystemRunner::default().run(&fine).unwrap();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "x\n"), "{outcome:?}");
        assert!(inside.join("inside/file").exists());
        let outside = tempfile::tempdir().unwrap();
        let write = format!("echo x > {}/file", outside.path().display());
        assert!(error_of(&shell(inside, &write, None)).contains("Read-only"));
        error_of(&shell(inside, "mount -o remount,rw /", None));
        let node = "mknod node b 7 0 || exit 1; head -c 1 node";
        error_of(&shell(inside, node, None));
        error_of(&shell(inside, "echo 3 > /proc/sys/vm/drop_caches", None));
        error_of(&shell(inside, "head -c 1 /dev/loop-control", None));
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_command_runs_as_the_given_user() {
        let Some((folder, _unmounts)) = mounted() else { return };
        let program = shell(folder.path(), "id -u; id -G", Some((65534, 65534)));
        let outcome = SystemRunner::default().run(&program).unwrap();
        assert_eq!(outcome.stdout, "65534\n65534\n", "{outcome:?}");
    }

    #[test]
    fn exit_codes_and_signals_are_those_of_the_command() {
        let Some((folder, _unmounts)) = mounted() else { return };
        let run = |command: &str| {
            SystemRunner::default().run(&shell(folder.path(), command, None)).unwrap()
        };
        assert_eq!(run("exit 7").code, Some(7));
        // As process 1, only SIGKILL from outside of its namespace ends it.
        assert_eq!(run("sh -c 'kill -TERM $$'; exit $?").code, Some(128 + 15));
    }

    fn is_running(marker: &str) -> bool {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes.filter_map(|one| std::fs::read(one.path().join("cmdline")).ok()).any(|line| {
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.contains(&marker.as_bytes())
        })
    }

    #[test]
    fn children_end_with_the_command_and_at_the_time_limit() {
        let Some((folder, _unmounts)) = mounted() else { return };
        let marker = format!("{}.75", 84_000 + std::process::id() % 1000);
        let left = format!("setsid sleep {marker} & sleep 0.1; exit 3");
        let outcome = SystemRunner::default().run(&shell(folder.path(), &left, None)).unwrap();
        assert_eq!(outcome.code, Some(3), "{outcome:?}");
        assert!(!is_running(&marker));
        let hangs = format!("trap '' TERM; setsid sleep {marker} & sleep {marker}");
        let program = shell(folder.path(), &hangs, None).timeout(Duration::from_millis(300));
        let began = Instant::now();
        let error = SystemRunner::default().run(&program).unwrap_err();
        assert!(matches!(error, ProgramError::TimedOut { .. }), "{error}");
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        assert!(!is_running(&marker));
    }

    #[test]
    fn endless_output_is_cut_off_at_its_start() {
        let Some((folder, _unmounts)) = mounted() else { return };
        let program = shell(folder.path(), "head -c 30000000 /dev/zero; echo end; exit 1", None);
        let outcome = SystemRunner::default().run(&program.keep_last(1000)).unwrap();
        assert!(outcome.stdout.len() <= 1000 && outcome.stdout.ends_with("end\n"));
    }
}
