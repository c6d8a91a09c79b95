//! Attaching a card to this kernel.
//!
//! The thread that answers the kernel has a table of open files of its own. So when the process is
//! killed while another of its threads waits for the device, the connection to the kernel is closed
//! nevertheless, that wait ends with an error, and the process can go.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use flashfit_host::loop_device::{LoopDevice, LoopError, LoopOptions};
use flashfit_host::loop_renewal;
use flashfit_host::mount::enter_private_namespace;
use fuser::{Config, MountOption, Session, SessionACL};
use rustix::mount::UnmountFlags;
use rustix::thread::UnshareFlags;

use super::file_system::{CardFile, file_name};
use super::{queue, way};
use crate::live::LiveCard;
use crate::serve::ServeError;

/// Another process may take the device that was made again, and leave another stale one.
const RENEWALS: u32 = 3;

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
    /// As [`ServeError`] tells; then nothing is attached.
    pub fn attach(card: &LiveCard) -> Result<Self, ServeError> {
        enter_private_namespace()?;
        stay_out_of_reclaim();
        let point = covered_folder()?;
        let ended = mount(&point, card.clone())?;
        let attached = attach(&point.join(file_name()), card);
        // The loop device holds the file by itself now, or nothing does.
        let detached = rustix::mount::unmount(&point, UnmountFlags::DETACH);
        let device = attached?;
        detached.map_err(|error| ServeError::Fuse(error.into()))?;
        let attributes = device.queue();
        let device = Attached::new(device);
        let notes = queue::set(&attributes, card.description(), card.depth())
            .map_err(|source| ServeError::Queue { device: device.node.clone(), source })?;
        // One that cannot be measured is not subtracted.
        card.begin(way::measure(&device.node).unwrap_or_default());
        Ok(Self { device, notes, ended })
    }

    /// Its node, `/dev/loopN`.
    pub fn node(&self) -> &Path {
        &self.device.node
    }

    /// Where this kernel does not show the device as the model has it.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Detaches it and waits until its last user is gone.
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
        let queue = self.device.take().map(|device| device.queue());
        if let (Err(_), Some(queue)) = (loop_renewal::renew(&self.node), queue) {
            // Still in use, so the least that is owed to the next user.
            let _ = queue::set_cache(&queue, true);
        }
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

/// Attaches the file; where the free device passes no discards because of what a card that was
/// killed has left, it is made again first.
fn attach(file: &Path, card: &LiveCard) -> Result<LoopDevice, LoopError> {
    let wanted = card.description();
    let options = LoopOptions { sector_bytes: wanted.sector_bytes, ..LoopOptions::default() };
    let mut device = LoopDevice::attach(file, options)?;
    for _ in 0..RENEWALS {
        if wanted.discard_granularity_bytes == 0 || queue::passes_discards(&device.queue()) {
            break;
        }
        let node = device.node().to_owned();
        drop(device);
        // One that cannot be made again is used as it is, and the queue's notes say so.
        let _ = loop_renewal::renew(&node);
        device = LoopDevice::attach(file, options)?;
    }
    Ok(device)
}

/// Mounts the file system, with a thread that answers until the kernel has let go of it; the
/// returned channel then closes.
fn mount(point: &Path, card: LiveCard) -> Result<Receiver<()>, ServeError> {
    let (mounted, wait) = channel();
    let (ending, ended) = channel();
    let point = point.to_owned();
    thread::Builder::new()
        .name("card".to_owned())
        .spawn(move || answer_kernel(&point, card, &mounted, ending))
        .map_err(ServeError::Fuse)?;
    let gone = || std::io::Error::other("the thread that was to answer has ended");
    wait.recv().unwrap_or_else(|_| Err(gone())).map_err(ServeError::Fuse)?;
    Ok(ended)
}

fn answer_kernel(
    point: &Path,
    card: LiveCard,
    mounted: &Sender<std::io::Result<()>>,
    ending: Sender<()>,
) {
    let session = own_file_table().and_then(|()| {
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("flashfit-card".to_owned())];
        config.acl = SessionACL::Owner;
        Session::new(CardFile::new(card)?, point, &config)
    });
    match session {
        Ok(session) => {
            // The receiver waits for this message.
            let _ = mounted.send(Ok(()));
            // Whatever ended it, the kernel reports errors to the users of the device.
            let _ = session.run();
        }
        Err(error) => {
            let _ = mounted.send(Err(error));
        }
    }
    drop(ending);
}

#[expect(unsafe_code, reason = "a thread with its own file table has no safe interface")]
fn own_file_table() -> std::io::Result<()> {
    // SAFETY: this thread neither uses a file that another thread opens later, nor hands one of
    // its own to another; those it has copies of, it never closes.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FILES) }?)
}

/// Keeps the process from waiting for memory that can only be freed by writing to its own device
/// (`PR_SET_IO_FLUSHER`), and from being swapped out. Best effort: it matters when memory is short.
#[expect(unsafe_code, reason = "prctl and mlockall have no safe interface here")]
fn stay_out_of_reclaim() {
    /// `include/uapi/linux/prctl.h`.
    const PR_SET_IO_FLUSHER: libc::c_int = 57;
    const ONE: libc::c_ulong = 1;
    const NONE: libc::c_ulong = 0;
    // SAFETY: neither call takes a pointer; a refusal changes nothing.
    unsafe {
        libc::prctl(PR_SET_IO_FLUSHER, ONE, NONE, NONE, NONE);
        libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT);
    }
}
