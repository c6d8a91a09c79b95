//! An agent that outlives its connections: it listens on a socket, and who was cut off comes back.
//! It goes on meanwhile with what it was asked for, and ends when nobody has come for a while.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flashfit_host::interrupt::Interrupt;
use flashfit_host::peer;

use super::folder::AgentFolder;
use super::receiver::{ConnectionEvent, inbox};
use super::sender::MessageSender;
use super::{AgentInfo, work};
use crate::protocol::{FromAgent, ToAgent, line};

/// A trial that is under way is undone first.
const END_WAIT: Duration = Duration::from_secs(30);

/// After an accept that failed, most likely for want of file descriptors.
const RETRY_WAIT: Duration = Duration::from_millis(50);
/// How long a client may leave what it is sent unread.
const WRITE_WAIT: Duration = Duration::from_secs(30);
/// Connections at the same time; more have to wait. One is in use, others are about to end.
const MOST_CONNECTIONS: usize = 8;

/// How long an agent waits for somebody to come back.
pub type AgentLinger = Duration;

/// Listens in `folder` until it is time to end. What is the agent's own there is removed then.
///
/// # Errors
/// When the socket cannot be made.
pub fn listen(
    folder: AgentFolder,
    linger: AgentLinger,
    about: &AgentInfo,
    interrupt: &Interrupt,
) -> std::io::Result<()> {
    let listener = UnixListener::bind(folder.socket())?;
    let outlet = MessageSender::new();
    let (slot, inbox, go_on) = inbox(&outlet, interrupt, Some(linger));
    let accepting = Arc::clone(&outlet);
    std::thread::spawn(move || accept_all(&listener, &accepting, &slot));
    let done = work(inbox, &outlet, go_on, about, interrupt);
    // Who comes now finds nobody, rather than an agent that ends.
    folder.remove_own();
    // Who waits for the end may use the folder from now on.
    outlet.close();
    done
}

fn accept_all(listener: &UnixListener, outlet: &Arc<MessageSender>, slot: &ConnectionEvent) {
    let open = Arc::new(());
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            std::thread::sleep(RETRY_WAIT);
            continue;
        };
        while Arc::strong_count(&open) > MOST_CONNECTIONS {
            // Each new connection has closed the one before, so this is over soon.
            std::thread::sleep(RETRY_WAIT);
        }
        let usable =
            peer::is_trusted(&stream) && stream.set_write_timeout(Some(WRITE_WAIT)).is_ok();
        let Ok(output) = stream.try_clone() else { continue };
        if usable {
            let number = outlet.connect(Box::new(Closing(output)));
            let (slot, counted) = (slot.clone(), Arc::clone(&open));
            let started = std::thread::Builder::new().spawn(move || {
                slot.read(stream, number);
                drop(counted);
            });
            if started.is_err() {
                outlet.disconnect(number);
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;
    use crate::agent::socket_of;

    /// Sends what it is given, and keeps the connection.
    fn client(folder: &Path, sent: &[u8]) -> UnixStream {
        let mut stream = UnixStream::connect(socket_of(folder)).unwrap();
        stream.set_read_timeout(Some(END_WAIT)).unwrap();
        // The agent may end the connection before all is sent.
        let _ = stream.write_all(sent);
        stream
    }

    #[test]
    fn hostile_clients_neither_stop_nor_block_the_agent() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("agent");
        let folder = AgentFolder::take(&path).unwrap();
        let interrupt = Interrupt::new();
        let agent = std::thread::spawn(move || {
            let about = AgentInfo {
                version: "0".to_owned(),
                cards: Box::new(|_| panic!("nobody said a proper hello")),
            };
            listen(folder, Duration::from_secs(60), &about, &interrupt)
        });
        while !socket_of(&path).exists() {
            std::thread::sleep(RETRY_WAIT);
        }
        let too_long = vec![b'x'; crate::protocol::LONGEST_LINE_BYTES + (1 << 16)];
        let sent: [&[u8]; 5] = [b"", b"{\"end\"", b"\0\xff\xfe\n\n{}\n", b"[[[[[[\n", &too_long];
        let mut kept: Vec<UnixStream> = sent.iter().map(|sent| client(&path, sent)).collect();
        kept.extend((0..50).map(|_| client(&path, b"{")));
        let greeting =
            r#"{"ask":{"id":1,"request":{"hello":{"protocol":0,"version":"9","catalogue":{}}}}}"#;
        let proper = client(&path, format!("{greeting}\n").as_bytes());
        let answers: Vec<String> =
            BufReader::new(&proper).lines().take(1).map(Result::unwrap).collect();
        assert!(answers[0].contains("the agent is flashfit 0"), "{answers:?}");
        end(&path.join("agent.socket")).unwrap();
        agent.join().unwrap().unwrap();
        assert!(!path.exists(), "the agent removes its folder");
    }
}
