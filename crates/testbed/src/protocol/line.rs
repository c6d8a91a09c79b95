//! Messages as lines, of a bounded length: a peer that sends without end must not fill the memory.

use std::io::{BufRead, BufReader, Read};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::longest_line;

/// The longest line, in bytes: a trial's report holds fio's own result of every point.
pub const LONGEST_LINE_BYTES: usize = 32 << 20;

/// Why a line is no message.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The pipe failed.
    #[error("cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// It is too long. Nothing after it can be understood.
    #[error("sent more than {} without an end of line", longest_line())]
    TooLong,
    /// It is not of this protocol.
    #[error("sent `{begin}`, which is no message: {reason}")]
    NoMessage {
        /// How it begins.
        begin: String,
        /// Why.
        reason: String,
    },
}

impl LineError {
    /// Whether messages can still be read after it.
    pub fn can_go_on(&self) -> bool {
        matches!(self, Self::NoMessage { .. })
    }
}

/// A message as a line, its end included.
pub fn line<T: Serialize>(message: &T) -> String {
    let mut text = serde_json::to_string(message).expect("messages have string keys");
    text.push('\n');
    text
}

/// The messages that come through a pipe.
pub struct MessageReader<R> {
    input: BufReader<R>,
    longest: usize,
}

impl<R: Read> MessageReader<R> {
    /// Messages from this pipe.
    pub fn new(input: R) -> Self {
        Self { input: BufReader::new(input), longest: LONGEST_LINE_BYTES }
    }

    /// The next message; `None` at the end. Empty lines are passed over, and so is a last line that
    /// was not sent whole.
    ///
    /// # Errors
    /// As [`LineError`] tells.
    pub fn message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, LineError> {
        loop {
            let mut bytes = Vec::new();
            let most = u64::try_from(self.longest).expect("a length") + 1;
            let read = self.input.by_ref().take(most).read_until(b'\n', &mut bytes)?;
            if bytes.last() != Some(&b'\n') {
                return if read > self.longest { Err(LineError::TooLong) } else { Ok(None) };
            }
            let text = bytes.trim_ascii();
            if text.is_empty() {
                continue;
            }
            return serde_json::from_slice(text).map(Some).map_err(|error| {
                let begin: String = String::from_utf8_lossy(text).chars().take(60).collect();
                LineError::NoMessage { begin, reason: error.to_string() }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ToAgent;
    use super::*;

    #[test]
    fn messages_come_back_as_they_were_sent() {
        let sent = ToAgent::GoOn { id: 3 };
        let text = format!("\n{}{{\"go-on\":{{\"id\":4", line(&sent));
        let mut lines = MessageReader::new(text.as_bytes());
        assert_eq!(lines.message::<ToAgent>().expect("a message"), Some(sent));
        assert_eq!(lines.message::<ToAgent>().expect("the end"), None, "half a line is none");
    }

    #[test]
    fn what_is_no_message_is_named_and_passed_over() {
        let mut lines = MessageReader::new("hello\n{\"end\":{}}\n".as_bytes());
        let error = lines.message::<ToAgent>().expect_err("not JSON");
        assert!(error.can_go_on() && error.to_string().contains("`hello`"), "{error}");
        assert_eq!(lines.message::<ToAgent>().expect("a message"), Some(ToAgent::End {}));
    }

    #[test]
    fn a_line_without_end_is_not_held() {
        let mut lines =
            MessageReader { input: BufReader::new(std::io::repeat(b'x')), longest: 1000 };
        let error = lines.message::<ToAgent>().expect_err("too long");
        assert!(!error.can_go_on());
    }
}
