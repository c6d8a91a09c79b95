//! Mounts by mount(2), without the program mount(8), which would take longer than the kernel.

use std::io;
use std::path::Path;

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

/// Unmounts, waiting a moment for other users such as the kernel's own.
///
/// # Errors
/// The kernel's.
pub fn unmount_at(point: &Path) -> io::Result<()> {
    const TRIES: u32 = 50;
    for _ in 0..TRIES {
        match unmount(point, UnmountFlags::empty()) {
            Err(rustix::io::Errno::BUSY) => std::thread::sleep(std::time::Duration::from_millis(2)),
            result => return result.map_err(Into::into),
        }
    }
    unmount(point, UnmountFlags::DETACH).map_err(Into::into)
}

/// Options that are flags of mount(2).
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
