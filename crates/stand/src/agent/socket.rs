//! An agent that outlives its connections: it listens on a socket, and who was cut off comes back.
//! It goes on meanwhile with what it was asked for, and ends when nobody has come for a while.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flashfit_host::interrupt::Interrupt;

use super::inbox::inbox;
use super::outlet::Outlet;
use super::{About, work};
use crate::protocol::{FromAgent, ToAgent, line};

/// A trial that is under way is undone first.
const END_WAIT: Duration = Duration::from_secs(30);

/// How long an agent waits for somebody to come back.
pub type Linger = Duration;

/// Listens on `path` until it is time to end. The socket is removed then.
///
/// # Errors
/// When the socket cannot be made: another agent may be there.
pub fn listen(
    path: &Path,
    linger: Linger,
    about: &About,
    interrupt: &Interrupt,
) -> std::io::Result<()> {
    let listener = UnixListener::bind(path)?;
    let outlet = Outlet::new();
    let (slot, inbox, go_on) = inbox(&outlet, interrupt, Some(linger));
    let accepting = Arc::clone(&outlet);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let Ok(output) = stream.try_clone() else { continue };
            let number = accepting.connect(Box::new(Closing(output)));
            let slot = slot.clone();
            std::thread::spawn(move || slot.read(stream, number));
        }
    });
    let done = work(inbox, &outlet, go_on, about, interrupt);
    // Who comes now finds nobody, rather than an agent that ends.
    let _ = std::fs::remove_file(path);
    done
}

/// A connection that is closed when another takes its place.
struct Closing(UnixStream);

impl Write for Closing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

/// Ends the agent that listens on `path`, if there is one, and waits until it has undone what it
/// was at.
///
/// # Errors
/// When it does not end.
pub fn end(path: &Path) -> std::io::Result<()> {
    let Ok(mut stream) = UnixStream::connect(path) else { return Ok(()) };
    stream.set_read_timeout(Some(END_WAIT))?;
    stream.write_all(line(&ToAgent::End {}).as_bytes())?;
    // It closes the connection at its end.
    std::io::copy(&mut stream, &mut std::io::sink()).map(drop)
}

/// What an agent says last, as a line.
pub fn ended() -> String {
    line(&FromAgent::Ended {})
}

/// Carries a pair of pipes to the agent that listens on `path`, until either side ends.
///
/// # Errors
/// When nobody listens there.
pub fn attach(
    path: &Path,
    mut input: impl Read + Send + 'static,
    mut output: impl Write,
) -> std::io::Result<()> {
    let mut stream = UnixStream::connect(path)?;
    let mut sending = stream.try_clone()?;
    std::thread::spawn(move || {
        // Either side's end is the end.
        let _ = std::io::copy(&mut input, &mut sending);
        let _ = sending.shutdown(std::net::Shutdown::Both);
    });
    let mut buffer = [0; 64 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return Ok(()),
            Ok(read) => {
                if output.write_all(&buffer[..read]).and_then(|()| output.flush()).is_err() {
                    return Ok(());
                }
            }
        }
    }
}
