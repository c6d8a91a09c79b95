//! A file that grows by whole lines, each synced before the next begins.

use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom, Write};
use std::path::PathBuf;

use super::DirError;

/// A file that is appended to.
#[derive(Debug)]
pub struct LogFile {
    file: File,
    path: PathBuf,
    length_bytes: u64,
}

impl LogFile {
    pub(super) fn at_end(mut file: File, path: PathBuf) -> Result<Self, DirError> {
        match file.seek(SeekFrom::End(0)) {
            Ok(length_bytes) => Ok(Self { file, path, length_bytes }),
            Err(source) => Err(DirError::system(&path, source)),
        }
    }

    /// Cuts off what is behind the first `length_bytes` bytes.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn cut(&mut self, length_bytes: u64) -> Result<(), DirError> {
        // Synced before more is written where the cut part was.
        let cut = self.file.set_len(length_bytes).and_then(|()| self.file.sync_all());
        let cut = cut.and_then(|()| self.file.seek(SeekFrom::Start(length_bytes)));
        self.length_bytes = cut.map_err(|source| DirError::system(&self.path, source))?;
        Ok(())
    }

    /// Appends `bytes` and syncs them. Where that fails they are cut off again.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), DirError> {
        let before = self.length_bytes;
        match self.file.write_all(bytes).and_then(|()| self.file.sync_data()) {
            Ok(()) => {
                self.length_bytes += u64::try_from(bytes.len()).unwrap_or_default();
                Ok(())
            }
            Err(source) => {
                // What cannot be cut off now is cut off when the file is opened next.
                let _ = self.cut(before);
                Err(DirError::system(&self.path, source))
            }
        }
    }

    /// Reads it from its beginning.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn reader(&mut self) -> Result<BufReader<&File>, DirError> {
        match self.file.seek(SeekFrom::Start(0)) {
            Ok(_) => Ok(BufReader::new(&self.file)),
            Err(source) => Err(DirError::system(&self.path, source)),
        }
    }
}
