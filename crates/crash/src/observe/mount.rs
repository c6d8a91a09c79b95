//! Mounts by mount(2), without the program mount(8), which would take longer than the kernel.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Mounts `node` at `point` with options as mount(8) takes them.
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
    mount(node, point, kind, flags, data.as_c_str()).map_err(Into::into)
}

/// Unmounts. It waits for other users: a child that another thread has just started has copies of
/// this process's open files until its program begins.
///
/// # Errors
/// The kernel's.
pub fn unmount_at(point: &Path) -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(30);
    let deadline = Instant::now() + PATIENCE;
    loop {
        match unmount(point, UnmountFlags::empty()) {
            Err(rustix::io::Errno::BUSY) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            result => return result.map_err(Into::into),
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
