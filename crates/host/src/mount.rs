//! Mounting for the length of a trial, where no other process sees it and nothing is left behind.
//!
//! [`enter_private_namespace`] gives this process mounts of its own (mount_namespaces(7)): when the
//! process and its children are gone, however they went, the kernel takes the mounts down.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};

use crate::mountinfo;
use crate::program::{Program, ProgramError, Runner};
use flashfit_user_error::{ExitClass, UserError};

/// Why a file system is not mounted, or not as asked.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    #[error("cannot make a private mount namespace: {0}")]
    Namespace(std::io::Error),
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// mount(8) succeeded, but the file system is not there.
    #[error("{} is not mounted on {} although mount succeeded", node.display(), point.display())]
    NotThere { node: PathBuf, point: PathBuf },
    /// The system refused in another way.
    #[error("{}: {source}", point.display())]
    System { point: PathBuf, source: std::io::Error },
}

impl UserError for MountError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Namespace(_) => ExitClass::Environment,
            Self::Program(error) => error.class(),
            Self::NotThere { .. } | Self::System { .. } => ExitClass::Io,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Namespace(_) => Some("run it as root".to_owned()),
            Self::Program(error) => error.hint(),
            Self::NotThere { .. } | Self::System { .. } => None,
        }
    }
}

/// Gives this process its own mounts. To be called before any thread is started.
///
/// # Errors
/// [`MountError::Namespace`], usually for want of rights.
#[expect(unsafe_code, reason = "unsharing can unshare the file table too; NEWNS does not")]
pub fn enter_private_namespace() -> Result<(), MountError> {
    let namespace = |error: rustix::io::Errno| MountError::Namespace(error.into());
    // SAFETY: NEWNS leaves the table of open files shared, so no I/O-safety rule is touched.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }
        .map_err(namespace)?;
    // What is unmounted outside must go here too, or a device that the user has unmounted and taken
    // out would still be mounted here. Nothing goes the other way.
    let inward = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", inward).map_err(namespace)
}

/// A mounted file system; unmounted when dropped.
#[derive(Debug)]
pub struct Mounted {
    point: PathBuf,
    mounted: bool,
}

impl Mounted {
    /// Mounts `node` on the existing folder `point` and looks whether it is really there.
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
        runner.run_checked(
            &program.arg(node.display().to_string()).arg(point.display().to_string()),
        )?;
        let mounted = Self { point, mounted: true };
        if mounted.is_there(node).map_err(system)? {
            Ok(mounted)
        } else {
            Err(MountError::NotThere { node: node.to_owned(), point: mounted.point.clone() })
        }
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Whether `node` is what is mounted here now.
    ///
    /// # Errors
    /// When `/proc` or the node cannot be read.
    pub fn is_there(&self, node: &Path) -> std::io::Result<bool> {
        let Some(entry) = mountinfo::at(&self.point)? else { return Ok(false) };
        let wanted = std::fs::metadata(node)?.rdev();
        let wanted = (rustix::fs::major(wanted), rustix::fs::minor(wanted));
        // btrfs reports an anonymous device number; its source is the node.
        Ok(entry.device == wanted || Path::new(&entry.source) == node)
    }

    /// Leaves it mounted: the user wants it there.
    pub fn keep(mut self) {
        self.mounted = false;
    }

    /// Unmounts, writing back what is dirty.
    ///
    /// # Errors
    /// When the kernel refuses; it is then tried once more, lazily, when the value is dropped.
    pub fn unmount(mut self) -> Result<(), MountError> {
        unmount(&self.point, UnmountFlags::empty()).map_err(|error| MountError::System {
            point: self.point.clone(),
            source: error.into(),
        })?;
        self.mounted = false;
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.mounted && unmount(&self.point, UnmountFlags::empty()).is_err() {
            // Busy or broken: off the tree at once, gone when its last user is.
            let _ = unmount(&self.point, UnmountFlags::DETACH);
        }
    }
}
