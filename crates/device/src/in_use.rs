//! Who uses a block device. In use means no: nothing in flashfit overrides what is found here.
//!
//! Looked at: mounts, swap, holders (md, dm, bcache), loop devices over it, processes that have it
//! open, and the disks behind `/`, `/boot` and `/usr`. Uses in other mount namespaces show in the
//! exclusive open that the guard makes afterwards.
//!
//! An ordinary user does not see what other users' processes have open. That is reported as unseen,
//! and is not "not in use". Of an image that is the user's own, the kernel says by a lease whether
//! anybody else has it open; as soon as flashfit itself has opened it twice, it counts that, too,
//! and is not asked any more.

use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flashfit_host::{lease, loop_device, mountinfo};
use rustix::fs::OFlags;

use crate::describe::is_mount_of;
use crate::object::{ObjectId, TargetFile};
use crate::system::{SystemRoots, device_number};

const SYSTEM_POINTS: [&str; 4] = ["/", "/boot", "/boot/efi", "/usr"];

/// One use of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceUse {
    /// A file system is mounted.
    Mounted {
        node: String,
        point: PathBuf,
    },
    /// The kernel swaps to it.
    Swap {
        node: String,
    },
    /// Another block device is built on it.
    Held {
        node: String,
        /// The one built on it.
        holder: String,
    },
    /// The running system lives on this disk.
    SystemDisk {
        disk: String,
        point: PathBuf,
    },
    /// A process has it open.
    Open {
        /// The device or file.
        node: String,
        pid: u32,
        name: String,
    },
}

impl fmt::Display for DeviceUse {
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

impl DeviceUse {
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

/// What was found when it was looked who uses a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UseReport {
    pub uses: Vec<DeviceUse>,
    /// What could not be looked at, so that there may be more.
    pub unseen: Option<String>,
}

/// All uses of the block device `name`, of its partitions, and of the disk that it is part of.
/// Processes in `own` do not count as users.
pub fn of_device(system: &SystemRoots, name: &str, own: &[u32]) -> UseReport {
    let disk = system.whole_disk(name);
    let mut parts = system.partitions_of(name);
    parts.push(name.to_owned());
    let mut uses = system_disks(system)
        .into_iter()
        .filter(|(system_disk, _)| *system_disk == disk)
        .map(|(disk, point)| DeviceUse::SystemDisk { disk, point })
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
        let node = Path::new("/dev").join(part);
        let found = std::fs::metadata(&node).map(|found| (found.dev(), found.ino()));
        uses.extend(found.into_iter().flat_map(|found| loops_over(system, &node, found)));
    }
    let (open, unseen) = openers(system, &parts, own);
    uses.extend(open);
    UseReport { uses, unseen }
}

/// All uses of an image file that is open as `target`.
pub fn of_image(system: &SystemRoots, path: &Path, target: &TargetFile, own: &[u32]) -> UseReport {
    let file = target.id();
    let mut uses = loops_over(system, path, (file.device, file.inode));
    let same = |found: &std::fs::Metadata| ObjectId::of(found).is(&file);
    let swapped = swap_nodes(system)
        .into_iter()
        .filter(|node| std::fs::metadata(node).is_ok_and(|found| same(&found)));
    uses.extend(swapped.map(|node| DeviceUse::Swap { node }));
    let (open, unseen) = open_in_processes(system, own, &path.display().to_string(), &same);
    uses.extend(open);
    let is_ours_alone =
        || target.was_reopened() || lease::is_only_opener(target.file()) == Some(true);
    let unseen = unseen.filter(|_| !is_ours_alone());
    UseReport { uses, unseen }
}

fn mount_table(system: &SystemRoots) -> Vec<mountinfo::MountEntry> {
    // The first process sees what a private namespace of ours may not.
    let texts = ["1/mountinfo", "self/mountinfo"]
        .into_iter()
        .filter_map(|path| std::fs::read_to_string(system.proc.join(path)).ok());
    texts.flat_map(|text| mountinfo::parse(&text)).collect()
}

fn mounts(system: &SystemRoots, name: &str) -> Vec<DeviceUse> {
    let points: BTreeSet<PathBuf> = mount_table(system)
        .into_iter()
        .filter(|entry| is_mount_of(system, entry, name))
        .map(|entry| entry.point)
        .collect();
    points
        .into_iter()
        .map(|point| DeviceUse::Mounted { node: format!("/dev/{name}"), point })
        .collect()
}

fn swaps(system: &SystemRoots, name: &str) -> Vec<DeviceUse> {
    swap_nodes(system)
        .into_iter()
        .filter(|node| {
            let number = device_number(Path::new(node));
            *node == format!("/dev/{name}")
                || number.and_then(|number| system.name_of(number)).as_deref() == Some(name)
        })
        .map(|node| DeviceUse::Swap { node })
        .collect()
}

/// The files and devices that the kernel swaps to.
fn swap_nodes(system: &SystemRoots) -> Vec<String> {
    let text = std::fs::read_to_string(system.proc.join("swaps")).unwrap_or_default();
    let first = |line: &str| line.split_whitespace().next().map(mountinfo::unescape);
    text.lines().skip(1).filter_map(first).collect()
}

fn holders(system: &SystemRoots, name: &str) -> Vec<DeviceUse> {
    system
        .names(&system.block(name).join("holders"))
        .into_iter()
        .map(|holder| DeviceUse::Held { node: format!("/dev/{name}"), holder })
        .collect()
}

/// Loop devices whose backing file is at `path`, or under whatever name has this device and inode
/// number.
fn loops_over(system: &SystemRoots, path: &Path, identity: (u64, u64)) -> Vec<DeviceUse> {
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
        .map(|holder| DeviceUse::Held { node: path.display().to_string(), holder })
        .collect()
}

/// The disks on which the running system lives, with what lives there.
fn system_disks(system: &SystemRoots) -> Vec<(String, PathBuf)> {
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
fn disks_below(system: &SystemRoots, name: &str) -> Vec<String> {
    let slaves = system.names(&system.block(name).join("slaves"));
    if slaves.is_empty() {
        return vec![system.whole_disk(name)];
    }
    slaves.iter().flat_map(|slave| disks_below(system, slave)).collect()
}

fn openers(
    system: &SystemRoots,
    names: &[String],
    own: &[u32],
) -> (Vec<DeviceUse>, Option<String>) {
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

/// The processes that have it open, and how many could not be looked at.
fn open_in_processes(
    system: &SystemRoots,
    own: &[u32],
    node: &str,
    same: &dyn Fn(&std::fs::Metadata) -> bool,
) -> (Vec<DeviceUse>, Option<String>) {
    let (mut uses, mut hidden) = (Vec::new(), 0_u32);
    for pid in system.names(&system.proc).iter().filter_map(|name| name.parse::<u32>().ok()) {
        let process = system.proc.join(pid.to_string());
        if own.contains(&pid) {
            continue;
        }
        let fds = process.join("fd");
        if std::fs::read_dir(&fds).is_err_and(|error| is_denied(&error)) {
            hidden += u32::from(may_have_files(system, &process));
            continue;
        }
        let open = |fd: &String| {
            std::fs::metadata(fds.join(fd)).is_ok_and(|found| same(&found))
                && !is_only_looked_at(system, &process.join("fdinfo").join(fd))
        };
        if system.names(&fds).iter().any(open) {
            let name = system.attribute(&process.join("comm")).unwrap_or_default();
            uses.push(DeviceUse::Open { node: node.to_owned(), pid, name });
        }
    }
    // Where other users' processes do not even show (hidepid), the first one does not.
    let unseen = if !system.proc.join("1").exists() {
        Some("the processes of other users".to_owned())
    } else {
        (hidden > 0).then(|| format!("the files that {hidden} processes of other users have open"))
    };
    (uses, unseen)
}

/// Whether a descriptor was opened with `O_PATH`, with which nothing can be read or written
/// (proc_pid_fdinfo(5)).
fn is_only_looked_at(system: &SystemRoots, fdinfo: &Path) -> bool {
    let text = system.attribute(fdinfo).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| OFlags::from_bits_retain(flags).contains(OFlags::PATH))
}

fn is_denied(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::PermissionDenied
}

/// Whether a process can have files: not the kernel's own threads, and not what has ended.
fn may_have_files(system: &SystemRoots, process: &Path) -> bool {
    const KERNEL_THREAD: u64 = 0x0020_0000;
    let Some(text) = system.attribute(&process.join("stat")) else { return true };
    // Behind the name, which may have anything in it: the state, and as the seventh the flags
    // (proc_pid_stat(5)).
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split(' ').collect();
    let flags = fields.get(7).and_then(|flags| flags.parse::<u64>().ok()).unwrap_or_default();
    flags & KERNEL_THREAD == 0 && fields.get(1) != Some(&"Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_file_with_a_space_in_its_name_is_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("swap file");
        std::fs::write(&image, "x").unwrap();
        let system =
            SystemRoots { sys: folder.path().join("sys"), proc: folder.path().join("proc") };
        std::fs::create_dir(&system.proc).unwrap();
        let name = image.display().to_string().replace(' ', "\\040");
        let swaps = format!("Filename\tType\tSize\tUsed\tPriority\n{name} file 1 0 -2\n");
        std::fs::write(system.proc.join("swaps"), swaps).unwrap();
        let found = of_image(&system, &image, &TargetFile::look(&image).unwrap(), &[]);
        assert_eq!(found.uses, [DeviceUse::Swap { node: image.display().to_string() }]);
    }

    #[test]
    fn processes_that_do_not_show_are_unseen() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        std::fs::write(&image, "x").unwrap();
        let system =
            SystemRoots { sys: folder.path().join("sys"), proc: folder.path().join("proc") };
        std::fs::create_dir(&system.proc).unwrap();
        let looked = TargetFile::look(&image).unwrap();
        let unseen = || of_image(&system, &image, &looked, &[]).unseen;
        assert_eq!(unseen().as_deref(), Some("the processes of other users"));
        std::fs::create_dir_all(system.proc.join("1/fd")).unwrap();
        assert_eq!(unseen(), None);
    }

    #[test]
    fn threads_of_the_kernel_have_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let stat = |text: &str| {
            std::fs::write(folder.path().join("stat"), text).unwrap();
            may_have_files(&SystemRoots::default(), folder.path())
        };
        assert!(!stat("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0"));
        assert!(!stat("9 (a) b) Z 1 9 9 0 -1 4194304 0 0"));
        assert!(stat("9 (a) Z) S 1 9 9 0 -1 4194304 0 0"));
        assert!(stat("garbage"));
    }
}
