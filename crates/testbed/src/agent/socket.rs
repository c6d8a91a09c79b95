//! An agent that listens on a socket and outlives its connections: it continues its request after a
//! lost connection and ends if no client reconnects for some time.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flashfit_host::interrupt::Interrupt;
use flashfit_host::peer;

use super::folder::AgentFolder;
use super::receiver::{ConnectionReader, channels};
use super::sender::MessageSender;
use super::{AgentInfo, work};
use crate::protocol::{FromAgent, ToAgent, line};

/// Includes cleaning up a running trial.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// Delay after a failed accept, most likely for lack of file descriptors.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// How long a client may leave messages unread.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Concurrent connections; others wait. One is current, the others are closing.
const MAX_CONNECTIONS: usize = 8;

/// How long an agent without a connection waits for a client.
pub type AgentLinger = Duration;

/// Listens in `folder` until it is time to end, then removes the agent's files there.
///
/// # Errors
/// If the socket cannot be created.
pub fn listen(
    folder: AgentFolder,
    linger: AgentLinger,
    about: &AgentInfo,
    interrupt: &Interrupt,
) -> std::io::Result<()> {
    let listener = UnixListener::bind(folder.socket())?;
    let sender = MessageSender::new();
    let (reader, receiver, gate) = channels(&sender, interrupt, Some(linger));
    let accepting = Arc::clone(&sender);
    std::thread::spawn(move || accept_all(&listener, &accepting, &reader));
    let done = work(receiver, &sender, gate, about, interrupt);
    // A client that connects now finds no socket, rather than an agent that is ending.
    folder.remove_own();
    // From here on, a process that waits for the end may use the directory.
    sender.close();
    done
}

fn accept_all(listener: &UnixListener, sender: &Arc<MessageSender>, reader: &ConnectionReader) {
    let open = Arc::new(());
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            std::thread::sleep(RETRY_DELAY);
            continue;
        };
        while Arc::strong_count(&open) > MAX_CONNECTIONS {
            // Each new connection closes the previous one, so this does not take long.
            std::thread::sleep(RETRY_DELAY);
        }
        let usable =
            peer::is_trusted(&stream) && stream.set_write_timeout(Some(WRITE_TIMEOUT)).is_ok();
        let Ok(output) = stream.try_clone() else { continue };
        if usable {
            let number = sender.connect(Box::new(Closing(output)));
            let (reader, counted) = (reader.clone(), Arc::clone(&open));
            let started = std::thread::Builder::new().spawn(move || {
                reader.read(stream, number);
                drop(counted);
            });
            if started.is_err() {
                sender.disconnect(number);
            }
        }
    }
}

/// Closes the connection on drop, when another replaces it.
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

/// Ends the agent that listens on `path`, if there is one, and waits until it has cleaned up.
///
/// # Errors
/// If it does not end.
pub fn end(path: &Path) -> std::io::Result<()> {
    let Ok(mut stream) = UnixStream::connect(path) else { return Ok(()) };
    stream.set_read_timeout(Some(END_TIMEOUT))?;
    stream.write_all(line(&ToAgent::End {}).as_bytes())?;
    // The agent closes the connection when it ends.
    std::io::copy(&mut stream, &mut std::io::sink()).map(drop)
}

/// The last message of an agent, serialized.
pub fn ended() -> String {
    line(&FromAgent::Ended {})
}

/// Connects a pair of pipes to the agent that listens on `path`, until either side closes.
///
/// # Errors
/// If no agent listens there.
pub fn attach(
    path: &Path,
    mut input: impl Read + Send + 'static,
    mut output: impl Write,
) -> std::io::Result<()> {
    let mut stream = UnixStream::connect(path)?;
    let mut sending = stream.try_clone()?;
    std::thread::spawn(move || {
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

    use flashfit_test_support::{AttemptKind, attempted};

    use super::*;
    use crate::agent::socket_of;

    /// Sends `sent` and returns the open connection.
    fn client(folder: &Path, sent: &[u8]) -> UnixStream {
        let mut stream = UnixStream::connect(socket_of(folder)).unwrap();
        stream.set_read_timeout(Some(END_TIMEOUT)).unwrap();
        // The agent may close the connection before all is sent.
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
                cards: Box::new(|_| panic!("no client sent a valid hello")),
            };
            listen(folder, Duration::from_secs(60), &about, &interrupt)
        });
        while !socket_of(&path).exists() {
            std::thread::sleep(RETRY_DELAY);
        }
        let too_long = vec![b'x'; crate::protocol::MAX_LINE_BYTES + (1 << 16)];
        let sent: [&[u8]; 5] = [b"", b"{\"end\"", b"\0\xff\xfe\n\n{}\n", b"[[[[[[\n", &too_long];
        let mut kept: Vec<UnixStream> = sent.iter().map(|sent| client(&path, sent)).collect();
        attempted(AttemptKind::HostileClient, sent.len() + 50);
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
