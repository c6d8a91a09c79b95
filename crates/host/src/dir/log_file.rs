//! A file that grows by whole lines, each of which is synced before the next one.

use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom, Write};
use std::path::PathBuf;

use super::DirError;

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

    /// Truncates the file to its first `length_bytes` bytes.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn truncate(&mut self, length_bytes: u64) -> Result<(), DirError> {
        // Synced before new data is written in place of the removed part.
        let length = self.file.set_len(length_bytes).and_then(|()| self.file.sync_all());
        let length = length.and_then(|()| self.file.seek(SeekFrom::Start(length_bytes)));
        self.length_bytes = length.map_err(|source| DirError::system(&self.path, source))?;
        Ok(())
    }

    /// Appends `bytes` and syncs them; truncates them again on failure.
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
                // If this fails as well, the next open truncates the file.
                let _ = self.truncate(before);
                Err(DirError::system(&self.path, source))
            }
        }
    }

    /// Reads the file from its beginning.
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
