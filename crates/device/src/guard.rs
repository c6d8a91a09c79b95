//! The guard: the only code that creates a [`WriteConsent`], which every write requires.
//!
//! A consent states that the device, with its identity and size, was shown to the user, that the
//! user confirmed it by name, and that it was not in use. No flag overrides "in use".
//!
//! A consent keeps a descriptor open from before the user is asked until the last write. The
//! descriptor is opened from the one that was shown, never by path, and compared with it
//! ([`crate::object`]). Every file handed to a writer is the same object, reopened. A loop device
//! is attached to the descriptor of its image; the node of a partition is kept open and must belong
//! to the confirmed disk. Programs get the path of the open descriptor where they can use it
//! (`WriteConsent::run`); the open descriptors keep the kernel's names from being reused, and each
//! node is compared with its descriptor before and after a program runs.
//!
//! A node is kept open without `O_EXCL`, because mkfs, mount and sfdisk claim it exclusively. Each
//! check, and each file for writing, opens it with `O_EXCL`, which fails while a file system on it
//! is mounted or another device is built on it. If somebody claims it between a check and the next
//! program, that program's own exclusive open fails.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flashfit_host::{ProgramError, Runner, loop_device, path_text};
use rustix::fs::OFlags;

use crate::describe::{Device, DeviceKind};
use crate::in_use::{self, UsageReport};
use crate::list;
use crate::object::{ObjectId, TargetFile};
use crate::partitions;
use crate::refusal::Refusal;
use crate::system::SystemRoots;
use crate::units::{Bytes, SECTOR_BYTES};

/// How long another process may keep the device open before it counts as in use.
const OPEN_TIMEOUT: Duration = Duration::from_secs(3);
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Prefix of the name of the file behind a simulated card's loop device.
pub const SIMULATED_CARD_FILE: &str = "flashfit-card";

/// Name of the file behind the loop device of the simulated card that process `server` serves. It
/// must be unique: btrfs-progs treats loop devices over files of one name as one device, and
/// refuses it while the other one is mounted.
pub fn simulated_card_file(server: u32) -> String {
    format!("{SIMULATED_CARD_FILE}-{server}")
}

/// How the user confirmed the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConsentMethod {
    /// Typed at a prompt or given with `--confirm`.
    Named(String),
    /// There is no terminal to ask at.
    NotAsked,
    /// The user interrupted the question.
    Interrupted,
}

/// Permission to write to one device.
#[derive(Debug, Clone)]
pub struct WriteConsent {
    path: PathBuf,
    shown: Device,
    /// The device, open for the lifetime of the consent.
    target: TargetFile,
    /// The image behind our loop device, with its size at the start of the job.
    image: Option<(PathBuf, TargetFile, Bytes)>,
    /// Whether the user has already confirmed, that is, the job has started.
    is_confirmed: bool,
    /// Processes that may have it open: this one and the simulated card's server.
    own_pids: Vec<u32>,
    system: SystemRoots,
}

impl WriteConsent {
    /// Checks `shown`, which the user has seen, and its confirmation.
    ///
    /// # Errors
    /// Any [`Refusal`].
    pub fn ask(
        system: &SystemRoots,
        runner: &dyn Runner,
        shown: &Device,
        agreement: &ConsentMethod,
    ) -> Result<Self, Refusal> {
        let own_pids =
            std::iter::once(std::process::id()).chain(server_of(system, shown)).collect();
        let consent = Self::prepare(system, shown.clone(), own_pids)?;
        consent.check(runner)?;
        consent.check_partitions(runner)?;
        let name = shown.short_name();
        match agreement {
            ConsentMethod::Named(given) if consent.is_named_by(given) => Ok(consent.confirmed()),
            ConsentMethod::Named(given) => Err(Refusal::WrongName { given: given.clone(), name }),
            ConsentMethod::NotAsked => {
                Err(Refusal::NotConfirmed { path: shown.path.clone(), name })
            }
            ConsentMethod::Interrupted => Err(Refusal::Interrupted { path: shown.path.clone() }),
        }
    }

    /// Consent for a simulated card that `server` serves as the loop device `node`. No confirmation
    /// is needed, because only simulated data is lost.
    ///
    /// # Errors
    /// When the device is not a simulated card, or is in use.
    pub fn for_simulated_card(
        system: &SystemRoots,
        runner: &dyn Runner,
        node: &Path,
        server: u32,
    ) -> Result<Self, Refusal> {
        let shown = Device::from_node(system, runner, node)?;
        let backing = system.attribute(&system.block(&shown.disk).join("loop/backing_file"));
        // The FUSE mount was detached, so the kernel reports a path relative to its root.
        let simulated =
            backing.is_some_and(|path| path == format!("/{}", simulated_card_file(server)));
        if shown.kind != DeviceKind::Loop || !simulated {
            return Err(Refusal::NotSimulated { path: node.to_owned() });
        }
        let consent = Self::prepare(system, shown, vec![std::process::id(), server])?;
        consent.check(runner)?;
        Ok(consent.confirmed())
    }

    /// Consent for a disk that the caller attached to this machine under its own serial number
    /// choosing, with consent for the device behind it.
    ///
    /// # Errors
    /// When there is not exactly one such disk, its size differs, or it is in use.
    pub fn for_attached_disk(
        system: &SystemRoots,
        runner: &dyn Runner,
        serial: &str,
        capacity: Bytes,
    ) -> Result<Self, Refusal> {
        let has_serial = |device: &Device| device.identity.serial.as_deref() == Some(serial);
        let mut found = list::devices(system).into_iter().filter(has_serial);
        let (Some(shown), None) = (found.next(), found.next()) else {
            return Err(Refusal::NotAttached { serial: serial.to_owned() });
        };
        if serial.is_empty() || shown.capacity != capacity {
            return Err(Refusal::NotAttached { serial: serial.to_owned() });
        }
        let consent = Self::prepare(system, shown, vec![std::process::id()])?;
        consent.check(runner)?;
        Ok(consent.confirmed())
    }

    /// Transfers the consent for an image to the loop device `node` over it.
    ///
    /// # Errors
    /// When `node` is not a loop device over this image, or is in use.
    pub fn through_loop(&self, runner: &dyn Runner, node: &Path) -> Result<Self, Refusal> {
        let shown = Device::from_node(&self.system, runner, node)?;
        let mut consent = Self::prepare(&self.system, shown, self.own_pids.clone())?;
        let image = self.target.id();
        let backing = loop_device::backing_of(consent.target.file());
        if backing != Some((image.device, image.inode)) {
            let what = format!("it is not attached to {}", path_text::to_text(&self.path));
            return Err(Refusal::changed(node, &what));
        }
        consent.image = Some((self.path.clone(), self.target.clone(), self.shown.capacity));
        consent.is_confirmed = self.is_confirmed;
        consent.check(runner)?;
        Ok(consent)
    }

    /// Transfers the consent to a partition of this device.
    ///
    /// # Errors
    /// When `node` is not on this device, or is in use.
    pub fn for_partition(&self, runner: &dyn Runner, node: &Path) -> Result<Self, Refusal> {
        let shown = Device::from_node(&self.system, runner, node)?;
        if shown.disk != self.shown.disk || self.shown.disk.is_empty() {
            let what = format!("it is not a partition of {}", path_text::to_text(&self.path));
            return Err(Refusal::changed(node, &what));
        }
        if let Some(what) = disk_difference(&self.shown, &shown) {
            return Err(Refusal::Changed { path: node.to_owned(), what });
        }
        let partition = Self::prepare(&self.system, shown, self.own_pids.clone())?;
        let consent =
            Self { image: self.image.clone(), is_confirmed: self.is_confirmed, ..partition };
        consent.check(runner)?;
        Ok(consent)
    }

    /// Opens the device that was shown, before the user is asked.
    fn prepare(
        system: &SystemRoots,
        mut shown: Device,
        own_pids: Vec<u32>,
    ) -> Result<Self, Refusal> {
        let path = shown.path.clone();
        let open = |source: std::io::Error| Refusal::Open { path: path.clone(), source };
        let target = match shown.target.take() {
            Some(target) => target,
            // Described on another machine or without opening: compared by its recorded identity.
            None => TargetFile::open(&path).map_err(|error| match error.raw_os_error() {
                Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
                    Refusal::changed(&path, OTHER_FILE)
                }
                _ => open(error),
            })?,
        };
        if !shown.object.is_some_and(|object| object.is_same(&target.id())) {
            let is_device = shown.kind != DeviceKind::Image && target.id().node != 0;
            return Err(Refusal::changed(&path, if is_device { OTHER_DEVICE } else { OTHER_FILE }));
        }
        check_path(&path, &target.id())?;
        // Checked before the device is opened, because other processes would see the open as a use.
        retry_while_transient(|| match usage(system, &shown, &target, &own_pids).uses {
            uses if uses.is_empty() => Ok(()),
            uses => Err(Refusal::InUse { path: path.clone(), uses }),
        })?;
        if shown.read_only {
            return Err(Refusal::ReadOnly { path });
        }
        let target = target.open_for_use().map_err(open)?;
        let system = system.clone();
        Ok(Self { path, shown, target, image: None, is_confirmed: false, own_pids, system })
    }

    /// The same consent for checks while a process that this one started has the device open, too.
    #[must_use]
    pub fn shared_with(&self, process: u32) -> Self {
        let mut shared = self.clone();
        shared.own_pids.push(process);
        shared.target.opened_elsewhere();
        shared
    }

    fn confirmed(self) -> Self {
        Self { is_confirmed: true, ..self }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path to the opened object for other programs while this consent lives. Only for images and
    /// whole devices: programs cannot derive the names of partitions from it.
    pub fn path_for_programs(&self) -> PathBuf {
        self.target.path_for_programs()
    }

    /// The device as it was shown to the user.
    pub fn device(&self) -> &Device {
        &self.shown
    }

    pub(crate) fn target(&self) -> &TargetFile {
        &self.target
    }

    pub(crate) fn system(&self) -> &SystemRoots {
        &self.system
    }

    /// The user was shown no partitions: refuses if there may be some, which nobody could read.
    fn check_partitions(&self, runner: &dyn Runner) -> Result<(), Refusal> {
        let shown = self.device();
        let may_have_some = shown.partition_start.is_none() && shown.capacity.0 >= SECTOR_BYTES;
        if !may_have_some || !shown.partitions.is_empty() {
            return Ok(());
        }
        let path = shown.path.clone();
        match partitions::try_read(runner, &self.handed(&partitions::listing(&path))) {
            // Maybe made by an earlier part of the same job: nobody else has used the device since.
            Ok(_) => Ok(()),
            Err(ProgramError::Interrupted { .. }) => Err(Refusal::Interrupted { path }),
            Err(error) => Err(Refusal::PartitionsUnknown { path, reason: error.to_string() }),
        }
    }

    /// Checks again that the device is present, unchanged and unused. Call it before every step
    /// that writes, because minutes may have passed. A process that merely has the device open gets
    /// a few seconds to close it: udev probes every device after a write.
    ///
    /// # Errors
    /// Any [`Refusal`] except a missing confirmation.
    pub fn check(&self, runner: &dyn Runner) -> Result<(), Refusal> {
        let _ = runner;
        retry_while_transient(|| self.check_once())
    }

    fn check_once(&self) -> Result<(), Refusal> {
        self.check_unused()?;
        // An image is already open for writing and cannot be claimed exclusively.
        if self.shown.kind == DeviceKind::Image { Ok(()) } else { self.open_once().map(drop) }
    }

    /// The same while this process has the device open with [`WriteConsent::open`], which makes
    /// every other exclusive open fail, also that of a check and that of a mount.
    ///
    /// # Errors
    /// Those of [`WriteConsent::check`] except [`Refusal::Busy`].
    pub fn check_while_open(&self) -> Result<(), Refusal> {
        retry_while_transient(|| self.check_unused())
    }

    fn check_unused(&self) -> Result<(), Refusal> {
        self.check_same()?;
        let found = usage(&self.system, &self.shown, &self.target, &self.own_pids);
        if !found.uses.is_empty() {
            return Err(Refusal::InUse { path: self.path.clone(), uses: found.uses });
        }
        if let Some(what) = found.unreadable {
            return Err(Refusal::UsersUnknown { path: self.path.clone(), what });
        }
        Ok(())
    }

    /// Checks that the device is unchanged, but not whether it is in use. Cheap enough to call
    /// before every program.
    ///
    /// # Errors
    /// Those of [`WriteConsent::check`] that do not concern uses.
    pub fn check_same(&self) -> Result<(), Refusal> {
        check_path(&self.path, &self.target.id())?;
        if let Some((path, image, before)) = &self.image {
            check_size(path, image, *before)?;
        }
        if self.shown.kind == DeviceKind::Image {
            return check_size(&self.path, &self.target, self.shown.capacity).map_err(|refusal| {
                match refusal {
                    Refusal::Resized { path, before, now } if !self.is_confirmed => {
                        Refusal::Changed { path, what: size_difference(before, now) }
                    }
                    other => other,
                }
            });
        }
        let now = Device::from_sysfs(&self.system, &self.path)?;
        if let Some(what) = difference(&self.shown, &now) {
            return Err(Refusal::Changed { path: self.path.clone(), what });
        }
        if now.read_only {
            return Err(Refusal::ReadOnly { path: self.path.clone() });
        }
        Ok(())
    }

    /// Reopens the device for exclusive writing. `O_EXCL` refuses a block device that is mounted or
    /// claimed in any namespace. A process that was just started or killed may hold the last
    /// exclusive descriptor a moment longer, so a busy device is tried again for a few seconds.
    ///
    /// # Errors
    /// [`Refusal::Busy`] or [`Refusal::Open`].
    pub fn open(&self) -> Result<File, Refusal> {
        retry_while_transient(|| self.open_once())
    }

    fn open_once(&self) -> Result<File, Refusal> {
        let exclusive = match self.shown.kind {
            DeviceKind::Image => OFlags::empty(),
            _ => OFlags::EXCL,
        };
        self.target.reopen(OFlags::RDWR | exclusive).map_err(|source| {
            if source.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) {
                Refusal::Busy { path: self.path.clone() }
            } else {
                Refusal::Open { path: self.path.clone(), source }
            }
        })
    }

    /// Reopens the device for reading, without exclusive access.
    pub fn open_for_reading(&self) -> Result<File, Refusal> {
        let opened = self.target.reopen(OFlags::RDONLY);
        opened.map_err(|source| Refusal::Open { path: self.path.clone(), source })
    }

    fn is_named_by(&self, given: &str) -> bool {
        let is_path_of_device = || {
            std::fs::metadata(path_text::from_text(given))
                .is_ok_and(|found| ObjectId::from_metadata(&found).is_same(&self.target.id()))
        };
        given == self.shown.short_name()
            || self.shown.identity.serial.as_deref() == Some(given)
            || self.shown.identity.cid.as_deref() == Some(given)
            || (given.contains('/') && is_path_of_device())
    }
}

/// Repeats a check while its refusal is transient, up to [`OPEN_TIMEOUT`].
pub(crate) fn retry_while_transient<T>(
    check: impl Fn() -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let start = Instant::now();
    loop {
        match check() {
            Err(refusal) if refusal.is_transient() && start.elapsed() < OPEN_TIMEOUT => {
                std::thread::sleep(RETRY_INTERVAL);
            }
            other => return other,
        }
    }
}

/// The refusal that a device would get, as far as it can be predicted without opening the device
/// for writing; for dry runs, and before anything else is said of a device.
pub fn refusal_before_consent(system: &SystemRoots, shown: &Device) -> Option<Refusal> {
    let target = shown.target.as_ref()?;
    let own_pids: Vec<u32> =
        std::iter::once(std::process::id()).chain(server_of(system, shown)).collect();
    retry_while_transient(|| {
        let path = shown.path.clone();
        match usage(system, shown, target, &own_pids).uses {
            uses if !uses.is_empty() => Err(Refusal::InUse { path, uses }),
            _ if shown.read_only => Err(Refusal::ReadOnly { path }),
            _ => Ok(()),
        }
    })
    .err()
}

fn usage(
    system: &SystemRoots,
    shown: &Device,
    target: &TargetFile,
    own_pids: &[u32],
) -> UsageReport {
    if shown.kind == DeviceKind::Image {
        return in_use::of_image(system, &shown.path, target, own_pids);
    }
    let node = target.id().node;
    let name = system.name_of((rustix::fs::major(node), rustix::fs::minor(node)));
    in_use::of_device(system, &name.unwrap_or_else(|| shown.short_name()), own_pids)
}

const OTHER_FILE: &str = "it is now another file";
const OTHER_DEVICE: &str = "it is now another device";

/// Checks that `path` names this object. A missing node is accepted here; a later check reports it.
fn check_path(path: &Path, id: &ObjectId) -> Result<(), Refusal> {
    match ObjectId::at(path) {
        Ok(now) if now.is_same(id) => Ok(()),
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(Refusal::Open { path: path.to_owned(), source })
        }
        Err(_) if id.node != 0 => Ok(()),
        Err(_) => Err(Refusal::changed(path, "it no longer exists")),
        Ok(now) if now.node != 0 && id.node != 0 => Err(Refusal::changed(path, OTHER_DEVICE)),
        Ok(_) => Err(Refusal::changed(path, OTHER_FILE)),
    }
}

fn check_size(path: &Path, image: &TargetFile, before: Bytes) -> Result<(), Refusal> {
    let failed = |source| Refusal::Open { path: path.to_owned(), source };
    let now = Bytes(image.image_bytes().map_err(failed)?);
    if now == before {
        Ok(())
    } else {
        Err(Refusal::Resized { path: path.to_owned(), before, now })
    }
}

fn size_difference(before: Bytes, now: Bytes) -> String {
    let size = |bytes: Bytes| format!("{bytes} ({} bytes)", bytes.0);
    format!("its size was {} and is {}", size(before), size(now))
}

/// The process that serves a simulated card; it has the card's file open without using it. The file
/// behind the card's loop device is named after the process and is on a detached mount.
fn server_of(system: &SystemRoots, shown: &Device) -> Option<u32> {
    let folder = system.block(&shown.disk).join("loop/backing_file");
    let backing = system.attribute(&folder).filter(|_| shown.kind == DeviceKind::Loop)?;
    let server = backing.strip_prefix('/')?.strip_prefix(SIMULATED_CARD_FILE)?.strip_prefix('-')?;
    server.parse().ok().filter(|server| backing == format!("/{}", simulated_card_file(*server)))
}

/// What differs between two descriptions of a device.
fn difference(shown: &Device, now: &Device) -> Option<String> {
    if shown.capacity != now.capacity {
        return Some(size_difference(shown.capacity, now.capacity));
    }
    // A kernel may give another partition the name and the number of a deleted one.
    if shown.partition_start != now.partition_start {
        let start = |device: &Device| device.partition_start.unwrap_or_default().0;
        return Some(format!("it started at byte {} and starts at {}", start(shown), start(now)));
    }
    disk_difference(shown, now)
}

/// What differs between the disks of two descriptions.
fn disk_difference(shown: &Device, now: &Device) -> Option<String> {
    if shown.identity != now.identity {
        let (before, after) = (shown.identity.summary(), now.identity.summary());
        return Some(format!("it was `{before}` and is now `{after}`, or it was reinserted"));
    }
    None
}
