//! Attaching a card to this kernel.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::loop_renewal;
use flashfit_host::mount::enter_private_namespace;

use super::file_system::{CardFile, file_name};
use super::fuse_thread::{self, CopiedFiles};
use super::{queue, way};
use crate::live::LiveCard;
use crate::serve::ServeError;

/// A card behind this kernel; detached when dropped.
pub struct KernelCard {
    device: Attached,
    notes: Vec<String>,
    ended: Receiver<()>,
}

impl KernelCard {
    /// Attaches a card and lets it begin. For a process that has not started any thread.
    ///
    /// # Errors
    /// See [`ServeError`]; then nothing is attached.
    pub fn attach(card: &LiveCard) -> Result<Self, ServeError> {
        enter_private_namespace()?;
        fuse_thread::stay_out_of_reclaim();
        let served = card.clone();
        let sector_bytes = card.description().sector_bytes;
        let options = LoopOptions { sector_bytes, ..LoopOptions::default() };
        let (attached, ended) = fuse_thread::with_mounted(
            &covered_folder()?,
            "flashfit-card",
            // The card may be in a file.
            CopiedFiles::Kept,
            move || CardFile::new(served),
            |folder| LoopDevice::attach(&folder.join(file_name()), options),
        )
        .map_err(ServeError::Fuse)?;
        let device = attached?;
        let attributes = device.queue();
        let device = Attached::new(device);
        let notes = queue::set(&attributes, card.description(), card.depth())
            .map_err(|source| ServeError::Queue { device: device.node.clone(), source })?;
        // One that cannot be measured is not subtracted.
        card.begin(way::measure(&device.node).unwrap_or_default());
        Ok(Self { device, notes, ended })
    }

    pub fn node(&self) -> &Path {
        &self.device.node
    }

    /// Where this kernel does not show the device as the model has it.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Detaches it and waits until its last user has gone.
    ///
    /// # Errors
    /// [`ServeError::InUse`] when it has one for longer than `wait`.
    pub fn detach(self, wait: Duration) -> Result<(), ServeError> {
        let node = self.device.node.clone();
        drop(self.device);
        // An error and a message both mean that the kernel has let go of the file.
        match self.ended.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => Err(ServeError::InUse { device: node }),
            _ => Ok(()),
        }
    }
}

/// An attached loop device, made again when it is dropped.
struct Attached {
    node: PathBuf,
    device: Option<LoopDevice>,
}

impl Attached {
    fn new(device: LoopDevice) -> Self {
        Self { node: device.node().to_owned(), device: Some(device) }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(device) = self.device.take() {
            // While it is still this card's: one in use is not made again, and the next user is
            // owed this at least.
            let _ = queue::set_cache(&device.queue(), true);
        }
        let _ = loop_renewal::renew(&self.node);
    }
}

/// Where to mount. No other process sees the mount, so it can cover a folder that is there anyway:
/// then there is none to remove.
fn covered_folder() -> Result<PathBuf, ServeError> {
    let folder = ["/tmp", "/run", "/mnt"]
        .into_iter()
        .find_map(|folder| Path::new(folder).canonicalize().ok().filter(|folder| folder.is_dir()));
    folder.ok_or_else(|| {
        ServeError::Fuse(std::io::Error::other("there is no folder /tmp, /run or /mnt"))
    })
}
