//! Reads kernel messages from `/dev/kmsg` (Documentation/ABI/testing/dev-kmsg).

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// A position in the kernel log.
#[derive(Debug)]
pub struct KernelLog(Option<File>);

impl KernelLog {
    /// Starts at the end of the log. Stays empty if the log is not readable.
    pub fn from_now() -> Self {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg")
            .and_then(|mut file| file.seek(SeekFrom::End(0)).map(|_| file));
        Self(file.ok())
    }

    /// Whether the log can be read. If not, no messages does not mean no errors.
    pub fn is_readable(&self) -> bool {
        self.0.is_some()
    }

    /// Messages since the start or the last call, without headers.
    pub fn take(&mut self) -> Vec<String> {
        let Some(file) = &mut self.0 else { return Vec::new() };
        let mut messages = Vec::new();
        let mut record = [0; 8192];
        loop {
            match file.read(&mut record) {
                Ok(0) => break,
                Ok(length) => {
                    let text = String::from_utf8_lossy(&record[..length]);
                    if let Some((_, message)) = text.split_once(';') {
                        messages.push(message.lines().next().unwrap_or_default().to_owned());
                    }
                }
                // EPIPE: older records were overwritten; the next read continues after them.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(_) => break,
            }
        }
        messages
    }
}
