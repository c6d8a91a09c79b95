//! Identifies the user at the other end of a Unix socket (`SO_PEERCRED`, unix(7)), as of when the
//! peer connected or listened.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// The peer's effective user ID; `None` if the kernel does not report it.
#[expect(unsafe_code, reason = "the standard library's peer_cred is not stable")]
pub fn user(stream: &UnixStream) -> Option<u32> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut size = libc::socklen_t::try_from(size_of::<libc::ucred>()).expect("a few bytes");
    // SAFETY: the option fills a `ucred`, and `size` is the size of `peer`.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            std::ptr::from_mut(&mut peer).cast(),
            &raw mut size,
        )
    };
    (result == 0).then_some(peer.uid)
}

/// Whether the peer runs as the same user or as root.
pub fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    user(stream).is_some_and(|user| user == own || user == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_is_identified() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert_eq!(user(&ours), Some(rustix::process::geteuid().as_raw()));
        assert!(is_trusted(&ours));
    }
}
