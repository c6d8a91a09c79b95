//! Finds out who uses a block device or an image. Nothing in flashfit overrides what is found here.
//!
//! Checks mounts, swap, holders (md, dm, bcache), loop devices over it, processes that have it
//! open, and the disks behind `/`, `/boot` and `/usr`. Limits: uses in other mount namespaces are
//! only detected by the guard's exclusive open. Without root, the files of other users' processes
//! cannot be listed; that is reported as unreadable, not as unused. A file lease shows whether
//! anybody else has an image open, such as a process that only mapped it, or the kernel (USB
//! gadget, LIO, nvmet), but only until flashfit opens it a second time, and without root only for
//! images owned by the user.

use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flashfit_host::path_text::to_text;
use flashfit_host::program::quote_path;
use flashfit_host::{lease, loop_device, mountinfo};
use flashfit_user_error::{Hint, Task};
use rustix::fs::OFlags;

use crate::describe::is_mount_of;
use crate::object::{ObjectId, TargetFile};
use crate::system::{SystemRoots, device_number};

const SYSTEM_MOUNT_POINTS: [&str; 6] =
    ["/", "/boot", "/boot/efi", "/boot/firmware", "/efi", "/usr"];
/// This program in lists of processes.
const OWN_NAME: &str = "flashfit";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceUse {
    Mounted {
        node: String,
        point: PathBuf,
    },
    Swap {
        node: PathBuf,
    },
    Held {
        node: String,
        holder: String,
    },
    /// A file system of the running system is on this disk.
    SystemDisk {
        disk: String,
        point: PathBuf,
    },
    Open {
        node: String,
        pid: u32,
        name: String,
    },
    /// An image that is open, but in no process's list of open files.
    OpenUnlisted {
        path: PathBuf,
    },
}

impl fmt::Display for DeviceUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted { node, point } => write!(f, "{node} is mounted on {}", to_text(point)),
            Self::Swap { node } => write!(f, "{} is used as swap", to_text(node)),
            Self::Held { node, holder } => write!(f, "{node} is part of {holder}"),
            Self::SystemDisk { disk, point } => {
                write!(f, "/dev/{disk} has the running system's {}", to_text(point))
            }
            Self::Open { node, pid, name } => write!(f, "{node} is open in process {pid} ({name})"),
            Self::OpenUnlisted { path } => {
                write!(f, "another process or the kernel has {} open or mapped", to_text(path))
            }
        }
    }
}

impl DeviceUse {
    /// Whether the user is a flashfit process that is listed.
    pub(crate) fn is_by_flashfit(&self) -> bool {
        matches!(self, Self::Open { name, .. } if name == OWN_NAME)
    }

    /// A command or action that ends this use.
    pub fn hint(&self) -> Hint {
        match self {
            Self::Mounted { point, .. } => format!("umount {}", quote_path(point)).into(),
            Self::Swap { node } => format!("swapoff {}", quote_path(node)).into(),
            Self::Held { holder, .. } if holder.starts_with("loop") => {
                format!("losetup -d /dev/{holder}").into()
            }
            Self::Held { holder, .. } => format!("stop /dev/{holder} first").into(),
            Self::SystemDisk { .. } => {
                Hint::from("name another device; ").and(Task::ListDevices).and(" shows them")
            }
            // It may work on another partition of the disk.
            Self::Open { pid, .. } if self.is_by_flashfit() => format!(
                "wait until process {pid} ends, or run kill {pid}: only one run at a time can use \
                 a disk"
            )
            .into(),
            Self::Open { pid, .. } => {
                format!("wait until process {pid} ends, or run kill {pid}").into()
            }
            Self::OpenUnlisted { path } => {
                format!("find a process that maps it: fuser -v {}", quote_path(path)).into()
            }
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageReport {
    pub uses: Vec<DeviceUse>,
    /// What could not be checked; there may be more uses.
    pub unreadable: Option<String>,
}

/// All uses of the block device `name`, of its partitions, and of the disk that it is part of, by
/// processes other than `own_pids`.
pub fn of_device(system: &SystemRoots, name: &str, own_pids: &[u32]) -> UsageReport {
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
    let (open, unreadable) = openers(system, &parts, own_pids);
    uses.extend(open);
    UsageReport { uses, unreadable }
}

/// All uses of an image file that is open as `target`, by processes other than `own_pids`.
pub fn of_image(
    system: &SystemRoots,
    path: &Path,
    target: &TargetFile,
    own_pids: &[u32],
) -> UsageReport {
    let file = target.id();
    let mut uses = loops_over(system, path, (file.device, file.inode));
    let same = |found: &std::fs::Metadata| ObjectId::from_metadata(found).is_same(&file);
    let swapped = swap_nodes(system)
        .into_iter()
        .filter(|node| std::fs::metadata(node).is_ok_and(|found| same(&found)));
    uses.extend(swapped.map(|node| DeviceUse::Swap { node }));
    let (open, unreadable) =
        open_in_processes(system, own_pids, &path.display().to_string(), &same);
    uses.extend(open);
    // A second description of this process would look like that of another one.
    if target.was_reopened() {
        return UsageReport { uses, unreadable: None };
    }
    match lease::is_only_opener(target.file()) {
        Some(true) => UsageReport { uses, unreadable: None },
        Some(false) if uses.is_empty() && unreadable.is_none() => {
            let uses = vec![DeviceUse::OpenUnlisted { path: path.to_owned() }];
            UsageReport { uses, unreadable }
        }
        _ => UsageReport { uses, unreadable },
    }
}

fn mount_table(system: &SystemRoots) -> Vec<mountinfo::MountEntry> {
    // Process 1 sees mounts that our private mount namespace may lack, and a thread can have
    // entered one alone.
    let texts = ["1/mountinfo", "self/mountinfo", "thread-self/mountinfo"]
        .into_iter()
        .filter_map(|path| std::fs::read(system.proc.join(path)).ok());
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
            let number = device_number(node);
            *node == Path::new("/dev").join(name)
                || number.and_then(|number| system.name_of(number)).as_deref() == Some(name)
        })
        .map(|node| DeviceUse::Swap { node })
        .collect()
}

/// The files and devices used as swap.
fn swap_nodes(system: &SystemRoots) -> Vec<PathBuf> {
    let text = std::fs::read(system.proc.join("swaps")).unwrap_or_default();
    let first = |line: &[u8]| {
        let word = line.split(u8::is_ascii_whitespace).next()?;
        (!word.is_empty()).then(|| mountinfo::unescape(word).into())
    };
    text.split(|byte| *byte == b'\n').skip(1).filter_map(first).collect()
}

fn holders(system: &SystemRoots, name: &str) -> Vec<DeviceUse> {
    system
        .names(&system.block(name).join("holders"))
        .into_iter()
        .map(|holder| DeviceUse::Held { node: format!("/dev/{name}"), holder })
        .collect()
}

/// Loop devices over the file at `path`, or over any name of the file with this device and inode
/// number.
fn loops_over(system: &SystemRoots, path: &Path, identity: (u64, u64)) -> Vec<DeviceUse> {
    let blocks = system.sys.join("block");
    system
        .names(&blocks)
        .into_iter()
        .filter(|name| {
            let backing = system.path_attribute(&blocks.join(name).join("loop/backing_file"));
            backing.is_some_and(|backing| {
                backing == path
                    || loop_device::backing_file(&Path::new("/dev").join(name)) == Some(identity)
            })
        })
        .map(|holder| DeviceUse::Held { node: path.display().to_string(), holder })
        .collect()
}

/// The disks of the running system, each with the mount point of its file system.
fn system_disks(system: &SystemRoots) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for entry in mount_table(system) {
        if !SYSTEM_MOUNT_POINTS.iter().any(|point| Path::new(point) == entry.point) {
            continue;
        }
        let name = if entry.device.0 == 0 {
            device_number(&entry.source).and_then(|number| system.name_of(number))
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

/// The whole disks below a device, through dm and md.
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
    own_pids: &[u32],
) -> (Vec<DeviceUse>, Option<String>) {
    let numbers: Vec<(u32, u32)> =
        names.iter().filter_map(|name| device_number(&Path::new("/dev").join(name))).collect();
    let same = |found: &std::fs::Metadata| {
        use std::os::unix::fs::FileTypeExt;
        let number = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
        found.file_type().is_block_device() && numbers.contains(&number)
    };
    let node = names.last().map(|name| format!("/dev/{name}")).unwrap_or_default();
    open_in_processes(system, own_pids, &node, &same)
}

/// The processes that have the file open, and what could not be checked.
fn open_in_processes(
    system: &SystemRoots,
    own_pids: &[u32],
    node: &str,
    same: &dyn Fn(&std::fs::Metadata) -> bool,
) -> (Vec<DeviceUse>, Option<String>) {
    let (mut uses, mut hidden) = (Vec::new(), 0_u32);
    for pid in system.names(&system.proc).iter().filter_map(|name| name.parse::<u32>().ok()) {
        let process = system.proc.join(pid.to_string());
        if own_pids.contains(&pid) {
            continue;
        }
        let fds = process.join("fd");
        if std::fs::read_dir(&fds).is_err_and(|error| is_permission_denied(&error)) {
            hidden += u32::from(may_have_files(system, &process));
            continue;
        }
        let open = |fd: &String| {
            std::fs::metadata(fds.join(fd)).is_ok_and(|found| same(&found))
                && !is_path_descriptor(system, &process.join("fdinfo").join(fd))
        };
        if system.names(&fds).iter().any(open) {
            let name = system.attribute(&process.join("comm")).unwrap_or_default();
            uses.push(DeviceUse::Open { node: node.to_owned(), pid, name });
        }
    }
    // With hidepid, the folders of other users' processes are missing, also that of process 1.
    let unreadable = if !system.proc.join("1").exists() {
        Some("the processes of other users".to_owned())
    } else {
        (hidden > 0).then(|| format!("the open files of {hidden} processes of other users"))
    };
    (uses, unreadable)
}

/// Whether a descriptor was opened with `O_PATH`, which permits neither reading nor writing
/// (proc_pid_fdinfo(5)).
fn is_path_descriptor(system: &SystemRoots, fdinfo: &Path) -> bool {
    let text = system.attribute(fdinfo).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| OFlags::from_bits_retain(flags).contains(OFlags::PATH))
}

fn is_permission_denied(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::PermissionDenied
}

/// Whether a process can have open files: kernel threads and zombies cannot.
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
        let found = of_image(&system, &image, &TargetFile::open(&image).unwrap(), &[]);
        assert_eq!(found.uses, [DeviceUse::Swap { node: image }]);
    }

    #[test]
    fn a_name_that_is_not_utf8_hides_no_swap_and_no_mount() {
        use std::os::unix::ffi::OsStrExt;
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        std::fs::write(&image, "x").unwrap();
        let system =
            SystemRoots { sys: folder.path().join("sys"), proc: folder.path().join("proc") };
        std::fs::create_dir_all(system.proc.join("self")).unwrap();
        let path = image.as_os_str().as_bytes();
        let swaps = [b"Filename\n/other\xff file 1 0 -2\n", path, b" file 1 0 -2\n"].concat();
        std::fs::write(system.proc.join("swaps"), swaps).unwrap();
        let found = of_image(&system, &image, &TargetFile::open(&image).unwrap(), &[]);
        assert_eq!(found.uses, [DeviceUse::Swap { node: image }]);
        let mounts = b"1 2 0:9 / /m\xff rw - tmpfs none rw\n2 2 0:9 / /n rw - btrfs /dev/zz9 rw\n";
        std::fs::write(system.proc.join("self/mountinfo"), mounts).unwrap();
        let expected = DeviceUse::Mounted { node: "/dev/zz9".into(), point: "/n".into() };
        assert_eq!(of_device(&system, "zz9", &[]).uses, [expected]);
    }

    #[test]
    fn a_btrfs_that_is_shown_under_a_name_that_is_gone_is_mounted() {
        let folder = tempfile::tempdir().unwrap();
        let system =
            SystemRoots { sys: folder.path().join("sys"), proc: folder.path().join("proc") };
        std::fs::create_dir_all(system.proc.join("self")).unwrap();
        let mount = "2 2 0:9 / /n rw - btrfs /proc/4194999/fd/15 rw\n";
        std::fs::write(system.proc.join("self/mountinfo"), mount).unwrap();
        assert_eq!(of_device(&system, "zz9", &[]).uses, []);
        std::fs::create_dir_all(system.sys.join("fs/btrfs/1234/devices/zz9")).unwrap();
        let expected = DeviceUse::Mounted { node: "/dev/zz9".into(), point: "/n".into() };
        assert_eq!(of_device(&system, "zz9", &[]).uses, [expected]);
    }

    #[test]
    fn the_disk_that_the_system_boots_from_is_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let system =
            SystemRoots { sys: folder.path().join("sys"), proc: folder.path().join("proc") };
        std::fs::create_dir_all(system.proc.join("self")).unwrap();
        let boot = system.sys.join("devices/zz9/zz9p1");
        std::fs::create_dir_all(&boot).unwrap();
        std::fs::write(boot.join("partition"), "1").unwrap();
        for links in ["class/block", "dev/block"] {
            std::fs::create_dir_all(system.sys.join(links)).unwrap();
        }
        std::os::unix::fs::symlink(&boot, system.sys.join("class/block/zz9p1")).unwrap();
        std::os::unix::fs::symlink(&boot, system.sys.join("dev/block/259:9")).unwrap();
        for (point, counts) in [("/boot/firmware", true), ("/efi", true), ("/media", false)] {
            let mount = format!("2 2 259:9 / {point} rw - vfat /dev/zz9p1 rw\n");
            std::fs::write(system.proc.join("self/mountinfo"), mount).unwrap();
            let expected = if counts { vec![("zz9".to_owned(), point.into())] } else { vec![] };
            assert_eq!(system_disks(&system), expected);
        }
    }

    #[test]
    fn hidden_processes_are_reported_as_unreadable() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        std::fs::write(&image, "x").unwrap();
        let system =
            SystemRoots { sys: folder.path().join("sys"), proc: folder.path().join("proc") };
        std::fs::create_dir(&system.proc).unwrap();
        let target = TargetFile::open(&image).unwrap();
        let unreadable = || of_image(&system, &image, &target, &[]).unreadable;
        assert_eq!(unreadable().as_deref(), Some("the processes of other users"));
        std::fs::create_dir_all(system.proc.join("1/fd")).unwrap();
        assert_eq!(unreadable(), None);
    }

    #[test]
    fn kernel_threads_and_zombies_have_no_files() {
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
