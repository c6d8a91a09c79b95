//! The guard: the only maker of a [`WriteConsent`], without which nothing writes to a device.
//!
//! A consent says: this device, with this identity and size, was shown to the user; the user
//! agreed by naming it; and it was not in use. No flag bypasses "in use".
//!
//! A consent holds a descriptor, from before the user is asked until the
//! last write. It is opened from the descriptor of what was shown, never by the path, and compared
//! with it ([`crate::object`]). Every file that a writer gets is the same object opened again. A
//! loop device is attached to the descriptor of its image; a partition's node is held too, and
//! belongs to the held disk. Programs are run on the kernel's own nodes in `/dev`, whose names the
//! held descriptors keep from being given to another device; each time, before they run, the node
//! is compared with the descriptor.
//!
//! A node is held without `O_EXCL`, because mkfs, mount and sfdisk claim it for themselves. Each
//! check, and each file for writing, opens it with `O_EXCL`, which the kernel refuses while a file
//! system on it is mounted or another device is built on it. A claim between a check and the
//! program that follows is refused by that program's own exclusive open.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flashfit_host::{Runner, loop_device};
use rustix::fs::OFlags;

use crate::describe::{Device, DeviceKind};
use crate::in_use::{self, UseReport};
use crate::list;
use crate::object::{ObjectId, TargetFile};
use crate::refusal::Refusal;
use crate::system::SystemRoots;
use crate::units::Bytes;

/// How long a device may be open elsewhere before it counts as in use.
const PATIENCE: Duration = Duration::from_secs(3);
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// What the name of the file behind a simulated card's loop device begins with.
pub const SIMULATED_CARD_FILE: &str = "flashfit-card";

/// The name of the file behind the loop device of the simulated card that this process serves. No
/// two cards may have the same: btrfs-progs takes loop devices over files of one name for one
/// device, and refuses it while the other is mounted.
pub fn simulated_card_file(server: u32) -> String {
    format!("{SIMULATED_CARD_FILE}-{server}")
}

/// How the user agreed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConsentMethod {
    /// The user typed this, at a prompt or with `--confirm`.
    Named(String),
    /// Nobody could be asked.
    NotAsked,
}

/// Leave to write to one device. Only this module makes one.
#[derive(Debug, Clone)]
pub struct WriteConsent {
    path: PathBuf,
    shown: Device,
    /// The device itself, open as long as the consent lives.
    target: TargetFile,
    /// The image behind a loop device of ours, with its size when work on it began.
    image: Option<(PathBuf, TargetFile, Bytes)>,
    /// Whether the user has agreed already, so that work on it has begun.
    is_given: bool,
    /// Processes that may have it open: ourselves and the simulated card's server.
    own: Vec<u32>,
    system: SystemRoots,
}

impl WriteConsent {
    /// Asks for leave to write to `shown`, which the user has seen.
    ///
    /// # Errors
    /// Every reason of [`Refusal`].
    pub fn ask(
        system: &SystemRoots,
        runner: &dyn Runner,
        shown: &Device,
        agreement: &ConsentMethod,
    ) -> Result<Self, Refusal> {
        let own = std::iter::once(std::process::id()).chain(server_of(system, shown)).collect();
        let consent = Self::of(system, shown.clone(), own)?;
        consent.check(runner)?;
        let name = shown.short_name();
        match agreement {
            ConsentMethod::Named(given) if consent.is_named_by(given) => Ok(consent.given()),
            ConsentMethod::Named(given) => Err(Refusal::WrongName { given: given.clone(), name }),
            ConsentMethod::NotAsked => Err(Refusal::NotAgreed { path: shown.path.clone(), name }),
        }
    }

    /// Leave to write to a simulated card that `server` serves as the loop device `node`. Nobody
    /// needs to be asked: nothing but the simulation is lost.
    ///
    /// # Errors
    /// When the device is not a simulated card, or is in use.
    pub fn for_simulated_card(
        system: &SystemRoots,
        runner: &dyn Runner,
        node: &Path,
        server: u32,
    ) -> Result<Self, Refusal> {
        let shown = Device::of_node(system, runner, node)?;
        let backing = system.attribute(&system.block(&shown.disk).join("loop/backing_file"));
        // The file system that it is on was detached, so its path begins there.
        let simulated =
            backing.is_some_and(|path| path == format!("/{}", simulated_card_file(server)));
        if shown.kind != DeviceKind::Loop || !simulated {
            return Err(Refusal::NotSimulated { path: node.to_owned() });
        }
        let consent = Self::of(system, shown, vec![std::process::id(), server])?;
        consent.check(runner)?;
        Ok(consent.given())
    }

    /// Leave to write to the disk with this serial number and size, which whoever asks has attached
    /// to this machine under a serial number of its own making, with leave for what is behind it.
    ///
    /// # Errors
    /// When there is no such disk or more than one, it has another size, or is in use.
    pub fn for_attached(
        system: &SystemRoots,
        runner: &dyn Runner,
        serial: &str,
        capacity: Bytes,
    ) -> Result<Self, Refusal> {
        let has_serial = |medium: &Device| medium.identity.serial.as_deref() == Some(serial);
        let mut found = list::media(system).into_iter().filter(has_serial);
        let (Some(shown), None) = (found.next(), found.next()) else {
            return Err(Refusal::NotAttached { serial: serial.to_owned() });
        };
        if serial.is_empty() || shown.capacity != capacity {
            return Err(Refusal::NotAttached { serial: serial.to_owned() });
        }
        let consent = Self::of(system, shown, vec![std::process::id()])?;
        consent.check(runner)?;
        Ok(consent.given())
    }

    /// The same consent for a device that is nothing but this image in another form: a loop device
    /// over it.
    ///
    /// # Errors
    /// When `node` is not a loop device over exactly this image, or is in use.
    pub fn through_loop(&self, runner: &dyn Runner, node: &Path) -> Result<Self, Refusal> {
        let shown = Device::of_node(&self.system, runner, node)?;
        let mut consent = Self::of(&self.system, shown, self.own.clone())?;
        let image = self.target.id();
        let backing = loop_device::backing_of(consent.target.file());
        if backing != Some((image.device, image.inode)) {
            let what = format!("it is not attached to {}", self.path.display());
            return Err(Refusal::changed(node, &what));
        }
        consent.image = Some((self.path.clone(), self.target.clone(), self.shown.capacity));
        consent.is_given = self.is_given;
        consent.check(runner)?;
        Ok(consent)
    }

    /// The same consent for a partition of this device.
    ///
    /// # Errors
    /// When `node` is not on this device, or is in use.
    pub fn for_partition(&self, runner: &dyn Runner, node: &Path) -> Result<Self, Refusal> {
        let shown = Device::of_node(&self.system, runner, node)?;
        if shown.disk != self.shown.disk || self.shown.disk.is_empty() {
            let what = format!("it is not a partition of {}", self.path.display());
            return Err(Refusal::changed(node, &what));
        }
        if let Some(what) = other_disk(&self.shown, &shown) {
            return Err(Refusal::Changed { path: node.to_owned(), what });
        }
        let partition = Self::of(&self.system, shown, self.own.clone())?;
        let consent = Self { image: self.image.clone(), is_given: self.is_given, ..partition };
        consent.check(runner)?;
        Ok(consent)
    }

    /// Takes hold of what was shown; nobody was asked yet.
    fn of(system: &SystemRoots, mut shown: Device, own: Vec<u32>) -> Result<Self, Refusal> {
        let path = shown.path.clone();
        let open = |source: std::io::Error| Refusal::Open { path: path.clone(), source };
        let looked = match shown.target.take() {
            Some(target) => target,
            // It was shown elsewhere, or only looked at in passing: by what it was then.
            None => TargetFile::look(&path).map_err(|error| match error.raw_os_error() {
                Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
                    Refusal::changed(&path, ANOTHER)
                }
                _ => open(error),
            })?,
        };
        if !shown.object.is_some_and(|object| object.is(&looked.id())) {
            let is_device = shown.kind != DeviceKind::Image && looked.id().node != 0;
            return Err(Refusal::changed(&path, if is_device { ANOTHER_DEVICE } else { ANOTHER }));
        }
        names(&path, &looked.id())?;
        // Held only when nobody uses it: to those who do, this would be a use.
        patiently(|| match uses(system, &shown, &looked, &own).uses {
            uses if uses.is_empty() => Ok(()),
            uses => Err(Refusal::InUse { path: path.clone(), uses }),
        })?;
        if shown.read_only {
            return Err(Refusal::ReadOnly { path });
        }
        let target = looked.hold().map_err(open)?;
        let system = system.clone();
        Ok(Self { path, shown, target, image: None, is_given: false, own, system })
    }

    fn given(self) -> Self {
        Self { is_given: true, ..self }
    }

    /// The device's node or image file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A name of the very object for a program that opens it while this consent lives. Only for
    /// images and whole devices: programs do not find a device's partitions by it.
    pub fn path_for_programs(&self) -> PathBuf {
        self.target.path_for_programs()
    }

    /// The device as it was shown.
    pub fn medium(&self) -> &Device {
        &self.shown
    }

    /// The held device itself.
    pub(crate) fn target(&self) -> &TargetFile {
        &self.target
    }

    /// Looks again: still there, still the same, still unused. To be called before every step that
    /// writes, since the last look may be minutes old. A process that only has it open is given a
    /// moment to close it: udev and its like look into every device that was just written.
    ///
    /// # Errors
    /// Every reason of [`Refusal`] but the want of agreement.
    pub fn check(&self, runner: &dyn Runner) -> Result<(), Refusal> {
        let _ = runner;
        patiently(|| self.check_once())
    }

    fn check_once(&self) -> Result<(), Refusal> {
        self.check_same()?;
        let found = uses(&self.system, &self.shown, &self.target, &self.own);
        if !found.uses.is_empty() {
            return Err(Refusal::InUse { path: self.path.clone(), uses: found.uses });
        }
        if let Some(what) = found.unseen {
            return Err(Refusal::Unseen { path: self.path.clone(), what });
        }
        // An image is held for writing already, and nobody can claim it.
        if self.shown.kind == DeviceKind::Image { Ok(()) } else { self.open().map(drop) }
    }

    /// Whether it is still what was shown, and as large; not whether anybody uses it. Cheap enough
    /// for each program that is run.
    ///
    /// # Errors
    /// As [`WriteConsent::check`], but for uses.
    pub fn check_same(&self) -> Result<(), Refusal> {
        names(&self.path, &self.target.id())?;
        if let Some((path, image, before)) = &self.image {
            unresized(path, image, *before)?;
        }
        if self.shown.kind == DeviceKind::Image {
            return unresized(&self.path, &self.target, self.shown.capacity).map_err(|refusal| {
                match refusal {
                    Refusal::Resized { path, before, now } if !self.is_given => {
                        Refusal::Changed { path, what: resized(before, now) }
                    }
                    other => other,
                }
            });
        }
        let now = Device::at_a_glance(&self.system, &self.path)?;
        if let Some(what) = difference(&self.shown, &now) {
            return Err(Refusal::Changed { path: self.path.clone(), what });
        }
        if now.read_only {
            return Err(Refusal::ReadOnly { path: self.path.clone() });
        }
        Ok(())
    }

    /// Opens the held device once more for writing, alone (`O_EXCL` refuses a block device that
    /// anybody in any namespace has mounted or claimed).
    ///
    /// # Errors
    /// [`Refusal::Busy`] or [`Refusal::Open`].
    pub fn open(&self) -> Result<File, Refusal> {
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

    /// Opens the held device once more for reading, whoever else has it.
    pub fn open_for_reading(&self) -> Result<File, Refusal> {
        let opened = self.target.reopen(OFlags::RDONLY);
        opened.map_err(|source| Refusal::Open { path: self.path.clone(), source })
    }

    fn is_named_by(&self, given: &str) -> bool {
        let named = || {
            std::fs::metadata(given).is_ok_and(|found| ObjectId::of(&found).is(&self.target.id()))
        };
        given == self.shown.short_name()
            || self.shown.identity.serial.as_deref() == Some(given)
            || self.shown.identity.cid.as_deref() == Some(given)
            || (given.contains('/') && named())
    }
}

/// Looks until there is no objection, or none that may be over in a moment.
fn patiently(look: impl Fn() -> Result<(), Refusal>) -> Result<(), Refusal> {
    let began = Instant::now();
    loop {
        match look() {
            Err(refusal) if refusal.may_pass() && began.elapsed() < PATIENCE => {
                std::thread::sleep(RETRY_INTERVAL);
            }
            other => return other,
        }
    }
}

/// Why a device would be refused, as far as that is known without opening it for writing; for dry
/// runs.
pub fn objection(system: &SystemRoots, shown: &Device) -> Option<Refusal> {
    let path = shown.path.clone();
    let own: Vec<u32> =
        std::iter::once(std::process::id()).chain(server_of(system, shown)).collect();
    let uses = uses(system, shown, shown.target.as_ref()?, &own).uses;
    if !uses.is_empty() {
        return Some(Refusal::InUse { path, uses });
    }
    shown.read_only.then_some(Refusal::ReadOnly { path })
}

fn uses(system: &SystemRoots, shown: &Device, target: &TargetFile, own: &[u32]) -> UseReport {
    if shown.kind == DeviceKind::Image {
        return in_use::of_image(system, &shown.path, target, own);
    }
    let node = target.id().node;
    let name = system.name_of((rustix::fs::major(node), rustix::fs::minor(node)));
    in_use::of_device(system, &name.unwrap_or_else(|| shown.short_name()), own)
}

const ANOTHER: &str = "it is another file now";
const ANOTHER_DEVICE: &str = "it is another device now";

/// Whether `path` names this very object. What is not there is for whoever looks closer to tell.
fn names(path: &Path, id: &ObjectId) -> Result<(), Refusal> {
    match ObjectId::at(path) {
        Ok(now) if now.is(id) => Ok(()),
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(Refusal::Open { path: path.to_owned(), source })
        }
        Err(_) if id.node != 0 => Ok(()),
        Err(_) => Err(Refusal::changed(path, "it is not there any more")),
        Ok(now) if now.node != 0 && id.node != 0 => Err(Refusal::changed(path, ANOTHER_DEVICE)),
        Ok(_) => Err(Refusal::changed(path, ANOTHER)),
    }
}

fn unresized(path: &Path, image: &TargetFile, before: Bytes) -> Result<(), Refusal> {
    let failed = |source| Refusal::Open { path: path.to_owned(), source };
    let now = Bytes(image.image_bytes().map_err(failed)?);
    if now == before {
        Ok(())
    } else {
        Err(Refusal::Resized { path: path.to_owned(), before, now })
    }
}

fn resized(before: Bytes, now: Bytes) -> String {
    let size = |bytes: Bytes| format!("{bytes} ({} bytes)", bytes.0);
    format!("its size was {} and is {}", size(before), size(now))
}

/// The process that serves a simulated card, which has it open and does not use it. The file behind
/// the card's loop device is named after it, and lies on no file system that is mounted.
fn server_of(system: &SystemRoots, shown: &Device) -> Option<u32> {
    let folder = system.block(&shown.disk).join("loop/backing_file");
    let backing = system.attribute(&folder).filter(|_| shown.kind == DeviceKind::Loop)?;
    let server = backing.strip_prefix('/')?.strip_prefix(SIMULATED_CARD_FILE)?.strip_prefix('-')?;
    server.parse().ok().filter(|server| backing == format!("/{}", simulated_card_file(*server)))
}

/// What tells two looks at a device apart, if anything does.
fn difference(shown: &Device, now: &Device) -> Option<String> {
    if shown.capacity != now.capacity {
        return Some(resized(shown.capacity, now.capacity));
    }
    other_disk(shown, now)
}

/// What tells the disks of two looks apart, if anything does.
fn other_disk(shown: &Device, now: &Device) -> Option<String> {
    if shown.identity != now.identity {
        let (before, after) = (shown.identity.summary(), now.identity.summary());
        return Some(format!("it was `{before}` and is `{after}`, or was taken out in between"));
    }
    None
}
