//! Attaches a file to a loop device for the lifetime of a value (loop(4),
//! `include/uapi/linux/loop.h`).
//!
//! The device is set up with `LO_FLAGS_AUTOCLEAR`: the kernel detaches it after its last use, so a
//! killed flashfit leaves no loop device behind.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::loop_renewal;

const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
/// `_IO(0x12, 93)` of `include/uapi/linux/fs.h`.
const BLKROSET: libc::c_ulong = 0x125D;
/// `_IO(0x12, 97)` of the same file.
const BLKFLSBUF: libc::c_ulong = 0x1261;
const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_PARTSCAN: u32 = 8;
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// Another process may take the free device before it is configured.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);
/// Another process may take the device that was made again, and leave another changed one.
const RENEWALS: u32 = 5;
/// How the kernel refuses a device that was free a moment before.
const AT_THE_SAME_TIME: [i32; 3] = [libc::EBUSY, libc::ENOENT, libc::ENXIO];

#[repr(C)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl Default for LoopInfo64 {
    fn default() -> Self {
        Self {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: 0,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        }
    }
}

#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

#[derive(Debug, thiserror::Error)]
#[error("cannot attach {} to a loop device: {source}", file.display())]
pub struct LoopError {
    file: PathBuf,
    source: std::io::Error,
}

impl UserError for LoopError {
    fn class(&self) -> ExitClass {
        ExitClass::Environment
    }

    fn hint(&self) -> Option<Hint> {
        match self.source.kind() {
            std::io::ErrorKind::PermissionDenied => Some("run it as root".into()),
            std::io::ErrorKind::NotFound => {
                Some("this kernel or container has no loop devices (/dev/loop-control)".into())
            }
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct LoopOptions {
    /// Logical sector size in bytes: 512 or 4096.
    pub sector_bytes: u32,
    /// Whether requests bypass the page cache of the backing file.
    pub direct_io: bool,
    pub read_only: bool,
}

impl Default for LoopOptions {
    fn default() -> Self {
        Self { sector_bytes: 512, direct_io: true, read_only: false }
    }
}

/// An attached loop device.
#[derive(Debug)]
pub struct LoopDevice {
    node: PathBuf,
    /// Keeps the device attached; the kernel detaches it after the last close.
    open: File,
}

impl LoopDevice {
    /// Attaches `file` to a free loop device.
    ///
    /// # Errors
    /// When no loop device is free, or the kernel rejects the file or the options.
    pub fn attach(file: &Path, options: LoopOptions) -> Result<Self, LoopError> {
        let failed = |source| LoopError { file: file.to_owned(), source };
        let opened = OpenOptions::new().read(true).write(!options.read_only).open(file);
        attach_clean(&opened.map_err(failed)?, file, options).map_err(failed)
    }

    /// Attaches an open file. `name` only appears in errors and in the device's status.
    ///
    /// # Errors
    /// Those of [`LoopDevice::attach`], and when another file ends up attached.
    pub fn attach_file(file: &File, name: &Path, options: LoopOptions) -> Result<Self, LoopError> {
        let failed = |source| LoopError { file: name.to_owned(), source };
        let device = attach_clean(file, name, options).map_err(failed)?;
        let expected = file.metadata().map_err(failed)?;
        if backing_of(&device.open) == Some((expected.dev(), expected.ino())) {
            return Ok(device);
        }
        Err(failed(std::io::Error::other("the kernel attached another file")))
    }

    /// The device node, `/dev/loopN`.
    pub fn node(&self) -> &Path {
        &self.node
    }

    /// Writes back the kernel's pages of the device and drops them, so that the next read reaches
    /// the file. While the device is open, unmounting a file system leaves its pages.
    ///
    /// # Errors
    /// When writing back fails, or without root.
    pub fn drop_pages(&self) -> std::io::Result<()> {
        drop_pages_of(&self.open)
    }

    /// The sysfs folder of the queue attributes.
    pub fn queue(&self) -> PathBuf {
        let name = self.node.file_name().unwrap_or_default();
        Path::new("/sys/block").join(name).join("queue")
    }
}

/// Writes back and drops the kernel's cached pages of any open block device.
///
/// # Errors
/// When writing back fails, or without root.
pub fn drop_pages_of(device: &File) -> std::io::Result<()> {
    ioctl(device, BLKFLSBUF, std::ptr::null_mut()).map(drop)
}

/// Device and inode number of the backing file of the loop device at `node`; `None` if nothing is
/// attached or the device cannot be queried.
pub fn backing_file(node: &Path) -> Option<(u64, u64)> {
    backing_of(&File::open(node).ok()?)
}

/// Device and inode number of the backing file of an open loop device.
pub fn backing_of(device: &File) -> Option<(u64, u64)> {
    let mut info = LoopInfo64::default();
    ioctl(device, LOOP_GET_STATUS64, std::ptr::from_mut(&mut info).cast()).ok()?;
    Some((info.device, info.inode))
}

/// Attaches to a device whose queue passes flushes and discards on, whatever an earlier user of the
/// device had set: see [`crate::loop_renewal`].
fn attach_clean(backing: &File, file: &Path, options: LoopOptions) -> std::io::Result<LoopDevice> {
    let mut device = attach(backing, file, options)?;
    for _ in 0..RENEWALS {
        let queue = device.queue();
        // Refused where the file takes no flushes, and then there is nothing to set back.
        let _ = std::fs::write(queue.join("write_cache"), "write back");
        if !withholds_discards(&queue) {
            break;
        }
        let node = device.node.clone();
        drop(device);
        // One that cannot be made again is used as it is.
        let _ = loop_renewal::renew(&node);
        device = attach(backing, file, options)?;
    }
    Ok(device)
}

/// Whether discards are switched off that the file would take.
fn withholds_discards(queue: &Path) -> bool {
    let is_zero =
        |name: &str| std::fs::read_to_string(queue.join(name)).is_ok_and(|text| text.trim() == "0");
    is_zero("discard_max_bytes") && !is_zero("discard_max_hw_bytes")
}

fn attach(backing: &File, file: &Path, options: LoopOptions) -> std::io::Result<LoopDevice> {
    let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    let mut last = std::io::Error::from_raw_os_error(libc::EBUSY);
    for _ in 0..TRIES {
        let number = ioctl(&control, LOOP_CTL_GET_FREE, std::ptr::null_mut())?;
        let node = PathBuf::from(format!("/dev/loop{number}"));
        let mut config = config_for(backing, file, options);
        let opened = OpenOptions::new().read(true).write(true).open(&node);
        let configured = opened.and_then(|device| {
            ioctl(&device, LOOP_CONFIGURE, std::ptr::from_mut(&mut config).cast())?;
            Ok(device)
        });
        match configured {
            Ok(device) => {
                clear_own_read_only(&device)?;
                return Ok(LoopDevice { node, open: device });
            }
            // Others attach at the same time or make the device again, or the kernel still
            // detaches it.
            Err(error) if AT_THE_SAME_TIME.contains(&error.raw_os_error().unwrap_or(0)) => {
                last = error;
            }
            Err(error) => return Err(error),
        }
        std::thread::sleep(PAUSE);
    }
    Err(last)
}

/// Clears the block device's read-only flag, which survives detaching and may be left over from an
/// earlier user. The protection of a file attached read-only is the disk's flag, which the kernel
/// sets for each attachment.
fn clear_own_read_only(device: &File) -> std::io::Result<()> {
    let mut flag: i32 = 0;
    ioctl(device, BLKROSET, std::ptr::from_mut(&mut flag).cast()).map(drop)
}

fn config_for(backing: &File, file: &Path, options: LoopOptions) -> LoopConfig {
    let mut flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_PARTSCAN;
    if options.direct_io {
        flags |= LO_FLAGS_DIRECT_IO;
    }
    if options.read_only {
        flags |= LO_FLAGS_READ_ONLY;
    }
    let mut file_name = [0; 64];
    let name = file.as_os_str().as_encoded_bytes();
    let length = name.len().min(63);
    file_name[..length].copy_from_slice(&name[..length]);
    LoopConfig {
        fd: u32::try_from(backing.as_raw_fd()).expect("descriptors are not negative"),
        block_size: options.sector_bytes,
        info: LoopInfo64 { flags, file_name, ..LoopInfo64::default() },
        reserved: [0; 8],
    }
}

#[expect(unsafe_code, reason = "the loop ioctls have no safe wrapper")]
fn ioctl(file: &File, request: libc::c_ulong, argument: *mut libc::c_void) -> std::io::Result<i32> {
    // SAFETY: `argument` is null or points to the structure that `request` takes, which outlives
    // the call; `request as _` only adapts to the C library's type for it.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request as _, argument) };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the disk is read-only for every opener.
    fn is_read_only(node: &Path) -> bool {
        let name = node.file_name().unwrap().to_string_lossy().into_owned();
        std::fs::read_to_string(format!("/sys/block/{name}/ro")).unwrap().trim() == "1"
    }

    #[test]
    fn a_read_only_attachment_is_protected_and_leaves_no_flag() {
        if flashfit_test_support::skip(flashfit_test_support::block_devices()) {
            return;
        }
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(1 << 20).unwrap();
        let options = LoopOptions { direct_io: false, read_only: true, ..LoopOptions::default() };
        let device = LoopDevice::attach(image.path(), options).unwrap();
        assert!(is_read_only(device.node()));
        let write = OpenOptions::new().write(true).open(device.node());
        let refused = write.and_then(|file| std::io::Write::write_all(&mut &file, &[1; 512]));
        assert!(refused.is_err());
        let mut flag: libc::c_int = 0;
        ioctl(&device.open, BLKROSET, std::ptr::from_mut(&mut flag).cast()).unwrap();
        assert!(is_read_only(device.node()), "the disk's own flag is what protects the file");
    }

    #[test]
    fn settings_of_an_earlier_user_are_not_inherited() {
        if flashfit_test_support::skip(flashfit_test_support::block_devices()) {
            return;
        }
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(1 << 20).unwrap();
        let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
        let attach = || LoopDevice::attach(image.path(), options).unwrap();
        let read = |device: &LoopDevice, name: &str| {
            std::fs::read_to_string(device.queue().join(name)).unwrap().trim().to_owned()
        };
        let mut first = attach();
        // Others may take the device meanwhile.
        for _ in 0..20 {
            let before = ["discard_max_bytes", "write_cache"].map(|name| read(&first, name));
            std::fs::write(first.queue().join("discard_max_bytes"), "0").unwrap();
            std::fs::write(first.queue().join("write_cache"), "write through").unwrap();
            let node = first.node().to_owned();
            drop(first);
            std::thread::sleep(Duration::from_millis(50));
            let second = attach();
            let after = ["discard_max_bytes", "write_cache"].map(|name| read(&second, name));
            assert_eq!(after, before);
            if second.node() == node {
                return;
            }
            first = second;
        }
        panic!("no device was attached twice");
    }

    #[test]
    fn structures_have_the_size_that_the_kernel_expects() {
        assert_eq!(size_of::<LoopInfo64>(), 232);
        assert_eq!(size_of::<LoopConfig>(), 304);
    }
}
