//! Checks whether any other process has a file open: the kernel grants a write lease only to the
//! sole opener (fcntl(2), `F_SETLEASE`).
//!
//! Limits: works for regular files owned by the caller, or with `CAP_LEASE`, on file systems that
//! support leases. Since Linux 5.3, descriptors opened with `O_PATH` do not count; on older
//! kernels, and on NFS and SMB, which refuse leases for other reasons too, a refused lease means
//! nothing.

use std::fs::File;
use std::os::fd::AsRawFd;

/// Magic numbers of NFS, CIFS and SMB 2 (linux/magic.h).
const NETWORK_FILE_SYSTEMS: [u32; 3] = [0x6969, 0xff53_4d42, 0xfe53_4d42];
/// The first kernel on which `O_PATH` descriptors do not count.
const LEAST_KERNEL: (u32, u32) = (5, 3);

/// Whether this is the only open file description of the file; `None` if that is unknown.
pub fn is_only_opener(file: &File) -> Option<bool> {
    match set(file, libc::F_WRLCK) {
        Ok(()) => {
            // Fails only without a lease, in which case there is nothing to release.
            let _ = set(file, libc::F_UNLCK);
            Some(true)
        }
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {
            is_conclusive(file).then_some(false)
        }
        Err(_) => None,
    }
}

/// Whether only another opener can be the reason for a refused lease.
fn is_conclusive(file: &File) -> bool {
    let is_local = rustix::fs::fstatfs(file).is_ok_and(|found| {
        // The type of the field differs between architectures; the numbers have 32 bits.
        !NETWORK_FILE_SYSTEMS.contains(&(found.f_type as u32))
    });
    let release = rustix::system::uname();
    is_local && version(&release.release().to_string_lossy()).is_some_and(|it| it >= LEAST_KERNEL)
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
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
    fn versions_are_read_from_releases() {
        assert_eq!(version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(version("5.10-rc1"), Some((5, 10)));
        assert_eq!(version("custom"), None);
    }

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
