//! The directory of an exercise: writes, syncs, renames and removes files, and counts what is
//! written.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flashfit_device::random::Random;

use crate::error::BenchError;
use crate::fio::system;

/// Larger writes are split.
const CHUNK_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    written_bytes: u64,
    /// Random bytes, so that nothing can be compressed or deduplicated.
    content: Vec<u8>,
    calls: usize,
}

impl Folder {
    pub fn create(path: &Path) -> Result<Self, BenchError> {
        std::fs::create_dir(path).map_err(system(path))?;
        let mut random = Random::new(0x0C0_47E47);
        let content = (0..2 * CHUNK_BYTES / 8).flat_map(|_| random.next_u64().to_le_bytes());
        Ok(Self { path: path.to_owned(), written_bytes: 0, content: content.collect(), calls: 0 })
    }

    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    pub fn open(&self, name: &str) -> Result<File, BenchError> {
        let path = self.path.join(name);
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        opened.map_err(system(&path))
    }

    /// A file whose writes go to its end.
    pub fn open_to_append(&self, name: &str) -> Result<File, BenchError> {
        let path = self.path.join(name);
        OpenOptions::new().append(true).create(true).open(&path).map_err(system(&path))
    }

    /// Bytes that differ from call to call.
    fn bytes(&mut self, length: usize) -> std::ops::Range<usize> {
        self.calls += 1;
        let start = self.calls * 4099 % CHUNK_BYTES;
        start..start + length
    }

    pub fn append(&mut self, mut to: &File, mut length: u64) -> Result<(), BenchError> {
        while length > 0 {
            let part = usize::try_from(length).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            let bytes = self.bytes(part);
            to.write_all(&self.content[bytes]).map_err(system(&self.path))?;
            self.written_bytes += part as u64;
            length -= part as u64;
        }
        Ok(())
    }

    pub fn write_at(&mut self, to: &File, offset: u64, length: usize) -> Result<(), BenchError> {
        let bytes = self.bytes(length);
        to.write_all_at(&self.content[bytes], offset).map_err(system(&self.path))?;
        self.written_bytes += length as u64;
        Ok(())
    }

    pub fn sync(&self, file: &File) -> Result<(), BenchError> {
        file.sync_all().map_err(system(&self.path))
    }

    pub fn sync_data(&self, file: &File) -> Result<(), BenchError> {
        file.sync_data().map_err(system(&self.path))
    }

    pub fn rename(&self, from: &str, to: &str) -> Result<(), BenchError> {
        std::fs::rename(self.path.join(from), self.path.join(to)).map_err(system(&self.path))
    }

    /// Removes a file, if it exists.
    pub fn remove(&self, name: &str) -> Result<(), BenchError> {
        match std::fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(system(&self.path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Writes everything back.
    pub fn sync_all(&self) -> Result<(), BenchError> {
        let open = File::open(&self.path).map_err(system(&self.path))?;
        rustix::fs::syncfs(&open).map_err(|error| BenchError::Device {
            message: format!("writeback: {}", std::io::Error::from(error)),
        })
    }
}
