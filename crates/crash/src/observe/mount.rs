//! Mounts by mount(2), without the program mount(8), which would take longer than the kernel.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use flashfit_host::mount_users;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::CrashError;

/// How long other users of a mount are waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// And other users of a device, of which there should be none.
const MOUNT_PATIENCE: Duration = Duration::from_secs(5);

/// Waits until no mounted file system has the device. Where a program has copied the mount into
/// another namespace (unshare(1)), the next mount would show what that one has in memory, and not
/// what the device contains now.
///
/// # Errors
/// When one still has it.
pub fn await_free(node: &Path) -> Result<(), CrashError> {
    let deadline = Instant::now() + PATIENCE;
    let exclusive = i32::try_from(OFlags::EXCL.bits()).expect("flags of open(2) are an int");
    loop {
        match OpenOptions::new().read(true).custom_flags(exclusive).open(node) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::ResourceBusy => {
                return Err(CrashError::Device { device: node.to_owned(), source: error });
            }
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            Err(_) => {
                let (device, seconds) = (node.to_owned(), PATIENCE.as_secs());
                return Err(CrashError::MountedElsewhere { device, seconds });
            }
        }
    }
}

/// Mounts `node` at `point` with options as mount(8) takes them. It waits for who has the device
/// for itself for a moment: one that looks for partitions, or that takes it for a free loop device.
/// Otherwise that would be taken for what the file system says.
///
/// # Errors
/// The kernel's.
pub fn mount_with(node: &Path, kind: &str, point: &Path, options: &[String]) -> io::Result<()> {
    let mut flags = MountFlags::empty();
    let mut data = Vec::new();
    for word in options.iter().flat_map(|option| option.split(',')) {
        match flag(word) {
            Some(flag) => flags |= flag,
            None => data.push(word),
        }
    }
    let data = std::ffi::CString::new(data.join(",")).map_err(io::Error::other)?;
    let deadline = Instant::now() + MOUNT_PATIENCE;
    loop {
        match mount(node, point, kind, flags, data.as_c_str()) {
            Err(Errno::BUSY) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            ended => return ended.map_err(Into::into),
        }
    }
}

/// Unmounts. It waits for other users: a child that another thread has just started has copies of
/// this process's open files until its program begins.
///
/// # Errors
/// The kernel's, with who uses it.
pub fn unmount_at(point: &Path) -> Result<(), CrashError> {
    unmount_within(point, PATIENCE)
}

fn unmount_within(point: &Path, patience: Duration) -> Result<(), CrashError> {
    let deadline = Instant::now() + patience;
    loop {
        match unmount(point, UnmountFlags::empty()) {
            Ok(()) => return Ok(()),
            Err(Errno::BUSY) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(Errno::BUSY) => {
                return Err(CrashError::Busy {
                    point: point.to_owned(),
                    seconds: patience.as_secs(),
                    users: mount_users::users(point),
                });
            }
            Err(error) => {
                let (point, source) = (point.to_owned(), error.into());
                return Err(CrashError::Unmount { point, source });
            }
        }
    }
}

fn flag(word: &str) -> Option<MountFlags> {
    Some(match word {
        "defaults" | "rw" => MountFlags::empty(),
        "ro" => MountFlags::RDONLY,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        "strictatime" => MountFlags::STRICTATIME,
        "lazytime" => MountFlags::LAZYTIME,
        "sync" => MountFlags::SYNCHRONOUS,
        "dirsync" => MountFlags::DIRSYNC,
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use flashfit_host::{Program, Runner, SystemRunner};
    use flashfit_user_error::{ExitClass, UserError};

    use super::*;

    #[test]
    fn who_keeps_a_mount_busy_is_named_with_how_to_end_it() {
        flashfit_test_support::isolated_if_root(|| {
            let place = tempfile::tempdir().unwrap();
            let mount = Program::new("mount").args(["-t", "tmpfs", "none"]).arg(place.path());
            if SystemRunner::default().run_checked(&mount).is_err() {
                return;
            }
            let mut sleeper = std::process::Command::new("sleep")
                .arg("1000")
                .current_dir(place.path())
                .spawn()
                .unwrap();
            let error = unmount_within(place.path(), Duration::from_millis(50)).unwrap_err();
            sleeper.kill().unwrap();
            sleeper.wait().unwrap();
            let user = format!("sleep (process {}: working directory)", sleeper.id());
            assert!(error.to_string().ends_with(&user), "{error}");
            assert_eq!(error.class(), ExitClass::Io);
            unmount_at(place.path()).unwrap();
            let error = unmount_at(place.path()).unwrap_err();
            assert!(matches!(error, CrashError::Unmount { .. }), "{error}");
        });
    }
}
