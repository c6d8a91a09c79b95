//! Describes a device: everything that it and the kernel report about it. Read-only.

use std::fs::File;
use std::path::{Path, PathBuf};

use flashfit_host::mount::is_device_of_mounted_btrfs;
use flashfit_host::mountinfo::{self, MountEntry};
use flashfit_host::{Runner, loop_device, path_text};
use flashfit_user_error::{ExitClass, Hint, Task, UserError};
use rustix::fs::OFlags;
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::declared::{DeclaredBytes, DeclaredFacts};
use crate::identity::DeviceIdentity;
use crate::object::{ObjectId, TargetFile};
use crate::partitions::{self, Partition};
use crate::queue::QueueAttributes;
use crate::system::{SystemRoots, device_number};
use crate::units::{Bytes, SECTOR_BYTES};

#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// An SD or microSD card on a native host.
    SdCard,
    Emmc,
    Usb,
    Nvme,
    /// A non-rotational SATA or SCSI drive.
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

/// A mounted file system of the device or of one of its partitions.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DeviceMount {
    pub node: String,
    #[serde(with = "path_text::document")]
    #[schemars(with = "String")]
    pub point: PathBuf,
    /// The file system type.
    pub kind: String,
}

impl DeviceMount {
    /// Whether a mount shows this file system, and not another one that hides it.
    pub fn is_seen_through(&self, system: &SystemRoots, entry: &MountEntry) -> bool {
        // Any name can be given as the source of a tmpfs.
        let has_device = entry.device.0 != 0 || entry.kind == "btrfs";
        let is_there = entry.point == self.point && entry.kind == self.kind;
        let name = self.node.trim_start_matches("/dev/");
        has_device && is_there && is_mount_of(system, entry, name)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Device {
    /// The device node or the image file.
    #[serde(with = "path_text::document")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// The kernel's name of the whole disk; empty for an image.
    pub disk: String,
    pub kind: DeviceKind,
    /// The size of the device, or of the partition if the path is one.
    pub capacity: Bytes,
    /// Offset of the partition on its disk, if the path is a partition.
    pub partition_start: Option<Bytes>,
    pub identity: DeviceIdentity,
    /// Zeros for an image.
    pub queue: QueueAttributes,
    /// The declared erase block that plans use: the most trusted one of `declared`.
    #[serde(rename = "declared_erase_unit")]
    pub declared_erase_block: Option<DeclaredBytes>,
    /// Everything that the device and the kernel declare.
    #[serde(default)]
    pub declared: DeclaredFacts,
    pub partitions: Vec<Partition>,
    pub mounts: Vec<DeviceMount>,
    pub read_only: bool,
    pub removable: bool,
    /// Identity of the file or node that the path named when it was described.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectId>,
    /// The file behind a loop device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing: Option<ObjectId>,
    /// Where a loop device starts in what is behind it, if not at its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing_offset: Option<Bytes>,
    /// The same object, opened; `None` if it was described on another machine or without opening.
    #[serde(skip)]
    pub target: Option<TargetFile>,
}

#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("the kernel has no block device for {}", path_text::to_text(path))]
    Unknown { path: PathBuf },
    #[error("cannot read {}: {source}", path_text::to_text(path))]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// The path named another object before the description was complete.
    #[error("{} was replaced while it was read", path_text::to_text(path))]
    Replaced { path: PathBuf },
    /// An empty card slot or an empty file.
    #[error("{} has no size: the slot or the file is empty", path_text::to_text(path))]
    Empty { path: PathBuf },
}

impl UserError for DeviceError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Unknown { .. } | Self::Empty { .. } => ExitClass::Usage,
            Self::Replaced { .. } => ExitClass::Refused,
            Self::Unreadable { source, .. } => match source.kind() {
                std::io::ErrorKind::PermissionDenied => ExitClass::Environment,
                _ => ExitClass::Io,
            },
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Unknown { .. } => Some(list_devices()),
            Self::Unreadable { source, .. }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                Some("run it as root".into())
            }
            Self::Unreadable { .. } => None,
            Self::Replaced { path } => Some(inspect_again(path)),
            Self::Empty { .. } => {
                Some("insert a card, or create the file: truncate -s 1G FILE".into())
            }
        }
    }
}

impl Device {
    /// Describes the block device at `node`. The node stays open (`O_PATH`) for the lifetime of
    /// the description.
    pub fn from_node(
        system: &SystemRoots,
        runner: &dyn Runner,
        node: &Path,
    ) -> Result<Self, DeviceError> {
        let mut device = Self::from_sysfs(system, node)?;
        let target = open_target(node)?;
        if device.object.is_none_or(|object| !object.is_same(&target.id())) {
            return Err(DeviceError::Replaced { path: node.to_owned() });
        }
        device.object = Some(target.id());
        if device.kind == DeviceKind::Loop && device.partition_start.is_none() {
            let file = target.reopen(OFlags::RDONLY | OFlags::NONBLOCK).ok();
            device.backing = file.and_then(|file| backing_of(system, &device.disk, &file));
        }
        device.target = Some(target);
        if device.partition_start.is_none() {
            let partitions = partitions::read(runner, node);
            if !partitions.is_empty() {
                device.partitions = partitions;
            }
        }
        Ok(device)
    }

    /// Describes the block device at `node` from sysfs alone, without opening it. Only partitions
    /// that the kernel knows are listed.
    pub fn from_sysfs(system: &SystemRoots, node: &Path) -> Result<Self, DeviceError> {
        let unknown = || DeviceError::Unknown { path: node.to_owned() };
        let object = ObjectId::from_metadata(&std::fs::metadata(node).map_err(|_| unknown())?);
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
            if is_partition { Vec::new() } else { partitions::read_from_sysfs(system, &disk) };
        Ok(Self {
            path: node.to_owned(),
            capacity: Bytes(sectors * SECTOR_BYTES),
            partition_start: is_partition
                .then(|| Bytes(system.number(&block.join("start")).unwrap_or(0) * SECTOR_BYTES)),
            identity: DeviceIdentity::read(system, &disk),
            declared_erase_block: declared.best_erase_block().cloned(),
            declared,
            mounts: mounts_of(system, &name),
            read_only: system.number(&block.join("ro")) == Some(1),
            removable: system.number(&system.block(&disk).join("removable")) == Some(1),
            object: Some(object),
            backing: None,
            backing_offset: backing_offset(system, &disk),
            target: None,
            disk,
            kind,
            queue,
            partitions,
        })
    }

    pub fn from_image(runner: &dyn Runner, path: &Path) -> Result<Self, DeviceError> {
        let unreadable = |source| DeviceError::Unreadable { path: path.to_owned(), source };
        let target = open_target(path)?;
        let file = target.reopen(OFlags::RDONLY | OFlags::NONBLOCK).map_err(unreadable)?;
        let found = file.metadata().map_err(unreadable)?;
        if !found.is_file() {
            return Err(DeviceError::Replaced { path: path.to_owned() });
        }
        if found.len() == 0 {
            return Err(DeviceError::Empty { path: path.to_owned() });
        }
        let partitions = partitions::read(runner, path);
        if !ObjectId::at(path).is_ok_and(|now| now.is_same(&target.id())) {
            return Err(DeviceError::Replaced { path: path.to_owned() });
        }
        Ok(Self {
            path: path.to_owned(),
            disk: String::new(),
            kind: DeviceKind::Image,
            capacity: Bytes(found.len()),
            partition_start: None,
            identity: DeviceIdentity::default(),
            queue: QueueAttributes::default(),
            declared_erase_block: None,
            declared: DeclaredFacts::default(),
            partitions,
            mounts: Vec::new(),
            read_only: found.permissions().readonly(),
            removable: false,
            object: Some(target.id()),
            backing: None,
            backing_offset: None,
            target: Some(target),
        })
    }

    /// Opens the described object for reading, by its path if it was described elsewhere.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open_for_reading(&self) -> std::io::Result<File> {
        match &self.target {
            Some(target) => target.reopen(OFlags::RDONLY),
            None => File::open(&self.path),
        }
    }

    /// Whether a user confirms it with this: its name, path, serial number or CID.
    pub fn is_named_by(&self, given: &str) -> bool {
        let is_path = || given.contains('/') && path_text::from_text(given) == self.path;
        given == self.short_name()
            || self.identity.serial.as_deref() == Some(given)
            || self.identity.cid.as_deref() == Some(given)
            || is_path()
    }

    /// The name by which a user confirms the device: the last component of its path,
    /// percent-encoded unless it is UTF-8.
    pub fn short_name(&self) -> String {
        path_text::name_to_text(self.path.file_name().unwrap_or_default())
    }
}

fn open_target(path: &Path) -> Result<TargetFile, DeviceError> {
    let path = path.to_owned();
    TargetFile::open(&path).map_err(|source| match Errno::from_io_error(&source) {
        None | Some(Errno::LOOP) => DeviceError::Replaced { path },
        Some(_) => DeviceError::Unreadable { path, source },
    })
}

/// A hint with the command that describes the path again.
pub(crate) fn inspect_again(path: &Path) -> Hint {
    Hint::from("check it again: ").and(Task::Inspect(Some(path.to_owned())))
}

/// A hint with the command that lists the devices.
pub(crate) fn list_devices() -> Hint {
    Hint::from("run ").and(Task::ListDevices).and(" to see the devices")
}

/// The identity of the backing file of a loop device.
fn backing_of(system: &SystemRoots, disk: &str, device: &File) -> Option<ObjectId> {
    let (device, inode) = loop_device::backing_of(device)?;
    let path = system.path_attribute(&system.block(disk).join("loop/backing_file"))?;
    // The creation time can only be read by path, if the path still names the same file.
    let named = ObjectId::at(&path).ok();
    let named = named.filter(|named| (named.device, named.inode) == (device, inode));
    Some(named.unwrap_or(ObjectId { device, inode, node: 0, created_ns: 0 }))
}

/// Where a loop device starts in what is behind it; `None` at its start.
fn backing_offset(system: &SystemRoots, disk: &str) -> Option<Bytes> {
    let offset = system.number(&system.block(disk).join("loop/offset"))?;
    (offset > 0).then_some(Bytes(offset))
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

/// The mounts of the device or partition `name`, including partitions of a whole disk.
fn mounts_of(system: &SystemRoots, name: &str) -> Vec<DeviceMount> {
    let Ok(text) = std::fs::read(system.proc.join("self/mountinfo")) else {
        return Vec::new();
    };
    let mut names = system.partitions_of(name);
    names.push(name.to_owned());
    mountinfo::parse(&text)
        .into_iter()
        .filter_map(|entry| {
            let node = names.iter().find(|name| is_mount_of(system, &entry, name))?;
            Some(DeviceMount { node: format!("/dev/{node}"), point: entry.point, kind: entry.kind })
        })
        .collect()
}

/// Whether a mount is of the block device `name`: by device number, or by source where the number
/// is anonymous, as on btrfs. The source of a btrfs may be the name of a descriptor by which mkfs
/// was given the device; once that is gone, all devices of mounted btrfs count as mounted there.
pub(crate) fn is_mount_of(system: &SystemRoots, entry: &MountEntry, name: &str) -> bool {
    if entry.device.0 == 0 {
        entry.source == Path::new("/dev").join(name)
            || entry.kind == "btrfs"
                && entry.source.starts_with("/proc")
                && match device_number(&entry.source) {
                    Some(number) => system.name_of(number).as_deref() == Some(name),
                    None => is_device_of_mounted_btrfs(&system.sys, name.as_ref()),
                }
    } else {
        system.name_of(entry.device).as_deref() == Some(name)
    }
}
