//! Reads and writes messages as lines. The length is limited, so a peer cannot exhaust the memory.

use std::io::{BufRead, BufReader, Read};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::max_line_size;

/// Longest line; the report of a trial contains fio's output for every point.
pub const MAX_LINE_BYTES: usize = 32 << 20;

/// Why a line is not a message.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    #[error("cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// The rest of the stream cannot be read.
    #[error("sent more than {} without an end of line", max_line_size())]
    TooLong,
    #[error("sent `{begin}`, which is not a valid message: {reason}")]
    Invalid { begin: String, reason: String },
}

impl LineError {
    /// Whether later messages can still be read.
    pub fn is_recoverable(&self) -> bool {
        matches!(self, Self::Invalid { .. })
    }
}

/// Serializes a message as a line, including its end.
pub fn line<T: Serialize>(message: &T) -> String {
    let mut text = serde_json::to_string(message).expect("messages have string keys");
    text.push('\n');
    text
}

/// Reads messages from a pipe.
pub struct MessageReader<R> {
    input: BufReader<R>,
    longest: usize,
}

impl<R: Read> MessageReader<R> {
    pub fn new(input: R) -> Self {
        Self { input: BufReader::new(input), longest: MAX_LINE_BYTES }
    }

    /// The next message, or `None` at the end. Skips empty lines and an incomplete last line.
    ///
    /// # Errors
    /// [`LineError`].
    pub fn message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, LineError> {
        loop {
            let mut bytes = Vec::new();
            let limit = u64::try_from(self.longest).expect("a length") + 1;
            let read = self.input.by_ref().take(limit).read_until(b'\n', &mut bytes)?;
            if bytes.last() != Some(&b'\n') {
                return if read > self.longest { Err(LineError::TooLong) } else { Ok(None) };
            }
            let text = bytes.trim_ascii();
            if text.is_empty() {
                continue;
            }
            return serde_json::from_slice(text).map(Some).map_err(|error| {
                let begin: String = String::from_utf8_lossy(text).chars().take(60).collect();
                LineError::Invalid { begin, reason: error.to_string() }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ToAgent;
    use super::*;

    #[test]
    fn messages_are_read_as_written() {
        let sent = ToAgent::Continue { id: 3 };
        let text = format!("\n{}{{\"go-on\":{{\"id\":4", line(&sent));
        let mut lines = MessageReader::new(text.as_bytes());
        assert_eq!(lines.message::<ToAgent>().expect("a message"), Some(sent));
        assert_eq!(
            lines.message::<ToAgent>().expect("the end"),
            None,
            "an incomplete line is skipped"
        );
    }

    #[test]
    fn an_invalid_message_is_reported_and_skipped() {
        let mut lines = MessageReader::new("hello\n{\"end\":{}}\n".as_bytes());
        let error = lines.message::<ToAgent>().expect_err("not JSON");
        assert!(error.is_recoverable() && error.to_string().contains("`hello`"), "{error}");
        assert_eq!(lines.message::<ToAgent>().expect("a message"), Some(ToAgent::End {}));
    }

    #[test]
    fn a_line_without_end_is_not_buffered() {
        let mut lines =
            MessageReader { input: BufReader::new(std::io::repeat(b'x')), longest: 1000 };
        let error = lines.message::<ToAgent>().expect_err("too long");
        assert!(!error.is_recoverable());
    }
}
