//! A device node, a partition or an image file as a [`BlockDev`], past the page cache.
//!
//! Reads and writes go to the device itself (`O_DIRECT`), so that their times are the device's;
//! where a file system below an image has no such access, they go through the page cache and
//! [`DirectDevice::notes`] says so. Buffers are aligned to 4 KiB, which is enough for every sector
//! size. Limits: one request at a time; no discards, which this reports as a device that takes
//! none.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

use flashfit_user_error::{ExitClass, UserError};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::blockdev::{BlockDev, BlockDevError, BlockDevInfo};
use crate::describe::Device;
use crate::guard::WriteConsent;
use crate::refusal::Refusal;
use crate::units::SECTOR_BYTES;

/// What buffers are aligned to in memory.
const ALIGNMENT: usize = 4096;
/// What the kernel answers where a device was taken out.
const GONE: [Errno; 3] = [Errno::NXIO, Errno::NODEV, Errno::NOMEDIUM];

/// Why a device cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DirectError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("cannot open {}: {source}", path.display())]
    Open {
        path: PathBuf,
        source: std::io::Error,
    },
}

impl UserError for DirectError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Refused(refusal) => refusal.class(),
            Self::Open { source, .. } => match source.kind() {
                std::io::ErrorKind::PermissionDenied => ExitClass::Environment,
                _ => ExitClass::Io,
            },
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(refusal) => refusal.hint(),
            Self::Open { source, .. } => match source.kind() {
                std::io::ErrorKind::PermissionDenied => Some("run it as root".into()),
                _ => Some("flashfit list shows the media here".into()),
            },
        }
    }
}

#[derive(Debug)]
pub struct DirectDevice {
    path: PathBuf,
    file: File,
    description: BlockDevInfo,
    writable: bool,
    buffer: AlignedBuffer,
    notes: Vec<String>,
}

impl DirectDevice {
    /// Opens a device for reading only; a card whose lock is set can be opened too.
    pub fn read_only(path: &Path) -> Result<Self, DirectError> {
        let file = File::open(path)
            .map_err(|source| DirectError::Open { path: path.to_owned(), source })?;
        Self::of(path, file, false, false)
    }

    /// Opens what was looked at for reading only, whatever its path names by now.
    pub fn shown(medium: &Device) -> Result<Self, DirectError> {
        let path = &medium.path;
        let opened = medium.open_for_reading();
        let file = opened.map_err(|source| DirectError::Open { path: path.clone(), source })?;
        Self::of(path, file, false, false)
    }

    /// Opens the consented device for reading and writing, alone.
    pub fn writable(consent: &WriteConsent) -> Result<Self, DirectError> {
        let is_image = consent.medium().disk.is_empty();
        let volatile_cache = is_image || consent.medium().queue.volatile_cache();
        Self::of(consent.path(), consent.open()?, true, volatile_cache)
    }

    fn of(
        path: &Path,
        file: File,
        writable: bool,
        volatile_cache: bool,
    ) -> Result<Self, DirectError> {
        let failed = |source| DirectError::Open { path: path.to_owned(), source };
        let is_device = file.metadata().map_err(failed)?.file_type().is_block_device();
        let sector_bytes = match is_device {
            true => rustix::fs::ioctl_blksszget(&file).map_err(|error| failed(error.into()))?,
            false => u32::try_from(SECTOR_BYTES).expect("a small constant"),
        };
        let end = (&file).seek(SeekFrom::End(0)).map_err(failed)?;
        let description = BlockDevInfo {
            capacity_bytes: end - end % u64::from(sector_bytes),
            sector_bytes,
            discard_granularity_bytes: 0,
            volatile_cache,
        };
        let buffer = AlignedBuffer::default();
        let mut medium =
            Self { path: path.to_owned(), file, description, writable, buffer, notes: Vec::new() };
        medium.go_direct().map_err(failed)?;
        Ok(medium)
    }

    /// What the user should know of how it is opened, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Past the page cache, if the file system can; one sector is read to see whether it can.
    fn go_direct(&mut self) -> std::io::Result<()> {
        let flags = rustix::fs::fcntl_getfl(&self.file)?;
        let sector = self.description.sector_bytes as usize;
        let set = rustix::fs::fcntl_setfl(&self.file, flags | OFlags::DIRECT);
        let works = set.is_ok() && {
            let at = SECTOR_BYTES.min(self.description.capacity_bytes.saturating_sub(SECTOR_BYTES));
            let at = at / sector as u64 * sector as u64;
            let read = self.file.read_at(self.buffer.slice(sector), at);
            !read.is_err_and(|error| error.kind() == std::io::ErrorKind::InvalidInput)
        };
        if !works {
            rustix::fs::fcntl_setfl(&self.file, flags - OFlags::DIRECT)?;
            self.notes.push(format!(
                "the file system that {} is on has no direct access at sectors of {sector} bytes, \
                 so the times are those of the page cache",
                self.path.display()
            ));
        }
        Ok(())
    }

    fn check(&self, offset: u64, length: usize) -> Result<(), BlockDevError> {
        let BlockDevInfo { capacity_bytes, sector_bytes, .. } = self.description;
        let (length, sector) = (length as u64, u64::from(sector_bytes));
        let within = offset.checked_add(length).is_some_and(|end| end <= capacity_bytes);
        let whole = offset % sector == 0 && length % sector == 0;
        if within && whole { Ok(()) } else { Err(BlockDevError::OutOfBounds { offset, length }) }
    }

    /// An error of a request; of a device that is not there any more, that.
    fn failed(&self, offset: u64, length: usize, source: std::io::Error) -> BlockDevError {
        if let Some(reason) = self.gone(&source) {
            return BlockDevError::Gone(format!("{}: {reason}", self.path.display()));
        }
        BlockDevError::Io { offset, length: length as u64, source }
    }

    /// Why the device is gone, if it is. Many drivers answer the last requests with EIO, so the
    /// node is looked at, too.
    fn gone(&self, error: &std::io::Error) -> Option<String> {
        let is_gone =
            |error: &std::io::Error| Errno::from_io_error(error).is_some_and(|e| GONE.contains(&e));
        if is_gone(error) {
            return Some(error.to_string());
        }
        let now =
            rustix::fs::open(self.own_name(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        match now.map_err(std::io::Error::from).map(File::from) {
            Err(error) if is_gone(&error) || error.kind() == std::io::ErrorKind::NotFound => {
                Some(error.to_string())
            }
            Err(_) => None,
            Ok(mut now) => self.resized(now.seek(SeekFrom::End(0)).unwrap_or(0)),
        }
    }

    /// The very object that is open, for opening it once more.
    fn own_name(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }

    fn resized(&self, end: u64) -> Option<String> {
        (end < self.description.capacity_bytes).then(|| format!("it has {end} bytes now"))
    }

    /// A write beyond the end of an image would make it longer: one that became shorter meanwhile
    /// is gone.
    fn check_size(&self) -> Result<(), BlockDevError> {
        let Ok(found) = self.file.metadata() else { return Ok(()) };
        match self.resized(found.len()).filter(|_| found.is_file()) {
            Some(reason) => Err(BlockDevError::Gone(format!("{}: {reason}", self.path.display()))),
            None => Ok(()),
        }
    }
}

impl BlockDev for DirectDevice {
    fn describe(&self) -> BlockDevInfo {
        self.description
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError> {
        self.check(offset, buffer.len())?;
        let aligned = self.buffer.slice(buffer.len());
        match self.file.read_exact_at(aligned, offset) {
            Ok(()) => {
                buffer.copy_from_slice(aligned);
                Ok(())
            }
            Err(source) => Err(self.failed(offset, buffer.len(), source)),
        }
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError> {
        assert!(self.writable, "a medium that was opened for reading only is written to");
        self.check(offset, data.len())?;
        self.check_size()?;
        let aligned = self.buffer.slice(data.len());
        aligned.copy_from_slice(data);
        let written = self.file.write_all_at(aligned, offset);
        written.map_err(|source| self.failed(offset, data.len(), source))
    }

    fn flush(&mut self) -> Result<(), BlockDevError> {
        self.file.sync_data().map_err(|source| self.failed(0, 0, source))
    }

    fn discard(&mut self, _offset: u64, _length: u64) -> Result<(), BlockDevError> {
        Err(BlockDevError::NoDiscard)
    }
}

/// Memory that begins at a multiple of [`ALIGNMENT`]; it grows to the largest request.
#[derive(Debug, Default)]
struct AlignedBuffer(Vec<u8>);

impl AlignedBuffer {
    fn slice(&mut self, length: usize) -> &mut [u8] {
        if self.0.len() < length + ALIGNMENT {
            self.0 = vec![0; length + ALIGNMENT];
        }
        let start = self.0.as_ptr().align_offset(ALIGNMENT);
        &mut self.0[start..start + length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_whatever_their_size() {
        let mut buffer = AlignedBuffer::default();
        for length in [512, 4096, 1 << 20, 512] {
            let slice = buffer.slice(length);
            assert_eq!((slice.len(), slice.as_ptr().align_offset(ALIGNMENT)), (length, 0));
        }
    }

    #[test]
    fn an_image_is_read_in_whole_sectors_within_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let data: Vec<u8> = (0..10_000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &data).unwrap();
        let mut medium = DirectDevice::read_only(&path).unwrap();
        // 10,000 bytes are 19 sectors and a rest that no request reaches.
        assert_eq!(medium.describe().capacity_bytes, 19 * 512);
        let mut sectors = [0; 1024];
        medium.read(512, &mut sectors).unwrap();
        assert_eq!(sectors[..], data[512..1536]);
        for (offset, length) in [(1, 512), (0, 100), (18 * 512, 1024), (u64::MAX - 511, 512)] {
            let error = medium.read(offset, &mut vec![0; length]).unwrap_err();
            assert!(matches!(error, BlockDevError::OutOfBounds { .. }), "{error}");
        }
    }

    #[test]
    fn a_medium_that_shrank_or_went_is_gone_and_not_merely_unreadable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        std::fs::write(&path, vec![1; 8192]).unwrap();
        let mut medium = DirectDevice::read_only(&path).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(512).unwrap();
        let error = medium.read(4096, &mut [0; 512]).unwrap_err();
        assert!(matches!(error, BlockDevError::Gone(_)), "{error}");
        assert_eq!(error.class(), ExitClass::Io);
        assert!(DirectDevice::read_only(&folder.path().join("none")).is_err());
    }
}
