//! The server's end of the control socket, so that any command can ask a card in use.
//!
//! [`flashfit_card_client::address`] says where it is. What a killed card left is removed by the
//! next, under a lock on the directory.

use std::fs::{DirBuilder, File};
use std::io::{BufReader, Error, ErrorKind, Read, Result};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flashfit_card_client::address::{PATIENCE, directories, name};
use flashfit_host::peer;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use crate::control::ControlServer;

const RETRY: Duration = Duration::from_millis(10);
/// Clients at the same time; more are sent away.
const MOST_CLIENTS: usize = 16;

/// A control socket; its file is removed when dropped.
#[derive(Debug)]
pub struct ControlSocket {
    listener: Arc<UnixListener>,
    path: PathBuf,
    file: (u64, u64),
}

/// Makes the socket for a device node or an NBD socket.
///
/// # Errors
/// When there is no directory for it, or a card that was served there before does not end.
pub fn listen(place: &Path) -> Result<ControlSocket> {
    let user = rustix::process::geteuid().as_raw();
    let mut last = Error::from(ErrorKind::NotFound);
    for directory in directories(user) {
        match listen_in(&directory, place) {
            Ok(socket) => return Ok(socket),
            Err(error) => {
                last = Error::new(error.kind(), format!("{}: {error}", directory.display()));
            }
        }
    }
    Err(last)
}

fn listen_in(directory: &Path, place: &Path) -> Result<ControlSocket> {
    let user = rustix::process::geteuid().as_raw();
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = File::from(rustix::fs::open(directory, flags, Mode::empty())?);
    let found = open.metadata()?;
    if found.uid() != user || found.mode() & 0o7777 != 0o700 {
        let why = "it is not this user's alone (mode 0700)";
        return Err(Error::new(ErrorKind::PermissionDenied, why));
    }
    let path = directory.join(name(place)?);
    let begin = Instant::now();
    loop {
        match bind(&open, directory, &path) {
            // The process of a card that was served there lets go of the device before it ends.
            Err(error) if is_busy(&error) && begin.elapsed() < PATIENCE => {
                std::thread::sleep(RETRY);
            }
            result => return result,
        }
    }
}

fn is_busy(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::WouldBlock)
}

/// Binds the socket, and removes those on which nobody listens any more.
fn bind(open: &File, directory: &Path, path: &Path) -> Result<ControlSocket> {
    // Between bind(2) and listen(2) a new socket looks like one that was left.
    flock(open, FlockOperation::NonBlockingLockExclusive)?;
    for entry in std::fs::read_dir(directory)?.flatten() {
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        if is_socket && is_refused(&entry.path()) {
            // One that stays is in nobody's way.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    let bound = UnixListener::bind(path).and_then(|listener| {
        let file = std::fs::symlink_metadata(path)?;
        Ok(ControlSocket {
            listener: Arc::new(listener),
            path: path.to_owned(),
            file: (file.dev(), file.ino()),
        })
    });
    flock(open, FlockOperation::Unlock)?;
    bound
}

fn is_refused(socket: &Path) -> bool {
    UnixStream::connect(socket).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

impl ControlSocket {
    /// What to answer on.
    pub fn listener(&self) -> Arc<UnixListener> {
        Arc::clone(&self.listener)
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let found = std::fs::symlink_metadata(&self.path);
        if found.is_ok_and(|file| (file.dev(), file.ino()) == self.file) {
            // What stays is removed by the next card.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Answers whoever connects, each in a thread; ends with the process.
pub fn answer(listener: &UnixListener, control: &ControlServer) {
    let clients = Arc::new(());
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Most likely there are no file descriptors left.
            std::thread::sleep(RETRY);
            continue;
        };
        let usable = peer::is_trusted(&stream)
            && Arc::strong_count(&clients) <= MOST_CLIENTS
            && stream.set_write_timeout(Some(PATIENCE)).is_ok();
        if usable {
            let (control, counted) = (control.clone(), Arc::clone(&clients));
            // A client that no thread is left for finds its connection closed.
            let _ = std::thread::Builder::new().name("card control".to_owned()).spawn(move || {
                control.answer_all(BufReader::new(Patient::new(&stream)), &stream);
                drop(counted);
            });
        }
    }
}

/// Reads for [`PATIENCE`] in all, however slowly a client sends.
struct Patient<'a> {
    stream: &'a UnixStream,
    waited: Duration,
}

impl<'a> Patient<'a> {
    fn new(stream: &'a UnixStream) -> Self {
        Self { stream, waited: Duration::ZERO }
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        let left = PATIENCE.saturating_sub(self.waited);
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let began = Instant::now();
        let result = self.stream.read(bytes);
        self.waited += began.elapsed();
        result
    }
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;
