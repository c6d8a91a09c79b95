//! What this machine and the program in the virtual machine say to each other: a length of four
//! bytes, then a message (`postcard`).
//!
//! Every operation waits for a word from outside, so that at most one operation can be under way
//! that the ledger outside does not have.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Instant;

use flashfit_host::waiting::is_readable;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::observe::MountedView;
use crate::workload::{CrashWorkload, Operation};

/// A longer message is damaged.
const MOST_BYTES: usize = 64 << 20;
const HEAD_BYTES: usize = 4;

/// How the guest mounts its disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestMount {
    pub kind: String,
    pub options: Vec<String>,
}

/// What the guest is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuestRequest {
    /// Load the modules of these file systems.
    Prepare {
        kinds: Vec<String>,
        /// Whether the kernel may read ahead, which depends on time.
        reads_ahead: bool,
    },
    /// Mount and work until the power goes; every operation waits for [`GuestRequest::Go`].
    Work {
        mount: GuestMount,
        workload: CrashWorkload,
        seed: u64,
    },
    /// Mount and do these operations, each with its number, as [`GuestRequest::Work`] does.
    Operate {
        mount: GuestMount,
        operations: Vec<(u32, Operation)>,
    },
    Go,
    /// After work that ended: unmount.
    Unmount,
    /// Mount, look at everything, write, unmount. `input` is for a checking program.
    Check {
        mount: GuestMount,
        workload: CrashWorkload,
        input: String,
    },
}

/// What the guest answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuestReply {
    Prepared,
    /// The work begins.
    Mounted,
    NotMounted(String),
    /// An operation returned.
    Done {
        number: u32,
        inode: Option<u64>,
        error: Option<i32>,
    },
    /// A program acknowledged something.
    Line(String),
    /// All work is done.
    WorkEnded,
    Unmounted,
    Checked {
        view: Box<MountedView>,
        mount_ns: u64,
    },
    /// Something other than the file system failed.
    Failed(String),
    /// The program of the work failed.
    WorkFailed(String),
}

/// Sends a message.
///
/// # Errors
/// Those of the stream.
pub fn send<T: Serialize>(output: &mut impl Write, message: &T) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    let framed = [&length.to_le_bytes()[..], &bytes].concat();
    output.write_all(&framed)?;
    output.flush()
}

/// Waits for a message; `None` when the other side has ended.
///
/// # Errors
/// Those of the stream, and for a damaged message.
pub fn receive<T: DeserializeOwned>(input: &mut impl Read) -> io::Result<Option<T>> {
    let mut head = [0; HEAD_BYTES];
    match input.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let mut bytes = vec![0; length(head)?];
    input.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes).map(Some).map_err(io::Error::other)
}

fn length(head: [u8; HEAD_BYTES]) -> io::Result<usize> {
    let length = u32::from_le_bytes(head) as usize;
    if length > MOST_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message without an end"));
    }
    Ok(length)
}

/// Receives messages until a moment; a message that has arrived in part is kept.
#[derive(Debug)]
pub struct FrameReader<S> {
    stream: S,
    bytes: Vec<u8>,
}

/// What came until a moment.
#[derive(Debug)]
pub enum Arrival<T> {
    Message(T),
    Nothing,
    /// The other side has ended.
    End,
}

impl<S: Read + AsFd> FrameReader<S> {
    pub fn new(stream: S) -> Self {
        Self { stream, bytes: Vec::new() }
    }

    /// Waits for a message until `until`.
    ///
    /// # Errors
    /// Those of the stream, and for a damaged message.
    pub fn until<T: DeserializeOwned>(&mut self, until: Instant) -> io::Result<Arrival<T>> {
        loop {
            if let Some(message) = self.next()? {
                return Ok(Arrival::Message(message));
            }
            if Instant::now() >= until {
                return Ok(Arrival::Nothing);
            }
            if !is_readable(self.stream.as_fd(), until)? {
                continue;
            }
            let mut buffer = [0; 64 << 10];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(Arrival::End),
                Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::ConnectionReset => return Ok(Arrival::End),
                    _ => return Err(error),
                },
            }
        }
    }

    fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(head) = self.bytes.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let end = HEAD_BYTES + length(*head)?;
        if self.bytes.len() < end {
            return Ok(None);
        }
        let message =
            postcard::from_bytes(&self.bytes[HEAD_BYTES..end]).map_err(io::Error::other)?;
        self.bytes.drain(..end);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn messages_arrive_in_parts_and_until_a_moment() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let mut reader = FrameReader::new(there);
        let soon = || Instant::now() + Duration::from_millis(20);
        assert!(matches!(reader.until::<GuestReply>(soon()).unwrap(), Arrival::Nothing));
        let reply = GuestReply::Done { number: 3, inode: Some(12), error: None };
        let mut bytes = Vec::new();
        send(&mut bytes, &reply).unwrap();
        send(&mut bytes, &GuestReply::Unmounted).unwrap();
        here.write_all(&bytes[..6]).unwrap();
        assert!(matches!(reader.until::<GuestReply>(soon()).unwrap(), Arrival::Nothing));
        here.write_all(&bytes[6..]).unwrap();
        for expected in [reply, GuestReply::Unmounted] {
            let arrived = reader.until::<GuestReply>(soon()).unwrap();
            assert!(matches!(arrived, Arrival::Message(message) if message == expected));
        }
        here.write_all(&[0xff; 8]).unwrap();
        assert!(reader.until::<GuestReply>(soon()).is_err());
        drop(here);
        let mut ended = FrameReader::new(UnixStream::pair().unwrap().0);
        assert!(matches!(ended.until::<GuestReply>(soon()).unwrap(), Arrival::End));
    }

    #[test]
    fn a_stream_ends_between_messages_only() {
        let mut bytes = Vec::new();
        send(&mut bytes, &GuestRequest::Go).unwrap();
        let mut input = &bytes[..];
        assert_eq!(receive(&mut input).unwrap(), Some(GuestRequest::Go));
        assert_eq!(receive::<GuestRequest>(&mut input).unwrap(), None);
        assert!(receive::<GuestRequest>(&mut &bytes[..4]).is_err());
    }
}
