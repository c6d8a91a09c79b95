//! A block device, used past the kernel's cache.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// `_IO(0x12, 119)` and `_IO(0x12, 127)` of `include/uapi/linux/fs.h`.
const BLKDISCARD: libc::c_ulong = 0x1277;
const BLKZEROOUT: libc::c_ulong = 0x127F;
const ALIGNMENT: usize = 4096;

/// An open device with a buffer that the kernel takes.
pub struct DirectDevice {
    file: File,
    buffer: Vec<u8>,
}

impl DirectDevice {
    pub fn open(device: &Path) -> Self {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).custom_flags(libc::O_DIRECT);
        Self { file: options.open(device).unwrap(), buffer: Vec::new() }
    }

    fn aligned(&mut self, length: usize) -> (&File, &mut [u8]) {
        self.buffer.resize(self.buffer.len().max(length + ALIGNMENT), 0);
        let start = self.buffer.as_ptr().align_offset(ALIGNMENT);
        (&self.file, &mut self.buffer[start..start + length])
    }

    pub fn read(&mut self, offset: u64, length: usize) -> std::io::Result<Vec<u8>> {
        let (file, buffer) = self.aligned(length);
        file.read_exact_at(buffer, offset)?;
        Ok(buffer.to_vec())
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        let (file, buffer) = self.aligned(data.len());
        buffer.copy_from_slice(data);
        file.write_all_at(buffer, offset)
    }

    pub fn flush(&self) -> std::io::Result<()> {
        self.file.sync_all()
    }

    pub fn discard(&self, offset: u64, length: u64) -> std::io::Result<()> {
        self.range_ioctl(BLKDISCARD, offset, length)
    }

    /// Writes zeros that are not to be discarded.
    pub fn write_zeros(&self, offset: u64, length: u64) -> std::io::Result<()> {
        self.range_ioctl(BLKZEROOUT, offset, length)
    }

    #[expect(unsafe_code, reason = "the ioctls of block devices have no safe wrapper")]
    fn range_ioctl(&self, request: libc::c_ulong, offset: u64, length: u64) -> std::io::Result<()> {
        let range = [offset, length];
        // SAFETY: both requests read two 64-bit numbers, which outlive the call; `request as _`
        // only adapts to the C library's type for it.
        let result =
            unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, std::ptr::from_ref(&range)) };
        if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    }
}
