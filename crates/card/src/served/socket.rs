//! The abstract socket of a served card, so that any command can read the counters of a card in
//! use.
//!
//! The socket bears the device's name and vanishes with the process (unix(7)). Each side looks
//! whether the other runs as its own user or as root.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_host::{ExitClass, Explain};

use super::control::Control;
use super::protocol::{Answer, Question, RequestKind, line};
use crate::counters::Counters;

const PATIENCE: Duration = Duration::from_secs(5);

/// Why the counters of a served card cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum StatsError {
    /// No process serves that device.
    #[error("{} is not a simulated card that is being served", device.display())]
    NotServed {
        /// The device as given.
        device: PathBuf,
    },
    /// It is served by another user.
    #[error("{} is served by another user", device.display())]
    Foreign {
        /// The device as given.
        device: PathBuf,
    },
    /// It does not answer as it should.
    #[error("the card behind {} does not answer: {source}", device.display())]
    NoAnswer {
        /// The device as given.
        device: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Explain for StatsError {
    fn class(&self) -> ExitClass {
        match self {
            Self::NotServed { .. } => ExitClass::Usage,
            Self::Foreign { .. } => ExitClass::Environment,
            Self::NoAnswer { .. } => ExitClass::Io,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NotServed { .. } => {
                Some("name the /dev/loopN of a card that is running".to_owned())
            }
            Self::Foreign { .. } => Some("run it as that user or as root".to_owned()),
            Self::NoAnswer { .. } => None,
        }
    }
}

fn address(device: &Path) -> std::io::Result<SocketAddr> {
    let node = device.file_name().unwrap_or_default().to_string_lossy();
    SocketAddr::from_abstract_name(format!("flashfit-card-{node}"))
}

/// The counters of the card that is served as `device` (`/dev/loopN`).
///
/// # Errors
/// As [`StatsError`] tells.
pub fn stats(device: &Path) -> Result<Counters, StatsError> {
    let no_answer = |source| StatsError::NoAnswer { device: device.to_owned(), source };
    let not_served = |_| StatsError::NotServed { device: device.to_owned() };
    let stream = address(&device.canonicalize().map_err(not_served)?)
        .and_then(|address| UnixStream::connect_addr(&address))
        .map_err(not_served)?;
    if !is_trusted(&stream) {
        return Err(StatsError::Foreign { device: device.to_owned() });
    }
    ask(stream).map_err(no_answer)
}

fn ask(mut stream: UnixStream) -> std::io::Result<Counters> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(line(&Question { request: RequestKind::Counters }).as_bytes())?;
    let mut text = String::new();
    BufReader::new(stream).read_line(&mut text)?;
    match serde_json::from_str(&text)? {
        Answer::Counters(counters) => Ok(counters),
        other => Err(std::io::Error::other(format!("it answers {other:?}"))),
    }
}

/// Takes the socket's name for a device.
///
/// # Errors
/// When the name is taken.
pub fn listen(device: &Path) -> std::io::Result<UnixListener> {
    UnixListener::bind_addr(&address(device)?)
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
fn is_trusted(stream: &UnixStream) -> bool {
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
    fn the_peer_is_who_it_is() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert_eq!(peer_user(&ours), Some(rustix::process::geteuid().as_raw()));
        assert!(is_trusted(&ours));
    }

    #[test]
    fn a_device_that_is_not_served_is_a_usage_error() {
        for device in ["/dev/null", "/nonexistent"] {
            let error = stats(Path::new(device)).unwrap_err();
            assert!(matches!(error, StatsError::NotServed { .. }), "{error}");
            assert_eq!(error.class(), ExitClass::Usage);
        }
    }
}
