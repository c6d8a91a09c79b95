//! Mounts file systems for the duration of a trial, invisible to other processes.
//!
//! [`enter_private_namespace`] gives this process a private mount namespace
//! (mount_namespaces(7)): the kernel unmounts everything when the process and its children end,
//! even if they are killed.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};

use crate::mountinfo;
use crate::program::{Program, ProgramError, Runner};
use flashfit_user_error::{ExitClass, Hint, UserError};

/// How long to wait for other processes that look at a file system for a moment, such as udev's.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
const BUSY_INTERVAL: Duration = Duration::from_millis(50);

/// Where the process was before it entered a private mount namespace.
static FORMER_NAMESPACE: OnceLock<std::fs::File> = OnceLock::new();

#[derive(Debug, thiserror::Error)]
pub enum MountError {
    #[error("cannot make a private mount namespace: {0}")]
    Namespace(std::io::Error),
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// mount(8) succeeded, but the file system is not mounted.
    #[error(
        "{} is not mounted on {} although mount succeeded; {shown}",
        node.display(),
        point.display()
    )]
    NotMounted { node: PathBuf, point: PathBuf, shown: String },
    #[error("{}: {source}", point.display())]
    System { point: PathBuf, source: std::io::Error },
}

impl UserError for MountError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Namespace(_) => ExitClass::Environment,
            Self::Program(error) => error.class(),
            Self::NotMounted { .. } | Self::System { .. } => ExitClass::Io,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Namespace(_) => Some("run it as root".into()),
            Self::Program(error) => error.hint(),
            Self::NotMounted { .. } | Self::System { .. } => None,
        }
    }
}

/// Enters a private mount namespace. Call it before starting any thread.
///
/// # Errors
/// [`MountError::Namespace`], usually without root.
#[expect(unsafe_code, reason = "unshare_unsafe is unsafe for flags other than NEWNS")]
pub fn enter_private_namespace() -> Result<(), MountError> {
    let namespace = |error: rustix::io::Errno| MountError::Namespace(error.into());
    let former = std::fs::File::open("/proc/thread-self/ns/mnt").map_err(MountError::Namespace)?;
    // A second call keeps the first one's.
    let _ = FORMER_NAMESPACE.set(former);
    // SAFETY: NEWNS leaves the table of open files shared, so no I/O-safety rule is touched.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }
        .map_err(namespace)?;
    // Unmounts outside propagate in: otherwise a card that the user unmounted and removed would
    // stay mounted here. Mounts made here do not propagate out.
    let receive_only = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", receive_only).map_err(namespace)
}

/// The namespace that [`return_to_former_namespace`] returns to, if there is one.
pub fn former_namespace() -> Option<BorrowedFd<'static>> {
    FORMER_NAMESPACE.get().map(AsFd::as_fd)
}

/// Moves the calling thread alone back to the mount namespace that the process was in before
/// [`enter_private_namespace`]. A thread that answers the kernel for a file system must not be the
/// last one in a namespace whose mounts depend on its answers: killed, it would wait for itself.
///
/// # Errors
/// When the kernel refuses.
#[expect(unsafe_code, reason = "a thread with its own working directory has no safe interface")]
pub fn return_to_former_namespace() -> Result<(), MountError> {
    let Some(former) = FORMER_NAMESPACE.get() else { return Ok(()) };
    let namespace = |error: rustix::io::Errno| MountError::Namespace(error.into());
    // SAFETY: FS leaves the table of open files shared, so no I/O-safety rule is touched.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::FS) }
        .map_err(namespace)?;
    let mount = Some(rustix::thread::LinkNameSpaceType::Mount);
    rustix::thread::move_into_link_name_space(former.as_fd(), mount).map_err(namespace)
}

/// A mounted file system, unmounted when dropped.
#[derive(Debug)]
pub struct Mounted {
    point: PathBuf,
    mounted: bool,
}

impl Mounted {
    /// Mounts `node` on the existing folder `point` and verifies the mount.
    pub fn new(
        runner: &dyn Runner,
        node: &Path,
        kind: &str,
        point: &Path,
        options: &[String],
    ) -> Result<Self, MountError> {
        let system = |source| MountError::System { point: point.to_owned(), source };
        let mut program = Program::new("mount").args(["-t", kind]);
        if !options.is_empty() {
            program = program.arg("-o").arg(options.join(","));
        }
        let point = point.canonicalize().map_err(system)?;
        run_unless_busy(runner, &program.arg(node).arg(&point))?;
        let mounted = Self { point, mounted: true };
        if mounted.is_there(node).map_err(system)? {
            Ok(mounted)
        } else {
            let (node, point) = (node.to_owned(), mounted.point.clone());
            Err(MountError::NotMounted { node, point, shown: mounted.shown() })
        }
    }

    /// Runs a program that mounts something on the existing folder `point`, and verifies the mount.
    ///
    /// # Errors
    /// As [`Mounted::new`].
    pub fn by(runner: &dyn Runner, program: &Program, point: &Path) -> Result<Self, MountError> {
        let system = |source| MountError::System { point: point.to_owned(), source };
        let point = point.canonicalize().map_err(system)?;
        runner.run_checked(program)?;
        let mounted = Self { point, mounted: true };
        let found = mountinfo::at(&mounted.point).map_err(system)?;
        if found.is_some_and(|entry| entry.point == mounted.point) {
            Ok(mounted)
        } else {
            let node = PathBuf::from(program.name());
            Err(MountError::NotMounted {
                node,
                point: mounted.point.clone(),
                shown: mounted.shown(),
            })
        }
    }

    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Whether `node` is currently mounted at the mount point. Limit: where the kernel shows a
    /// btrfs under a name that is gone, any mounted btrfs with this device counts.
    ///
    /// # Errors
    /// When `/proc` or the node cannot be read.
    pub fn is_there(&self, node: &Path) -> std::io::Result<bool> {
        let Some(entry) = mountinfo::at(&self.point)? else { return Ok(false) };
        // The source of a layer is a name.
        if !node.is_absolute() && entry.source == node {
            return Ok(true);
        }
        let expected = std::fs::metadata(node)?.rdev();
        let (major, minor) = (rustix::fs::major(expected), rustix::fs::minor(expected));
        if entry.device == (major, minor) || entry.source == node {
            return Ok(true);
        }
        // btrfs reports an anonymous device number, and as source the name under which mkfs knew
        // the device. Linux 6.1.192 keeps that name, which may be that of a descriptor of a
        // process that has ended.
        Ok(entry.kind == "btrfs"
            && match std::fs::metadata(&entry.source) {
                Ok(source) if source.file_type().is_block_device() => source.rdev() == expected,
                _ => is_in_mounted_btrfs((major, minor))?,
            })
    }

    /// What the kernel shows there.
    fn shown(&self) -> String {
        match mountinfo::at(&self.point) {
            Ok(Some(entry)) => format!("the kernel shows {} there", entry.source.display()),
            Ok(None) => "the kernel shows nothing there".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// Leaves the file system mounted after the drop.
    pub fn keep(mut self) {
        self.mounted = false;
    }

    /// Unmounts the file system, which writes back dirty data. Waits a moment if it is busy.
    ///
    /// # Errors
    /// When the kernel refuses. Dropping the value then tries again, at last with a lazy unmount.
    pub fn unmount(mut self) -> Result<(), MountError> {
        let begun = Instant::now();
        loop {
            match unmount(&self.point, UnmountFlags::empty()) {
                Ok(()) => {
                    self.mounted = false;
                    return Ok(());
                }
                Err(Errno::BUSY) if begun.elapsed() < BUSY_TIMEOUT => sleep(BUSY_INTERVAL),
                Err(error) => {
                    let point = self.point.clone();
                    return Err(MountError::System { point, source: error.into() });
                }
            }
        }
    }
}

/// Runs mount(8), again for a moment if the device is busy: after a program has written to a whole
/// device, udev has it for itself while it looks for partitions.
fn run_unless_busy(runner: &dyn Runner, program: &Program) -> Result<(), ProgramError> {
    let begun = Instant::now();
    loop {
        match runner.run_checked(program) {
            Err(ProgramError::Failed { message, .. })
                if message.contains("busy") && begun.elapsed() < BUSY_TIMEOUT =>
            {
                runner.wait(BUSY_INTERVAL)?;
            }
            ended => return ended.map(drop),
        }
    }
}

fn is_in_mounted_btrfs((major, minor): (u32, u32)) -> std::io::Result<bool> {
    let block = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"))?;
    Ok(block.file_name().is_some_and(|name| is_device_of_mounted_btrfs(Path::new("/sys"), name)))
}

/// Whether the block device `name` belongs to a btrfs that is mounted somewhere, by sysfs at `sys`.
pub fn is_device_of_mounted_btrfs(sys: &Path, name: &OsStr) -> bool {
    let mut all = std::fs::read_dir(sys.join("fs/btrfs")).into_iter().flatten().flatten();
    all.any(|filesystem| filesystem.path().join("devices").join(name).exists())
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.mounted && unmount(&self.point, UnmountFlags::empty()).is_err() {
            // Busy or broken: detach it now; the kernel unmounts it after its last use.
            let _ = unmount(&self.point, UnmountFlags::DETACH);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::program::ProgramOutcome;

    /// Says that the device is busy, so many times.
    struct BusyFor(AtomicU32);

    impl Runner for BusyFor {
        fn run(&self, _program: &Program) -> Result<ProgramOutcome, ProgramError> {
            let left =
                self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            let stderr = "mount: /mnt: /dev/sdz already mounted or mount point busy.".to_owned();
            Ok(match left {
                Ok(_) => ProgramOutcome { code: Some(32), stderr, ..ProgramOutcome::default() },
                Err(_) => ProgramOutcome { code: Some(0), ..ProgramOutcome::default() },
            })
        }

        fn wait(&self, time: Duration) -> Result<(), ProgramError> {
            sleep(time);
            Ok(())
        }
    }

    #[test]
    fn a_device_that_is_busy_for_a_moment_is_tried_again() {
        let mount = Program::new("mount");
        run_unless_busy(&BusyFor(AtomicU32::new(3)), &mount).unwrap();
        let always = BusyFor(AtomicU32::new(u32::MAX));
        let error = run_unless_busy(&always, &mount).unwrap_err();
        assert!(error.to_string().contains("busy"), "{error}");
    }
}
