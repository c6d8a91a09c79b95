//! A unix socket with a card behind it.
//!
//! Each client has a thread, and one more for replies where the card has a command queue. The
//! socket can be used by its owner only. One that a killed card has left is replaced; anything
//! else at its path is not.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use flashfit_host::peer;
use flashfit_user_error::{ExitClass, Hint, UserError};
use rustix::fs::Mode;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::export::Export;
use super::incoming::{DropReason, Incoming};
use super::negotiation::negotiate;
use super::transmission::transmit;
use super::way;
use crate::live::LiveCard;

/// How many may wait to be accepted.
const BACKLOG: i32 = 128;
/// More are sent away.
const MOST_CLIENTS: usize = 16;
/// How often a thread that waits for its client looks whether it should.
const READ_WAIT: Duration = Duration::from_secs(1);
/// How long a client may leave a reply unread.
const WRITE_WAIT: Duration = Duration::from_secs(10);
/// After an accept that failed, most likely for want of file descriptors.
const RETRY_WAIT: Duration = Duration::from_millis(50);

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Something else is there.
    #[error("{} exists and is not a socket; it is left alone", path.display())]
    NoSocket { path: PathBuf },
    /// Another process listens there.
    #[error("another process listens on {}", path.display())]
    InUse { path: PathBuf },
    /// It cannot be made.
    #[error("cannot listen on {}: {source}", path.display())]
    Listen { path: PathBuf, source: std::io::Error },
}

impl UserError for SocketError {
    fn class(&self) -> ExitClass {
        match self {
            Self::NoSocket { .. } => ExitClass::Refused,
            Self::InUse { .. } => ExitClass::Usage,
            Self::Listen { .. } => ExitClass::Environment,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NoSocket { .. } | Self::InUse { .. } => Some("choose another path".into()),
            Self::Listen { source, .. } if source.kind() == ErrorKind::NotFound => {
                Some("choose a path in a directory that exists".into())
            }
            Self::Listen { .. } => {
                Some("choose a path of at most 107 bytes in a directory of your own".into())
            }
        }
    }
}

/// A card that is served over NBD.
#[derive(Debug)]
pub struct NbdServer {
    path: PathBuf,
    /// The device and inode number of the socket.
    file: (u64, u64),
    clients: Arc<Clients>,
}

#[derive(Debug, Default)]
struct Clients {
    streams: Mutex<HashMap<u64, UnixStream>>,
    closing: AtomicBool,
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, UnixStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NbdServer {
    /// Serves the card on a socket at `path` and lets it begin.
    ///
    /// # Errors
    /// See [`SocketError`].
    pub fn open(card: &LiveCard, path: &Path) -> Result<Self, SocketError> {
        let failed = |source| SocketError::Listen { path: path.to_owned(), source };
        let path = std::path::absolute(path).map_err(failed)?;
        let failed = |source| SocketError::Listen { path: path.clone(), source };
        let listener = listen(&path)?;
        let file = std::fs::symlink_metadata(&path).map_err(failed)?;
        let clients = Arc::new(Clients::default());
        // One that cannot be measured is not subtracted.
        card.begin(way::measure().unwrap_or_default());
        let (export, theirs) = (Export::new(card), clients.clone());
        let accepting = thread::Builder::new().name("nbd".to_owned());
        accepting.spawn(move || accept_all(&listener, &export, &theirs)).map_err(failed)?;
        Ok(Self { path, file: (file.dev(), file.ino()), clients })
    }

    /// The socket's absolute path.
    pub fn socket(&self) -> &Path {
        &self.path
    }

    /// Sends all clients away and removes the socket; the same as dropping it.
    pub fn close(self) {}
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        self.clients.closing.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts; if nothing listens, there is none to wake.
        drop(UnixStream::connect(&self.path));
        let ours = std::fs::symlink_metadata(&self.path);
        if ours.is_ok_and(|file| (file.dev(), file.ino()) == self.file) {
            // Somebody may have removed it this moment.
            let _ = std::fs::remove_file(&self.path);
        }
        for stream in self.clients.lock().values() {
            // One that has gone needs no more.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn listen(path: &Path) -> Result<UnixListener, SocketError> {
    let failed = |source| SocketError::Listen { path: path.to_owned(), source };
    match bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            remove_stale(path)?;
            bind(path).map_err(failed)
        }
        other => other.map_err(failed),
    }
}

/// Binds a socket that is its owner's alone from the first moment: the kernel gives the file at the
/// path the mode that the socket has when it is bound (`unix_bind_bsd` in `net/unix/af_unix.c`).
/// The umask is left alone, as it is the whole process's.
fn bind(path: &Path) -> std::io::Result<UnixListener> {
    let address = SocketAddrUnix::new(path)?;
    let socket =
        net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// Removes a socket on which nobody listens.
fn remove_stale(path: &Path) -> Result<(), SocketError> {
    let failed = |source| SocketError::Listen { path: path.to_owned(), source };
    let file = std::fs::symlink_metadata(path).map_err(failed)?;
    if !file.file_type().is_socket() {
        return Err(SocketError::NoSocket { path: path.to_owned() });
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(failed)
        }
        Ok(_) => Err(SocketError::InUse { path: path.to_owned() }),
        Err(error) => Err(failed(error)),
    }
}

fn accept_all(listener: &UnixListener, export: &Export, clients: &Arc<Clients>) {
    for (number, stream) in (0_u64..).zip(listener.incoming()) {
        if clients.closing.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else {
            thread::sleep(RETRY_WAIT);
            continue;
        };
        // One that is not served finds its connection closed.
        if let (true, Ok(own)) = (peer::is_trusted(&stream), stream.try_clone()) {
            let mut streams = clients.lock();
            if streams.len() < MOST_CLIENTS {
                streams.insert(number, own);
                drop(streams);
                let (export, clients) = (export.clone(), clients.clone());
                start(number, stream, export, clients);
            }
        }
    }
}

fn start(number: u64, stream: UnixStream, export: Export, clients: Arc<Clients>) {
    let theirs = clients.clone();
    let started = thread::Builder::new().name("nbd client".to_owned()).spawn(move || {
        // However it ends, this client is no longer one.
        let _leaving = Leaving { number, clients: theirs };
        // Why it is dropped concerns the client alone, and there is no way to tell it.
        let _ = serve(&stream, &export);
        let _ = stream.shutdown(std::net::Shutdown::Both);
    });
    if started.is_err() {
        clients.lock().remove(&number);
    }
}

fn serve(stream: &UnixStream, export: &Export) -> Result<(), DropReason> {
    stream.set_read_timeout(Some(READ_WAIT))?;
    stream.set_write_timeout(Some(WRITE_WAIT))?;
    serve_client(stream, stream.try_clone()?, export)
}

/// Serves one client over any pair of streams.
///
/// # Errors
/// See [`DropReason`], also when the client ends in good order.
pub fn serve_client(
    input: impl std::io::Read,
    mut output: impl std::io::Write + Send + 'static,
    export: &Export,
) -> Result<(), DropReason> {
    let mut input = Incoming::new(input);
    negotiate(&mut input, &mut output, export)?;
    transmit(&mut input, output, export)
}

struct Leaving {
    number: u64,
    clients: Arc<Clients>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.clients.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_socket_is_made_without_the_umask() {
        let umask = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            status.lines().find(|line| line.starts_with("Umask:")).unwrap().to_owned()
        };
        let (before, is_done) = (umask(), AtomicBool::new(false));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        thread::scope(|scope| {
            let watching = scope.spawn(|| {
                while !is_done.load(Ordering::SeqCst) {
                    assert_eq!(umask(), before);
                }
            });
            for _ in 0..2000 {
                let listener = bind(&path).unwrap();
                assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
                drop(listener);
                std::fs::remove_file(&path).unwrap();
            }
            is_done.store(true, Ordering::SeqCst);
            watching.join().unwrap();
        });
    }
}
