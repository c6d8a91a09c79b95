//! A block device of this kernel that shows crash states.
//!
//! A FUSE file with a loop device on it, served by a thread of this process with its own table of
//! open files ([`flashfit_card_server::fuse_thread`]), so that a killed process does not wait for
//! itself.

mod disk;
mod file_system;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard};

use flashfit_card_server::fuse_thread::{self, CopiedFiles};
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::loop_renewal;

use crate::CrashError;

pub use disk::{DiskContents, OverlayDisk, ReadBlock};

/// An attached device; detached when dropped.
pub struct CrashDevice {
    disk: Arc<Mutex<OverlayDisk>>,
    device: Option<LoopDevice>,
    node: PathBuf,
    /// What it was before, in KiB.
    read_ahead: Option<String>,
    _ended: Receiver<()>,
}

impl CrashDevice {
    /// Attaches a device, which discards reach or not. `point` is an empty folder of a private
    /// mount namespace.
    ///
    /// # Errors
    /// When the kernel has no FUSE or loop device for it.
    pub fn attach(disk: OverlayDisk, point: &Path, discards: bool) -> Result<Self, CrashError> {
        let disk = Arc::new(Mutex::new(disk));
        let name = file_system::new_file_name();
        let served = file_system::DiskFile::new(Arc::clone(&disk), name.clone());
        let open = |folder: &Path| LoopDevice::attach(&folder.join(&name), LoopOptions::default());
        // Other workers have files of their mounts open, and pipes to their programs.
        let copies = CopiedFiles::Closed;
        let (device, ended) =
            fuse_thread::with_mounted(point, "flashfit-crash", copies, move || Ok(served), open)
                .map_err(CrashError::Fuse)?;
        let device = device?;
        let node = device.node().to_owned();
        let queue = device.queue();
        let mut attached =
            Self { disk, device: Some(device), node, read_ahead: None, _ended: ended };
        let set = |name: &str, value: &str| fs::write(queue.join(name), value);
        attached.read_ahead = fs::read_to_string(queue.join("read_ahead_kb")).ok();
        set("write_cache", "write back")
            .and_then(|()| set("scheduler", "none"))
            // What is read ahead depends on time, and would differ between equal states.
            .and_then(|()| set("read_ahead_kb", "0"))
            .and_then(|()| if discards { Ok(()) } else { set("discard_max_bytes", "0") })
            .map_err(|source| CrashError::Device { device: attached.node.clone(), source })?;
        Ok(attached)
    }

    /// Its node, `/dev/loopN`.
    pub fn node(&self) -> &Path {
        &self.node
    }

    pub fn disk(&self) -> MutexGuard<'_, OverlayDisk> {
        file_system::lock(&self.disk)
    }

    /// Drops the kernel's pages of the device, so that it sees what is loaded next.
    ///
    /// # Errors
    /// When the kernel cannot write back a page.
    pub fn drop_pages(&self) -> Result<(), CrashError> {
        let device = self.device.as_ref().expect("attached until dropped");
        device.drop_pages().map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> CrashError {
        CrashError::Device { device: self.node.clone(), source }
    }
}

impl Drop for CrashDevice {
    fn drop(&mut self) {
        if let (Some(device), Some(before)) = (self.device.take(), &self.read_ahead) {
            let _ = fs::write(device.queue().join("read_ahead_kb"), before.trim());
        }
        // The next user of the loop device finds none of the settings. One that is still in use
        // keeps the others.
        let _ = loop_renewal::renew(&self.node);
    }
}
