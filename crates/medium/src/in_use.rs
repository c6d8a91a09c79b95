//! Who uses a block device. In use means no: nothing in flashfit overrides what is found here.
//!
//! Looked at: mounts, swap, holders (md, dm, bcache), loop devices over it, processes that have it
//! open, and the disks behind `/`, `/boot` and `/usr`. Uses in other mount namespaces show in the
//! exclusive open that the guard makes afterwards.

use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flashfit_host::{loop_device, mountinfo};

use crate::describe::is_mount_of;
use crate::system::{System, device_number};

const SYSTEM_POINTS: [&str; 4] = ["/", "/boot", "/boot/efi", "/usr"];

/// One use of a medium.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Use {
    /// A file system is mounted.
    Mounted {
        /// The device.
        node: String,
        /// Where.
        point: PathBuf,
    },
    /// The kernel swaps to it.
    Swap {
        /// The device.
        node: String,
    },
    /// Another block device is built on it.
    Held {
        /// The device.
        node: String,
        /// The one built on it.
        holder: String,
    },
    /// The running system lives on this disk.
    SystemDisk {
        /// The disk.
        disk: String,
        /// What lives there.
        point: PathBuf,
    },
    /// A process has it open.
    Open {
        /// The device or file.
        node: String,
        /// The process.
        pid: u32,
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted { node, point } => write!(f, "{node} is mounted on {}", point.display()),
            Self::Swap { node } => write!(f, "{node} is used as swap"),
            Self::Held { node, holder } => write!(f, "{node} is part of {holder}"),
            Self::SystemDisk { disk, point } => {
                write!(f, "{} of the running system is on /dev/{disk}", point.display())
            }
            Self::Open { node, pid, name } => write!(f, "{node} is open in process {pid} ({name})"),
        }
    }
}

impl Use {
    /// What ends this use.
    pub fn remedy(&self) -> String {
        match self {
            Self::Mounted { point, .. } => format!("umount {}", point.display()),
            Self::Swap { node } => format!("swapoff {node}"),
            Self::Held { holder, .. } if holder.starts_with("loop") => {
                format!("losetup -d /dev/{holder}")
            }
            Self::Held { holder, .. } => format!("stop /dev/{holder} first"),
            Self::SystemDisk { .. } => "name another medium; flashfit list shows them".to_owned(),
            Self::Open { pid, .. } => format!("end process {pid}, or wait for it"),
        }
    }
}

/// All uses of the block device `name`, of its partitions, and of the disk that it is part of.
/// Processes in `own` do not count as users.
pub fn of_device(system: &System, name: &str, own: &[u32]) -> Vec<Use> {
    let disk = system.whole_disk(name);
    let mut parts = system.partitions_of(name);
    parts.push(name.to_owned());
    let mut uses = system_disks(system)
        .into_iter()
        .filter(|(system_disk, _)| *system_disk == disk)
        .map(|(disk, point)| Use::SystemDisk { disk, point })
        .collect::<Vec<_>>();
    for part in &parts {
        uses.extend(mounts(system, part));
        uses.extend(swaps(system, part));
    }
    if disk != name {
        parts.push(disk);
    }
    for part in &parts {
        uses.extend(holders(system, part));
        uses.extend(loops_over(system, &Path::new("/dev").join(part)));
    }
    uses.extend(openers(system, &parts, own));
    uses
}

/// All uses of an image file.
pub fn of_image(system: &System, path: &Path, own: &[u32]) -> Vec<Use> {
    let mut uses = loops_over(system, path);
    let Ok(file) = std::fs::metadata(path) else { return uses };
    let same = |found: &std::fs::Metadata| (found.dev(), found.ino()) == (file.dev(), file.ino());
    let swapped = swap_nodes(system)
        .into_iter()
        .filter(|node| std::fs::metadata(node).is_ok_and(|found| same(&found)));
    uses.extend(swapped.map(|node| Use::Swap { node }));
    uses.extend(open_in_processes(system, own, &path.display().to_string(), &same));
    uses
}

fn mount_table(system: &System) -> Vec<mountinfo::MountEntry> {
    // The first process sees what a private namespace of ours may not.
    let texts = ["1/mountinfo", "self/mountinfo"]
        .into_iter()
        .filter_map(|path| std::fs::read_to_string(system.proc.join(path)).ok());
    texts.flat_map(|text| mountinfo::parse(&text)).collect()
}

fn mounts(system: &System, name: &str) -> Vec<Use> {
    let points: BTreeSet<PathBuf> = mount_table(system)
        .into_iter()
        .filter(|entry| is_mount_of(system, entry, name))
        .map(|entry| entry.point)
        .collect();
    points.into_iter().map(|point| Use::Mounted { node: format!("/dev/{name}"), point }).collect()
}

fn swaps(system: &System, name: &str) -> Vec<Use> {
    swap_nodes(system)
        .into_iter()
        .filter(|node| {
            let number = device_number(Path::new(node));
            *node == format!("/dev/{name}")
                || number.and_then(|number| system.name_of(number)).as_deref() == Some(name)
        })
        .map(|node| Use::Swap { node })
        .collect()
}

/// The files and devices that the kernel swaps to.
fn swap_nodes(system: &System) -> Vec<String> {
    let text = std::fs::read_to_string(system.proc.join("swaps")).unwrap_or_default();
    let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
    text.lines().skip(1).filter_map(first).collect()
}

fn holders(system: &System, name: &str) -> Vec<Use> {
    system
        .names(&system.block(name).join("holders"))
        .into_iter()
        .map(|holder| Use::Held { node: format!("/dev/{name}"), holder })
        .collect()
}

/// Loop devices whose backing file is the file or device at `path`, under whatever name.
fn loops_over(system: &System, path: &Path) -> Vec<Use> {
    let Ok(file) = std::fs::metadata(path) else { return Vec::new() };
    let identity = (file.dev(), file.ino());
    let blocks = system.sys.join("block");
    system
        .names(&blocks)
        .into_iter()
        .filter(|name| {
            let backing = system.attribute(&blocks.join(name).join("loop/backing_file"));
            backing.is_some_and(|backing| {
                Path::new(&backing) == path
                    || loop_device::backing_file(&Path::new("/dev").join(name)) == Some(identity)
            })
        })
        .map(|holder| Use::Held { node: path.display().to_string(), holder })
        .collect()
}

/// The disks on which the running system lives, with what lives there.
fn system_disks(system: &System) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for entry in mount_table(system) {
        if !SYSTEM_POINTS.iter().any(|point| Path::new(point) == entry.point) {
            continue;
        }
        let name = if entry.device.0 == 0 {
            device_number(Path::new(&entry.source)).and_then(|number| system.name_of(number))
        } else {
            system.name_of(entry.device)
        };
        for disk in name.into_iter().flat_map(|name| disks_below(system, &name)) {
            if !found.contains(&(disk.clone(), entry.point.clone())) {
                found.push((disk, entry.point.clone()));
            }
        }
    }
    found
}

/// The whole disks that a device is built of, through dm and md.
fn disks_below(system: &System, name: &str) -> Vec<String> {
    let slaves = system.names(&system.block(name).join("slaves"));
    if slaves.is_empty() {
        return vec![system.whole_disk(name)];
    }
    slaves.iter().flat_map(|slave| disks_below(system, slave)).collect()
}

fn openers(system: &System, names: &[String], own: &[u32]) -> Vec<Use> {
    let numbers: Vec<(u32, u32)> =
        names.iter().filter_map(|name| device_number(&Path::new("/dev").join(name))).collect();
    let same = |found: &std::fs::Metadata| {
        use std::os::unix::fs::FileTypeExt;
        let number = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
        found.file_type().is_block_device() && numbers.contains(&number)
    };
    let node = names.last().map(|name| format!("/dev/{name}")).unwrap_or_default();
    open_in_processes(system, own, &node, &same)
}

fn open_in_processes(
    system: &System,
    own: &[u32],
    node: &str,
    same: &dyn Fn(&std::fs::Metadata) -> bool,
) -> Vec<Use> {
    let mut uses = Vec::new();
    for pid in system.names(&system.proc).iter().filter_map(|name| name.parse::<u32>().ok()) {
        let process = system.proc.join(pid.to_string());
        let files = system.names(&process.join("fd"));
        let open = |fd: &String| {
            std::fs::metadata(process.join("fd").join(fd)).is_ok_and(|found| same(&found))
        };
        if !own.contains(&pid) && files.iter().any(open) {
            let name = system.attribute(&process.join("comm")).unwrap_or_default();
            uses.push(Use::Open { node: node.to_owned(), pid, name });
        }
    }
    uses
}
