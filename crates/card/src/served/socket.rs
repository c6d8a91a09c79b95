//! The abstract socket of a served card, so that any command can ask a card in use.
//!
//! The socket bears the device's name, or the number of the file that the card's NBD socket is, and
//! vanishes with the process (unix(7)). Each side looks whether the other runs as its own user or
//! as root.

use std::io::{BufReader, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use super::control::Control;

/// How long one side waits for a line of the other.
pub const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(10);

/// The name for a device node or a socket, whatever path it is reached by.
fn address(place: &Path) -> std::io::Result<SocketAddr> {
    let place = place.canonicalize()?;
    let file = place.metadata()?;
    let name = if file.file_type().is_socket() {
        format!("{}-{}", file.dev(), file.ino())
    } else {
        place.file_name().unwrap_or_default().to_string_lossy().into_owned()
    };
    SocketAddr::from_abstract_name(format!("flashfit-card-{name}"))
}

/// Connects to the card that is served at a device node or a socket.
///
/// # Errors
/// When no card is.
pub fn connect(place: &Path) -> std::io::Result<UnixStream> {
    UnixStream::connect_addr(&address(place)?)
}

/// Takes the name for a device node or a socket. Whoever has the place also has the name, but for a
/// card that was served there before: its process lets go of the device a moment before it ends.
///
/// # Errors
/// When the name stays taken.
pub fn listen(place: &Path) -> std::io::Result<UnixListener> {
    let address = address(place)?;
    let begin = Instant::now();
    loop {
        match UnixListener::bind_addr(&address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && begin.elapsed() < PATIENCE => {
                std::thread::sleep(RETRY);
            }
            result => return result,
        }
    }
}

/// Answers whoever connects, each in a thread; ends with the process.
pub fn answer(listener: &UnixListener, control: &Control) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        let control = control.clone();
        let usable = is_trusted(&stream)
            && stream.set_read_timeout(Some(PATIENCE)).is_ok()
            && stream.set_write_timeout(Some(PATIENCE)).is_ok();
        if usable {
            std::thread::spawn(move || control.answer_all(BufReader::new(&stream), &stream));
        }
    }
}

/// Whether the other side runs as this user or as root.
pub fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    peer_user(stream).is_some_and(|user| user == own || user == 0)
}

#[expect(unsafe_code, reason = "the standard library's peer_cred is not stable")]
fn peer_user(stream: &UnixStream) -> Option<u32> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut size = libc::socklen_t::try_from(size_of::<libc::ucred>()).expect("a few bytes");
    // SAFETY: the option fills a `ucred`, and `size` says how large ours is.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_about_to_be_given_up_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join(format!("place-{}", std::process::id()));
        std::fs::write(&place, "").unwrap();
        let before = listen(&place).unwrap();
        let waiting = std::thread::spawn(move || listen(&place));
        std::thread::sleep(3 * RETRY);
        assert!(!waiting.is_finished());
        drop(before);
        assert!(waiting.join().unwrap().is_ok());
    }

    #[test]
    fn the_peer_is_who_it_is() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert_eq!(peer_user(&ours), Some(rustix::process::geteuid().as_raw()));
        assert!(is_trusted(&ours));
    }
}
