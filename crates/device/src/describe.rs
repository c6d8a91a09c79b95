//! A device with everything it and the kernel say of it. Reads only.

use std::fs::File;
use std::path::{Path, PathBuf};

use flashfit_host::mountinfo::{self, MountEntry};
use flashfit_host::{Runner, loop_device};
use flashfit_user_error::{ExitClass, UserError};
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::declared::{DeclaredBytes, DeclaredFacts};
use crate::identity::DeviceIdentity;
use crate::object::{ObjectId, TargetFile};
use crate::partitions::{self, Partition};
use crate::queue::QueueAttributes;
use crate::system::{SystemRoots, device_number};
use crate::units::{Bytes, SECTOR_BYTES};

/// What kind of device it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// An SD or microSD card on a native host.
    SdCard,
    Emmc,
    Usb,
    Nvme,
    /// A SATA or SCSI drive without turning parts.
    Ssd,
    Disk,
    Loop,
    Image,
    Simulated,
    /// Something else, such as a virtual disk.
    Other,
}

impl std::fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::SdCard => "SD card",
            Self::Emmc => "eMMC",
            Self::Usb => "USB",
            Self::Nvme => "NVMe",
            Self::Ssd => "SSD",
            Self::Disk => "disk",
            Self::Loop => "loop device",
            Self::Image => "image file",
            Self::Simulated => "simulated card",
            Self::Other => "block device",
        })
    }
}

/// A partition on which a file system is mounted, or the whole device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountedAt {
    pub node: String,
    pub point: PathBuf,
    /// The kind of file system.
    pub kind: String,
}

/// A device as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its node, or the image file.
    pub path: PathBuf,
    /// The kernel's name of the whole disk; empty for an image.
    pub disk: String,
    /// What kind it is.
    pub kind: DeviceKind,
    /// Its size; of the partition when the path is one.
    pub capacity: Bytes,
    /// Where it starts on its disk, when the path is a partition.
    pub partition_start: Option<Bytes>,
    pub identity: DeviceIdentity,
    /// The request queue; zeros for an image.
    pub queue: QueueAttributes,
    /// The declared erase block that plans use: the best of those in `declared`.
    pub declared_erase_unit: Option<DeclaredBytes>,
    /// All that it and the kernel declare of how it is built.
    #[serde(default)]
    pub declared: DeclaredFacts,
    pub partitions: Vec<Partition>,
    /// What is mounted of it.
    pub mounts: Vec<MountedAt>,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Whether it can be taken out.
    pub removable: bool,
    /// Which file or device the path named when it was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectId>,
    /// The file behind a loop device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing: Option<ObjectId>,
    /// The same, opened; `None` where it was looked at on another machine, or only at a glance.
    #[serde(skip)]
    pub target: Option<TargetFile>,
}

/// Why a device cannot be described.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The kernel does not know it.
    #[error("the kernel has no block device for {}", path.display())]
    Unknown {
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The node or file.
        path: PathBuf,
        source: std::io::Error,
    },
    /// Its path was given to something else while it was looked at.
    #[error("{} changed while it was looked at", path.display())]
    Swapped {
        /// The node or file.
        path: PathBuf,
    },
    /// It has no size: an empty slot or an empty file.
    #[error("{} has no size: no medium is in it", path.display())]
    Empty {
        /// The node or file.
        path: PathBuf,
    },
}

impl UserError for DeviceError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Unknown { .. } | Self::Empty { .. } => ExitClass::Usage,
            Self::Swapped { .. } => ExitClass::Refused,
            Self::Unreadable { source, .. } => match source.kind() {
                std::io::ErrorKind::PermissionDenied => ExitClass::Environment,
                _ => ExitClass::Io,
            },
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { .. } => Some("flashfit list shows the media here".into()),
            Self::Unreadable { source, .. }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                Some("run it as root".into())
            }
            Self::Unreadable { .. } => None,
            Self::Swapped { path } => Some(inspect_again(path)),
            Self::Empty { .. } => {
                Some("put a card in, or make the file: truncate -s 1G FILE".into())
            }
        }
    }
}

impl Device {
    /// Describes the block device at `node`. Its node stays open (`O_PATH`) as long as the
    /// description is kept.
    pub fn of_node(
        system: &SystemRoots,
        runner: &dyn Runner,
        node: &Path,
    ) -> Result<Self, DeviceError> {
        let mut medium = Self::at_a_glance(system, node)?;
        let target = look(node)?;
        if medium.object.is_none_or(|object| !object.is(&target.id())) {
            return Err(DeviceError::Swapped { path: node.to_owned() });
        }
        medium.object = Some(target.id());
        if medium.kind == DeviceKind::Loop && medium.partition_start.is_none() {
            let device = target.reopen(OFlags::RDONLY | OFlags::NONBLOCK).ok();
            medium.backing = device.and_then(|device| backing_of(system, &medium.disk, &device));
        }
        medium.target = Some(target);
        if medium.partition_start.is_none() {
            let read = partitions::read(runner, node);
            if !read.is_empty() {
                medium.partitions = read;
            }
        }
        Ok(medium)
    }

    /// Describes the block device at `node` without opening it: of its partitions only those that
    /// the kernel knows.
    pub fn at_a_glance(system: &SystemRoots, node: &Path) -> Result<Self, DeviceError> {
        let unknown = || DeviceError::Unknown { path: node.to_owned() };
        let object = ObjectId::of(&std::fs::metadata(node).map_err(|_| unknown())?);
        let name =
            device_number(node).and_then(|number| system.name_of(number)).ok_or_else(unknown)?;
        let disk = system.whole_disk(&name);
        let block = system.block(&name);
        let sectors = system.number(&block.join("size")).ok_or_else(unknown)?;
        if sectors == 0 {
            return Err(DeviceError::Empty { path: node.to_owned() });
        }
        let queue = QueueAttributes::read(system, &disk);
        let kind = kind_of(system, &disk, &queue);
        let declared = DeclaredFacts::read(system, &disk, kind, &queue);
        let is_partition = name != disk;
        let partitions =
            if is_partition { Vec::new() } else { partitions::known_to_kernel(system, &disk) };
        Ok(Self {
            path: node.to_owned(),
            capacity: Bytes(sectors * SECTOR_BYTES),
            partition_start: is_partition
                .then(|| Bytes(system.number(&block.join("start")).unwrap_or(0) * SECTOR_BYTES)),
            identity: DeviceIdentity::read(system, &disk),
            declared_erase_unit: declared.best_erase_unit().cloned(),
            declared,
            mounts: mounts_of(system, &name),
            read_only: system.number(&block.join("ro")) == Some(1),
            removable: system.number(&system.block(&disk).join("removable")) == Some(1),
            object: Some(object),
            backing: None,
            target: None,
            disk,
            kind,
            queue,
            partitions,
        })
    }

    /// Describes an image file.
    pub fn of_image(runner: &dyn Runner, path: &Path) -> Result<Self, DeviceError> {
        let unreadable = |source| DeviceError::Unreadable { path: path.to_owned(), source };
        let target = look(path)?;
        // Whoever looks at an image may read it.
        let file = target.reopen(OFlags::RDONLY | OFlags::NONBLOCK).map_err(unreadable)?;
        let found = file.metadata().map_err(unreadable)?;
        if !found.is_file() {
            return Err(DeviceError::Swapped { path: path.to_owned() });
        }
        if found.len() == 0 {
            return Err(DeviceError::Empty { path: path.to_owned() });
        }
        let partitions = partitions::read(runner, path);
        if !ObjectId::at(path).is_ok_and(|now| now.is(&target.id())) {
            return Err(DeviceError::Swapped { path: path.to_owned() });
        }
        Ok(Self {
            path: path.to_owned(),
            disk: String::new(),
            kind: DeviceKind::Image,
            capacity: Bytes(found.len()),
            partition_start: None,
            identity: DeviceIdentity::default(),
            queue: QueueAttributes::default(),
            declared_erase_unit: None,
            declared: DeclaredFacts::default(),
            partitions,
            mounts: Vec::new(),
            read_only: found.permissions().readonly(),
            removable: false,
            object: Some(target.id()),
            backing: None,
            target: Some(target),
        })
    }

    /// Opens it for reading: the very object that was looked at, where it was looked at here.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn open_for_reading(&self) -> std::io::Result<File> {
        match &self.target {
            Some(target) => target.reopen(OFlags::RDONLY),
            None => File::open(&self.path),
        }
    }

    /// The name by which a user confirms it: the last part of its path.
    pub fn short_name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Opens what a path names, which was a device or a file a moment ago.
fn look(path: &Path) -> Result<TargetFile, DeviceError> {
    let path = path.to_owned();
    TargetFile::look(&path).map_err(|source| match Errno::from_io_error(&source) {
        None | Some(Errno::LOOP) => DeviceError::Swapped { path },
        Some(_) => DeviceError::Unreadable { path, source },
    })
}

/// The command that shows what a path names now.
pub(crate) fn inspect_again(path: &Path) -> String {
    let path = flashfit_host::program::quote(&path.display().to_string());
    format!("look at it again: flashfit inspect {path}")
}

/// The identity of the file behind an attached loop device.
fn backing_of(system: &SystemRoots, disk: &str, device: &File) -> Option<ObjectId> {
    let (device, inode) = loop_device::backing_of(device)?;
    let path = system.attribute(&system.block(disk).join("loop/backing_file"))?;
    // Its name says when it was made, as long as it is the file's.
    let named = ObjectId::at(Path::new(&path)).ok();
    let named = named.filter(|named| (named.device, named.inode) == (device, inode));
    Some(named.unwrap_or(ObjectId { device, inode, node: 0, born_ns: 0 }))
}

fn kind_of(system: &SystemRoots, disk: &str, queue: &QueueAttributes) -> DeviceKind {
    let device = system.block(disk).join("device");
    let on_usb = device.canonicalize().is_ok_and(|path| path.to_string_lossy().contains("/usb"));
    match system.attribute(&device.join("type")).as_deref() {
        Some("SD") => return DeviceKind::SdCard,
        Some("MMC") => return DeviceKind::Emmc,
        _ => {}
    }
    if disk.starts_with("loop") {
        DeviceKind::Loop
    } else if disk.starts_with("nvme") {
        DeviceKind::Nvme
    } else if on_usb {
        DeviceKind::Usb
    } else if disk.starts_with("sd") {
        if queue.rotational { DeviceKind::Disk } else { DeviceKind::Ssd }
    } else {
        DeviceKind::Other
    }
}

/// What is mounted of the device or partition `name`, partitions of a whole disk included.
fn mounts_of(system: &SystemRoots, name: &str) -> Vec<MountedAt> {
    let Ok(text) = std::fs::read_to_string(system.proc.join("self/mountinfo")) else {
        return Vec::new();
    };
    let mut names = system.partitions_of(name);
    names.push(name.to_owned());
    mountinfo::parse(&text)
        .into_iter()
        .filter_map(|entry| {
            let node = names.iter().find(|name| is_mount_of(system, &entry, name))?;
            Some(MountedAt { node: format!("/dev/{node}"), point: entry.point, kind: entry.kind })
        })
        .collect()
}

/// Whether a mount is of the block device `name`: by number, or by source where the number is
/// anonymous, as btrfs has it.
pub(crate) fn is_mount_of(system: &SystemRoots, entry: &MountEntry, name: &str) -> bool {
    if entry.device.0 == 0 {
        entry.source == format!("/dev/{name}")
    } else {
        system.name_of(entry.device).as_deref() == Some(name)
    }
}
