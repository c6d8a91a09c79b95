//! Reads and writes a device node, a partition or an image file as a [`BlockDev`], bypassing the
//! page cache.
//!
//! Uses `O_DIRECT` to measure the device itself. If the file system of an image does not support
//! it, requests go through the page cache and [`DirectDevice::notes`] reports that. Buffers are
//! aligned to 4 KiB, which suits every sector size. Limits: one request at a time; no discards.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

use flashfit_user_error::{ExitClass, Hint, UserError};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::blockdev::{BlockDev, BlockDevError, BlockDevInfo};
use crate::describe::{Device, list_devices};
use crate::guard::WriteConsent;
use crate::refusal::Refusal;
use crate::units::SECTOR_BYTES;

const ALIGNMENT: usize = 4096;
/// Errors of the kernel after a device was removed.
const REMOVED: [Errno; 3] = [Errno::NXIO, Errno::NODEV, Errno::NOMEDIUM];

#[derive(Debug, thiserror::Error)]
pub enum DirectError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("cannot open {}: {source}", path.display())]
    Open { path: PathBuf, source: std::io::Error },
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

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Refused(refusal) => refusal.hint(),
            Self::Open { source, .. } => match source.kind() {
                std::io::ErrorKind::PermissionDenied => Some("run it as root".into()),
                _ => Some(list_devices()),
            },
        }
    }
}

#[derive(Debug)]
pub struct DirectDevice {
    path: PathBuf,
    file: File,
    info: BlockDevInfo,
    writable: bool,
    buffer: AlignedBuffer,
    notes: Vec<String>,
}

impl DirectDevice {
    /// Opens a device for reading only; also works for a write-protected card.
    pub fn read_only(path: &Path) -> Result<Self, DirectError> {
        let file = File::open(path)
            .map_err(|source| DirectError::Open { path: path.to_owned(), source })?;
        Self::of(path, file, false, false)
    }

    /// Opens the described object for reading only, whatever its path names now.
    pub fn open_described(device: &Device) -> Result<Self, DirectError> {
        let path = &device.path;
        let opened = device.open_for_reading();
        let file = opened.map_err(|source| DirectError::Open { path: path.clone(), source })?;
        Self::of(path, file, false, false)
    }

    /// Opens the device of a consent for reading what was written to it.
    pub fn for_reading_back(consent: &WriteConsent) -> Result<Self, DirectError> {
        Self::of(consent.path(), consent.open_for_reading()?, false, false)
    }

    /// Opens the device of a consent exclusively for reading and writing.
    pub fn writable(consent: &WriteConsent) -> Result<Self, DirectError> {
        let is_image = consent.device().disk.is_empty();
        let volatile_cache = is_image || consent.device().queue.volatile_cache();
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
        let info = BlockDevInfo {
            capacity_bytes: end - end % u64::from(sector_bytes),
            sector_bytes,
            discard_granularity_bytes: 0,
            volatile_cache,
        };
        let buffer = AlignedBuffer::default();
        let mut device =
            Self { path: path.to_owned(), file, info, writable, buffer, notes: Vec::new() };
        device.enable_direct_io().map_err(failed)?;
        Ok(device)
    }

    /// Limits of this way of access that the user should know, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Enables `O_DIRECT` if one sector can be read with it.
    fn enable_direct_io(&mut self) -> std::io::Result<()> {
        let flags = rustix::fs::fcntl_getfl(&self.file)?;
        let sector = self.info.sector_bytes as usize;
        let set = rustix::fs::fcntl_setfl(&self.file, flags | OFlags::DIRECT);
        let works = set.is_ok() && {
            let at = SECTOR_BYTES.min(self.info.capacity_bytes.saturating_sub(SECTOR_BYTES));
            let at = at / sector as u64 * sector as u64;
            let read = self.file.read_at(self.buffer.slice(sector), at);
            !read.is_err_and(|error| error.kind() == std::io::ErrorKind::InvalidInput)
        };
        if !works {
            rustix::fs::fcntl_setfl(&self.file, flags - OFlags::DIRECT)?;
            self.notes.push(format!(
                "the file system of {} does not support O_DIRECT with sectors of {sector} bytes, so \
                 the page cache affects the times",
                self.path.display()
            ));
        }
        Ok(())
    }

    fn check(&self, offset: u64, length: usize) -> Result<(), BlockDevError> {
        let BlockDevInfo { capacity_bytes, sector_bytes, .. } = self.info;
        let (length, sector) = (length as u64, u64::from(sector_bytes));
        let within = offset.checked_add(length).is_some_and(|end| end <= capacity_bytes);
        let whole = offset % sector == 0 && length % sector == 0;
        if within && whole { Ok(()) } else { Err(BlockDevError::OutOfBounds { offset, length }) }
    }

    /// Converts an error; an error of a removed device becomes `Disconnected`.
    fn convert_error(&self, offset: u64, length: usize, source: std::io::Error) -> BlockDevError {
        if let Some(reason) = self.removal_reason(&source) {
            return BlockDevError::Disconnected(format!("{}: {reason}", self.path.display()));
        }
        BlockDevError::Io { offset, length: length as u64, source }
    }

    /// Why the device is unavailable, if it is. The node is checked too, because many drivers fail
    /// the last requests with EIO.
    fn removal_reason(&self, error: &std::io::Error) -> Option<String> {
        let is_removed = |error: &std::io::Error| {
            Errno::from_io_error(error).is_some_and(|e| REMOVED.contains(&e))
        };
        if is_removed(error) {
            return Some(error.to_string());
        }
        let now =
            rustix::fs::open(self.reopen_path(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        match now.map_err(std::io::Error::from).map(File::from) {
            Err(error) if is_removed(&error) || error.kind() == std::io::ErrorKind::NotFound => {
                Some(error.to_string())
            }
            Err(_) => None,
            Ok(mut now) => self.truncation(now.seek(SeekFrom::End(0)).unwrap_or(0)),
        }
    }

    /// A path for reopening the same object.
    fn reopen_path(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }

    fn truncation(&self, end: u64) -> Option<String> {
        (end < self.info.capacity_bytes).then(|| format!("it now has {end} bytes"))
    }

    /// Checks that an image was not truncated: a write beyond its end would extend it again.
    fn check_size(&self) -> Result<(), BlockDevError> {
        let Ok(found) = self.file.metadata() else { return Ok(()) };
        match self.truncation(found.len()).filter(|_| found.is_file()) {
            Some(reason) => {
                Err(BlockDevError::Disconnected(format!("{}: {reason}", self.path.display())))
            }
            None => Ok(()),
        }
    }
}

impl BlockDev for DirectDevice {
    fn describe(&self) -> BlockDevInfo {
        self.info
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError> {
        self.check(offset, buffer.len())?;
        let aligned = self.buffer.slice(buffer.len());
        match self.file.read_exact_at(aligned, offset) {
            Ok(()) => {
                buffer.copy_from_slice(aligned);
                Ok(())
            }
            Err(source) => Err(self.convert_error(offset, buffer.len(), source)),
        }
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError> {
        assert!(self.writable, "a device that was opened read-only must not be written to");
        self.check(offset, data.len())?;
        self.check_size()?;
        let aligned = self.buffer.slice(data.len());
        aligned.copy_from_slice(data);
        let written = self.file.write_all_at(aligned, offset);
        written.map_err(|source| self.convert_error(offset, data.len(), source))
    }

    fn flush(&mut self) -> Result<(), BlockDevError> {
        self.file.sync_data().map_err(|source| self.convert_error(0, 0, source))
    }

    fn discard(&mut self, _offset: u64, _length: u64) -> Result<(), BlockDevError> {
        Err(BlockDevError::NoDiscard)
    }
}

/// A buffer aligned to `ALIGNMENT` that grows to the largest request.
#[derive(Debug, Default)]
pub struct AlignedBuffer(Vec<u8>);

impl AlignedBuffer {
    /// The first bytes of it.
    pub fn slice(&mut self, length: usize) -> &mut [u8] {
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
    fn buffers_of_any_size_are_aligned() {
        let mut buffer = AlignedBuffer::default();
        for length in [512, 4096, 1 << 20, 512] {
            let slice = buffer.slice(length);
            assert_eq!((slice.len(), slice.as_ptr().align_offset(ALIGNMENT)), (length, 0));
        }
    }

    #[test]
    fn an_image_is_read_in_whole_sectors_up_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let data: Vec<u8> = (0..10_000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &data).unwrap();
        let mut device = DirectDevice::read_only(&path).unwrap();
        // 10,000 bytes are 19 sectors and an unreachable remainder.
        assert_eq!(device.describe().capacity_bytes, 19 * 512);
        let mut sectors = [0; 1024];
        device.read(512, &mut sectors).unwrap();
        assert_eq!(sectors[..], data[512..1536]);
        for (offset, length) in [(1, 512), (0, 100), (18 * 512, 1024), (u64::MAX - 511, 512)] {
            let error = device.read(offset, &mut vec![0; length]).unwrap_err();
            assert!(matches!(error, BlockDevError::OutOfBounds { .. }), "{error}");
        }
    }

    #[test]
    fn a_truncated_image_is_disconnected_rather_than_unreadable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        std::fs::write(&path, vec![1; 8192]).unwrap();
        let mut device = DirectDevice::read_only(&path).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(512).unwrap();
        let error = device.read(4096, &mut [0; 512]).unwrap_err();
        assert!(matches!(error, BlockDevError::Disconnected(_)), "{error}");
        assert_eq!(error.class(), ExitClass::Io);
        assert!(DirectDevice::read_only(&folder.path().join("none")).is_err());
    }
}
