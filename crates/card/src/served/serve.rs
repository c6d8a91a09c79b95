//! Serving a card until it is told to stop.
//!
//! The thread that answers the kernel has a table of open files of its own. So when the process is
//! killed while another of its threads waits for the device, the connection to the kernel is closed
//! nevertheless, that wait ends with an error, and the process can go.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use flashfit_host::loop_device::{LoopDevice, LoopError, LoopOptions};
use flashfit_host::mount::{MountError, enter_private_namespace};
use flashfit_host::{ExitClass, Explain};
use fuser::{Config, MountOption, Session, SessionACL};
use rustix::mount::UnmountFlags;
use rustix::thread::UnshareFlags;

use super::control::Control;
use super::file_system::{CardFile, FILE_NAME, SharedCard};
use super::protocol::{Answer, Failure, line};
use super::{queue, renewal, socket};
use crate::card::Card;
use crate::model::CardModel;

/// Another process may take the device that was made anew, and leave another stale one.
const RENEWALS: u32 = 3;

/// How to serve.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// How long to wait, when told to stop, for the last user of the device to go.
    pub stop_wait: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self { stop_wait: Duration::from_secs(10) }
    }
}

/// Why a card is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No private mounts.
    #[error(transparent)]
    Namespace(#[from] MountError),
    /// No FUSE file system.
    #[error("cannot mount a FUSE file system: {0}")]
    Fuse(std::io::Error),
    /// No loop device.
    #[error(transparent)]
    Loop(#[from] LoopError),
    /// The loop device cannot be made to look like the card.
    #[error("cannot set up the queue of {}: {source}", device.display())]
    Queue {
        /// The device.
        device: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another process answers for a card of that name.
    #[error("cannot listen for questions about {}: {source}", device.display())]
    Socket {
        /// The device.
        device: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Whoever started the card does not read what it says.
    #[error("cannot say that the card is ready: {0}")]
    Output(std::io::Error),
    /// The card ended while somebody still used its device.
    #[error("{} was still in use when its card was stopped", device.display())]
    InUse {
        /// The device.
        device: PathBuf,
    },
}

impl Explain for ServeError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Namespace(error) => error.class(),
            Self::Loop(error) => error.class(),
            Self::InUse { .. } => ExitClass::Io,
            Self::Fuse(_) | Self::Queue { .. } | Self::Socket { .. } | Self::Output(_) => {
                ExitClass::Environment
            }
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Namespace(error) => error.hint(),
            Self::Loop(error) => error.hint(),
            Self::Fuse(source) if source.kind() == std::io::ErrorKind::NotFound => {
                Some("modprobe fuse".to_owned())
            }
            Self::InUse { device } => Some(format!("umount {}", device.display())),
            _ => None,
        }
    }
}

/// Serves a card as a block device until `control` ends or asks to stop.
///
/// The first line to `output` says which device it is, or why there is none; then each line of
/// `control` is answered with one line. For a process of its own, before it has started any thread:
/// the process must end when this returns, and nothing else may be written to `output`.
///
/// # Errors
/// As [`ServeError`] tells; one that prevents the device is also the first line of `output`.
pub fn run(
    model: &CardModel,
    options: &ServeOptions,
    control: impl BufRead + Send + 'static,
    mut output: impl Write + Send + 'static,
) -> Result<(), ServeError> {
    let started = start(model);
    let Started { card, device, listener, notes, ended } = match started {
        Ok(started) => started,
        Err(error) => {
            refuse(&mut output, &error);
            return Err(error);
        }
    };
    let node = device.node.clone();
    let ready = Answer::Ready { device: node.clone(), notes };
    output
        .write_all(line(&ready).as_bytes())
        .and_then(|()| output.flush())
        .map_err(ServeError::Output)?;
    wait_for_stop(card, listener, control, output);
    drop(device);
    // An error and a message both mean that the kernel has let go of the file.
    match ended.recv_timeout(options.stop_wait) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => Err(ServeError::InUse { device: node }),
        _ => Ok(()),
    }
}

/// Says, as the first line of `output`, why there is no card. For errors before [`run`].
pub fn refuse(output: &mut impl Write, error: &dyn Explain) {
    // Nobody is left to hear of a failure to say so.
    let _ = output.write_all(line(&Answer::Failed(Failure::of(error))).as_bytes());
    let _ = output.flush();
}

/// An attached loop device, made anew when it is dropped.
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
        if let (Err(_), Some(queue)) = (renewal::renew(&self.node), queue) {
            // Still in use, so the least that is owed to the next user.
            let _ = queue::set_cache(&queue, true);
        }
    }
}

struct Started {
    card: SharedCard,
    device: Attached,
    listener: std::os::unix::net::UnixListener,
    notes: Vec<String>,
    ended: Receiver<()>,
}

fn start(model: &CardModel) -> Result<Started, ServeError> {
    enter_private_namespace()?;
    stay_out_of_reclaim();
    let card = SharedCard::new(Card::new(model));
    let point = covered_folder()?;
    let ended = mount(&point, card.clone())?;
    let attached = attach(&point.join(FILE_NAME), model);
    // The loop device holds the file by itself now, or nothing does.
    let detached = rustix::mount::unmount(&point, UnmountFlags::DETACH);
    let device = attached?;
    detached.map_err(|error| ServeError::Fuse(error.into()))?;
    let attributes = device.queue();
    let device = Attached::new(device);
    let node = device.node.clone();
    let notes = queue::set(&attributes, &card.lock().description())
        .map_err(|source| ServeError::Queue { device: node.clone(), source })?;
    let listener = socket::listen(&node)
        .map_err(|source| ServeError::Socket { device: node.clone(), source })?;
    // What the kernel read to look for partitions is nobody's workload.
    card.lock().reset_counters();
    Ok(Started { card, device, listener, notes, ended })
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
/// killed has left, it is made anew first.
fn attach(file: &Path, model: &CardModel) -> Result<LoopDevice, LoopError> {
    let options = LoopOptions { sector_bytes: model.sector_bytes, ..LoopOptions::default() };
    let mut device = LoopDevice::attach(file, options)?;
    for _ in 0..RENEWALS {
        if model.discard.is_none() || queue::passes_discards(&device.queue()) {
            break;
        }
        let node = device.node().to_owned();
        drop(device);
        // One that cannot be made anew is used as it is, and the queue's notes say so.
        let _ = renewal::renew(&node);
        device = LoopDevice::attach(file, options)?;
    }
    Ok(device)
}

/// Mounts the file system, with a thread that answers until the kernel has let go of it; the
/// returned channel then closes.
fn mount(point: &Path, card: SharedCard) -> Result<Receiver<()>, ServeError> {
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
    card: SharedCard,
    mounted: &Sender<std::io::Result<()>>,
    ending: Sender<()>,
) {
    let session = own_file_table().and_then(|()| {
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("flashfit-card".to_owned())];
        config.acl = SessionACL::Owner;
        Session::new(CardFile::new(card), point, &config)
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

fn wait_for_stop(
    card: SharedCard,
    listener: std::os::unix::net::UnixListener,
    control: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
) {
    let (stop, stopped) = channel();
    let asked = Control { card, stop };
    let from_socket = asked.clone();
    thread::spawn(move || socket::answer(&listener, &from_socket));
    thread::spawn(move || {
        asked.answer_all(control, output);
        // The end of the control input means that the parent is gone.
        let _ = asked.stop.send(());
    });
    // The threads hold the sender for as long as the process lives.
    let _ = stopped.recv();
}
