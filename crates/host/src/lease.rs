//! Checks whether any other process has a file open: the kernel grants a write lease only to the
//! sole opener (fcntl(2), `F_SETLEASE`).
//!
//! Limits: works for regular files owned by the caller, or with `CAP_LEASE`, on file systems that
//! support leases. Since Linux 5.3, descriptors opened with `O_PATH` do not count.

use std::fs::File;
use std::os::fd::AsRawFd;

/// Whether this is the only open file description of the file; `None` if that is unknown.
pub fn is_only_opener(file: &File) -> Option<bool> {
    match set(file, libc::F_WRLCK) {
        Ok(()) => {
            // Fails only without a lease, in which case there is nothing to release.
            let _ = set(file, libc::F_UNLCK);
            Some(true)
        }
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Some(false),
        Err(_) => None,
    }
}

#[expect(unsafe_code, reason = "rustix has no F_SETLEASE")]
fn set(file: &File, kind: libc::c_int) -> std::io::Result<()> {
    // SAFETY: the descriptor is open, and the argument is a number.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_opener_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "x").unwrap();
        let open = || File::options().read(true).write(true).open(&path).unwrap();
        let file = open();
        let lacking = || flashfit_test_support::TestNeed::Kernel.missing("no leases here");
        if flashfit_test_support::skip(is_only_opener(&file).is_none().then(lacking)) {
            return;
        }
        assert_eq!(is_only_opener(&file), Some(true));
        assert_eq!(is_only_opener(&file.try_clone().unwrap()), Some(true), "the same description");
        let other = open();
        assert_eq!(is_only_opener(&file), Some(false));
        drop(other);
        let reader = File::open(&path).unwrap();
        assert_eq!(is_only_opener(&file), Some(false));
        drop(reader);
        assert_eq!(is_only_opener(&file), Some(true));
    }
}
