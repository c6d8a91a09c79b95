//! A loop device made again, so that its next user finds none of what a card's queue was set to.
//!
//! The queue's attributes outlive an attachment, and one of them cannot be set back: once
//! `discard_max_bytes` is 0, Linux 6.18 refuses any other value. A stale `write through` would keep
//! the flushes of the next user from its file. Source: loop(4), `LOOP_CTL_REMOVE`, `LOOP_CTL_ADD`.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

const LOOP_CTL_ADD: libc::c_ulong = 0x4C80;
const LOOP_CTL_REMOVE: libc::c_ulong = 0x4C81;
/// The kernel detaches a moment after the last user has gone, and udev may look in once more.
const PATIENCE: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Removes the device and adds it again; refused by the kernel while it has a user or a file.
///
/// # Errors
/// When it still has one after two seconds, or for want of rights.
pub fn renew(node: &Path) -> std::io::Result<()> {
    let name = node.file_name().unwrap_or_default().to_string_lossy();
    let number = name.strip_prefix("loop").and_then(|number| number.parse::<i32>().ok());
    let number = number.ok_or(std::io::ErrorKind::InvalidInput)?;
    let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match tell(&control, LOOP_CTL_REMOVE, number) {
            Ok(()) => return tell(&control, LOOP_CTL_ADD, number),
            Err(error) if error.kind() != std::io::ErrorKind::ResourceBusy => return Err(error),
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

#[expect(unsafe_code, reason = "the loop ioctls have no safe wrapper")]
fn tell(control: &File, request: libc::c_ulong, number: i32) -> std::io::Result<()> {
    // SAFETY: both requests take a number, no pointer; `request as _` only adapts to the C
    // library's type for it.
    let result =
        unsafe { libc::ioctl(control.as_raw_fd(), request as _, libc::c_long::from(number)) };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_loop_device_is_left_alone() {
        for node in ["/dev/null", "/dev/loop", "/dev/loopx", "/"] {
            let error = renew(Path::new(node)).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{node}");
        }
    }
}
