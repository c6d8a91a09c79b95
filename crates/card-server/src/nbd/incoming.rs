//! What comes from a client, with limits on how long it may take.
//!
//! The reader is one whose reads end with an error when nothing came for a while (`SO_RCVTIMEO`),
//! so that the limits are looked at also when nothing comes.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::time::{Duration, Instant};

/// Why a client is served no longer.
#[derive(Debug, thiserror::Error)]
pub enum DropReason {
    /// It disconnected, or announced that it does.
    #[error("the client has gone")]
    Gone,
    /// It takes too long.
    #[error("the client stopped in the middle of {0}")]
    Stopped(&'static str),
    /// It does not speak the protocol.
    #[error("the client speaks nonsense: {0}")]
    Nonsense(&'static str),
    /// It cannot be read from or written to.
    #[error("the client cannot be reached: {0}")]
    Io(#[from] std::io::Error),
}

/// A client's bytes.
#[derive(Debug)]
pub struct Incoming<R> {
    reader: BufReader<R>,
}

impl<R: Read> Incoming<R> {
    pub fn new(reader: R) -> Self {
        const BUFFER_BYTES: usize = 64 << 10;
        Self { reader: BufReader::with_capacity(BUFFER_BYTES, reader) }
    }

    /// Waits until something comes, for as long as the connection is wanted.
    ///
    /// # Errors
    /// [`DropReason::Gone`] at the end, or when it is not wanted any more.
    pub fn wait(&mut self, wanted: impl Fn() -> bool) -> Result<(), DropReason> {
        while wanted() {
            match self.reader.fill_buf() {
                Ok([]) => return Err(DropReason::Gone),
                Ok(_) => return Ok(()),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(DropReason::Gone)
    }

    /// Fills `bytes`, which are of `what`, within `limit` from now.
    ///
    /// # Errors
    /// See [`DropReason`].
    pub fn fill(
        &mut self,
        mut bytes: &mut [u8],
        what: &'static str,
        limit: Duration,
    ) -> Result<(), DropReason> {
        let deadline = Instant::now() + limit;
        while !bytes.is_empty() {
            match self.reader.read(bytes) {
                Ok(0) => return Err(DropReason::Gone),
                Ok(length) => bytes = &mut bytes[length..],
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error.into()),
            }
            if !bytes.is_empty() && Instant::now() >= deadline {
                return Err(DropReason::Stopped(what));
            }
        }
        Ok(())
    }
}

fn is_passing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a byte, then nothing for ever.
    struct Dripping(bool);

    impl Read for Dripping {
        fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
            if std::mem::replace(&mut self.0, true) {
                return Err(ErrorKind::WouldBlock.into());
            }
            bytes[0] = 1;
            Ok(1)
        }
    }

    #[test]
    fn what_stops_in_the_middle_is_given_up() {
        let mut incoming = Incoming::new(Dripping(false));
        incoming.wait(|| true).unwrap();
        let filled = incoming.fill(&mut [0; 2], "a word", Duration::ZERO);
        assert!(matches!(filled, Err(DropReason::Stopped("a word"))), "{filled:?}");
    }

    #[test]
    fn the_end_and_a_connection_not_wanted_are_the_same() {
        let mut incoming = Incoming::new(&[][..]);
        assert!(matches!(incoming.wait(|| true), Err(DropReason::Gone)));
        let filled = incoming.fill(&mut [0; 2], "a word", Duration::from_secs(1));
        assert!(matches!(filled, Err(DropReason::Gone)));
        let mut silent = Incoming::new(Dripping(true));
        assert!(matches!(silent.wait(|| false), Err(DropReason::Gone)));
    }
}
