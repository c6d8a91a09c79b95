//! The guard: the only maker of a [`WriteConsent`], without which nothing writes to a medium.
//!
//! A consent says: this medium, with this identity and size, was shown to the user; the user
//! agreed by naming it; and it was not in use. Before each use it is looked at again, because media
//! are pulled out and swapped. No flag bypasses "in use".

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flashfit_host::{ExitClass, Explain, Runner};

use crate::describe::{Kind, Medium, MediumError};
use crate::in_use::{self, Use};
use crate::list;
use crate::system::{System, device_number};
use crate::units::Bytes;

/// How long a medium may be open elsewhere before it counts as in use.
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
pub enum Agreement {
    /// The user typed this, at a prompt or with `--confirm`.
    Named(String),
    /// Nobody could be asked.
    NotAsked,
}

/// Why nothing will be written.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Somebody uses it.
    #[error("{} is in use: {}", path.display(), list(uses))]
    InUse {
        /// The medium.
        path: PathBuf,
        /// By whom.
        uses: Vec<Use>,
    },
    /// The kernel says that it is busy, and not why.
    #[error("{} is busy: the kernel does not give it to us alone", path.display())]
    Busy {
        /// The medium.
        path: PathBuf,
    },
    /// It is not the medium that was shown.
    #[error("{} has changed since it was shown: {what}", path.display())]
    Changed {
        /// The medium.
        path: PathBuf,
        /// What differs.
        what: String,
    },
    /// There is no agreement.
    #[error("all data on {} would be lost, and nobody agreed to that", path.display())]
    NotAgreed {
        /// The medium.
        path: PathBuf,
        /// The name that says yes.
        name: String,
    },
    /// The wrong name was given.
    #[error("`{given}` is not the name of the medium, which is `{name}`")]
    WrongName {
        /// What was given.
        given: String,
        /// What would have been right.
        name: String,
    },
    /// It refuses writes itself.
    #[error("{} is write-protected", path.display())]
    ReadOnly {
        /// The medium.
        path: PathBuf,
    },
    /// A loop device that is not over a simulated card of ours.
    #[error("{} is not a simulated card", path.display())]
    NotSimulated {
        /// The device.
        path: PathBuf,
    },
    /// No disk, or more than one, has the serial number and size under which one was attached.
    #[error("the disk that was attached as {serial} is not there")]
    NotAttached {
        /// The serial number.
        serial: String,
    },
    /// It cannot be looked at.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// It cannot be opened for writing.
    #[error("cannot open {} for writing: {source}", path.display())]
    Open {
        /// The medium.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

fn list(uses: &[Use]) -> String {
    uses.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl Refusal {
    /// Whether it may be over in a moment, without anybody doing anything.
    fn may_pass(&self) -> bool {
        match self {
            Self::InUse { uses, .. } => uses.iter().all(|found| matches!(found, Use::Open { .. })),
            Self::Busy { .. } => true,
            _ => false,
        }
    }
}

impl Explain for Refusal {
    fn class(&self) -> ExitClass {
        match self {
            Self::Medium(error) => error.class(),
            Self::Open { source, .. } => match source.kind() {
                std::io::ErrorKind::PermissionDenied => ExitClass::Environment,
                _ => ExitClass::Io,
            },
            _ => ExitClass::Refused,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::InUse { uses, .. } => uses.first().map(Use::remedy),
            Self::Busy { .. } => {
                Some("see who has it: lsof, lsblk, or another mount namespace".into())
            }
            Self::Changed { .. } => Some("look at it again: flashfit inspect".into()),
            Self::NotAgreed { name, .. } | Self::WrongName { name, .. } => {
                Some(format!("add --confirm {}", flashfit_host::program::quote(name)))
            }
            Self::ReadOnly { .. } => Some("slide the card's lock, or blockdev --setrw".into()),
            Self::Medium(error) => error.hint(),
            Self::Open { .. } => Some("run it as root".into()),
            Self::NotSimulated { .. } | Self::NotAttached { .. } => None,
        }
    }
}

/// Leave to write to one medium. Only this module makes one.
#[derive(Debug, Clone)]
pub struct WriteConsent {
    path: PathBuf,
    shown: Medium,
    /// Processes that may have it open: ourselves and the simulated card's server.
    own: Vec<u32>,
    system: System,
}

impl WriteConsent {
    /// Asks for leave to write to `shown`, which the user has seen.
    ///
    /// # Errors
    /// Every reason of [`Refusal`].
    pub fn ask(
        system: &System,
        runner: &dyn Runner,
        shown: &Medium,
        agreement: &Agreement,
    ) -> Result<Self, Refusal> {
        let consent = Self {
            path: shown.path.clone(),
            shown: shown.clone(),
            own: std::iter::once(std::process::id()).chain(server_of(system, shown)).collect(),
            system: system.clone(),
        };
        consent.check(runner)?;
        let name = shown.short_name();
        match agreement {
            Agreement::Named(given) if consent.is_named_by(given) => Ok(consent),
            Agreement::Named(given) => Err(Refusal::WrongName { given: given.clone(), name }),
            Agreement::NotAsked => Err(Refusal::NotAgreed { path: shown.path.clone(), name }),
        }
    }

    /// Leave to write to a simulated card that `server` serves as the loop device `node`. Nobody
    /// needs to be asked: nothing but the simulation is lost.
    ///
    /// # Errors
    /// When the device is no simulated card, or is in use.
    pub fn for_simulated_card(
        system: &System,
        runner: &dyn Runner,
        node: &Path,
        server: u32,
    ) -> Result<Self, Refusal> {
        let shown = Medium::of_node(system, runner, node)?;
        let backing = system.attribute(&system.block(&shown.disk).join("loop/backing_file"));
        // The file system that it is on was detached, so its path begins there.
        let simulated =
            backing.is_some_and(|path| path == format!("/{}", simulated_card_file(server)));
        if shown.kind != Kind::Loop || !simulated {
            return Err(Refusal::NotSimulated { path: node.to_owned() });
        }
        let own = vec![std::process::id(), server];
        let consent = Self { path: node.to_owned(), shown, own, system: system.clone() };
        consent.check(runner)?;
        Ok(consent)
    }

    /// Leave to write to the disk with this serial number and size, which whoever asks has attached
    /// to this machine under a serial number of its own making, with leave for what is behind it.
    ///
    /// # Errors
    /// When there is no such disk or more than one, it has another size, or is in use.
    pub fn for_attached(
        system: &System,
        runner: &dyn Runner,
        serial: &str,
        capacity: Bytes,
    ) -> Result<Self, Refusal> {
        let has_serial = |medium: &Medium| medium.identity.serial.as_deref() == Some(serial);
        let mut found = list::media(system).into_iter().filter(has_serial);
        let (Some(shown), None) = (found.next(), found.next()) else {
            return Err(Refusal::NotAttached { serial: serial.to_owned() });
        };
        if serial.is_empty() || shown.capacity != capacity {
            return Err(Refusal::NotAttached { serial: serial.to_owned() });
        }
        let own = vec![std::process::id()];
        let consent = Self { path: shown.path.clone(), shown, own, system: system.clone() };
        consent.check(runner)?;
        Ok(consent)
    }

    /// The same consent for a device that is nothing but this medium in another form: a loop device
    /// over the consented image.
    ///
    /// # Errors
    /// When `node` is not a loop device over exactly this image, or is in use.
    pub fn through_loop(&self, runner: &dyn Runner, node: &Path) -> Result<Self, Refusal> {
        let shown = Medium::of_node(&self.system, runner, node)?;
        let backing =
            self.system.attribute(&self.system.block(&shown.disk).join("loop/backing_file"));
        if backing.as_deref().map(Path::new) != Some(self.path.as_path()) {
            return Err(Refusal::Changed {
                path: node.to_owned(),
                what: format!("it is not attached to {}", self.path.display()),
            });
        }
        let consent = Self { path: node.to_owned(), shown, ..self.clone() };
        consent.check(runner)?;
        Ok(consent)
    }

    /// The same consent for a partition of this medium.
    ///
    /// # Errors
    /// When `node` is not on this medium, or is in use.
    pub fn for_partition(&self, runner: &dyn Runner, node: &Path) -> Result<Self, Refusal> {
        let shown = Medium::of_node(&self.system, runner, node)?;
        if shown.disk != self.shown.disk || self.shown.disk.is_empty() {
            return Err(Refusal::Changed {
                path: node.to_owned(),
                what: format!("it is not a partition of {}", self.path.display()),
            });
        }
        if let Some(what) = other_disk(&self.shown, &shown) {
            return Err(Refusal::Changed { path: node.to_owned(), what });
        }
        let consent = Self { path: node.to_owned(), shown, ..self.clone() };
        consent.check(runner)?;
        Ok(consent)
    }

    /// The medium's node or image file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The medium as it was shown.
    pub fn medium(&self) -> &Medium {
        &self.shown
    }

    /// Looks again: still there, still the same, still unused. To be called before every step that
    /// writes, since the last look may be minutes old. A process that only has it open is given a
    /// moment to close it: udev and its like look into every device that was just written.
    ///
    /// # Errors
    /// Every reason of [`Refusal`] but the want of agreement.
    pub fn check(&self, runner: &dyn Runner) -> Result<(), Refusal> {
        let began = Instant::now();
        loop {
            match self.check_once(runner) {
                Err(refusal) if refusal.may_pass() && began.elapsed() < PATIENCE => {
                    std::thread::sleep(RETRY_INTERVAL);
                }
                other => return other,
            }
        }
    }

    fn check_once(&self, runner: &dyn Runner) -> Result<(), Refusal> {
        let uses = if self.shown.kind == Kind::Image {
            in_use::of_image(&self.system, &self.path, &self.own)
        } else {
            in_use::of_device(&self.system, &self.shown_name(), &self.own)
        };
        if !uses.is_empty() {
            return Err(Refusal::InUse { path: self.path.clone(), uses });
        }
        let now = match self.shown.kind {
            Kind::Image => Medium::of_image(runner, &self.path)?,
            _ => Medium::at_a_glance(&self.system, &self.path)?,
        };
        if let Some(what) = difference(&self.shown, &now) {
            return Err(Refusal::Changed { path: self.path.clone(), what });
        }
        if now.read_only {
            return Err(Refusal::ReadOnly { path: self.path.clone() });
        }
        self.open().map(drop)
    }

    /// Opens the medium for writing, alone (`O_EXCL` refuses a block device that anybody in any
    /// namespace has mounted or claimed).
    ///
    /// # Errors
    /// [`Refusal::Busy`] or [`Refusal::Open`].
    pub fn open(&self) -> Result<File, Refusal> {
        let exclusive =
            if self.shown.kind == Kind::Image { 0 } else { rustix::fs::OFlags::EXCL.bits() };
        let flags = i32::try_from(exclusive).expect("O_EXCL is a small positive number");
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&self.path);
        file.map_err(|source| {
            if source.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) {
                Refusal::Busy { path: self.path.clone() }
            } else {
                Refusal::Open { path: self.path.clone(), source }
            }
        })
    }

    fn shown_name(&self) -> String {
        device_number(&self.path)
            .and_then(|number| self.system.name_of(number))
            .unwrap_or_else(|| self.shown.short_name())
    }

    fn is_named_by(&self, given: &str) -> bool {
        let given_number =
            std::fs::metadata(given).ok().map(|found| (found.dev(), found.ino(), found.rdev()));
        let own_number = std::fs::metadata(&self.path)
            .ok()
            .map(|found| (found.dev(), found.ino(), found.rdev()));
        given == self.shown.short_name()
            || self.shown.identity.serial.as_deref() == Some(given)
            || self.shown.identity.cid.as_deref() == Some(given)
            || (given.contains('/') && given_number.is_some() && given_number == own_number)
    }
}

/// The process that serves a simulated card, which has it open and does not use it. The file behind
/// the card's loop device is named after it, and lies on no file system that is mounted.
fn server_of(system: &System, shown: &Medium) -> Option<u32> {
    let folder = system.block(&shown.disk).join("loop/backing_file");
    let backing = system.attribute(&folder).filter(|_| shown.kind == Kind::Loop)?;
    let server = backing.strip_prefix('/')?.strip_prefix(SIMULATED_CARD_FILE)?.strip_prefix('-')?;
    server.parse().ok().filter(|server| backing == format!("/{}", simulated_card_file(*server)))
}

/// What tells two looks at a medium apart, if anything does.
fn difference(shown: &Medium, now: &Medium) -> Option<String> {
    let size = |bytes: Bytes| format!("{bytes} ({} bytes)", bytes.0);
    if shown.capacity != now.capacity {
        let (before, after) = (size(shown.capacity), size(now.capacity));
        return Some(format!("its size was {before} and is {after}"));
    }
    other_disk(shown, now)
}

/// What tells the disks of two looks apart, if anything does.
fn other_disk(shown: &Medium, now: &Medium) -> Option<String> {
    if shown.identity != now.identity {
        let (before, after) = (shown.identity.summary(), now.identity.summary());
        return Some(format!("it was `{before}` and is `{after}`, or was taken out in between"));
    }
    None
}
