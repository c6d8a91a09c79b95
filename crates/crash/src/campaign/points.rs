//! Folders to mount on that no other process sees and that leave nothing behind.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flashfit_host::mount::enter_private_namespace;
use rustix::mount::{MountFlags, mount};

use crate::CrashError;

/// A file system in memory, in a private mount namespace; unmounted when the process ends.
#[derive(Debug)]
pub struct MountPoints {
    root: PathBuf,
}

impl MountPoints {
    /// Enters a private mount namespace. For a process that has not started any thread. `used` is
    /// not covered by the mount.
    ///
    /// # Errors
    /// Without root, or where there is no folder to cover.
    pub fn take(used: &[&Path]) -> Result<Self, CrashError> {
        enter_private_namespace()?;
        let used: Vec<PathBuf> = used
            .iter()
            .filter_map(|path| path.ancestors().find_map(|p| p.canonicalize().ok()))
            .collect();
        let is_free = |root: &PathBuf| !used.iter().any(|path| path.starts_with(root));
        let root = ["/mnt", "/media", "/srv", "/opt"]
            .into_iter()
            .filter_map(|folder| Path::new(folder).canonicalize().ok())
            .find(|root| root.is_dir() && is_free(root));
        let root = root.ok_or_else(|| {
            CrashError::Fuse(io::Error::other(
                "there is no folder /mnt, /media, /srv or /opt to use",
            ))
        })?;
        let failed = |source| CrashError::File { path: root.clone(), source };
        mount("flashfit", &root, "tmpfs", MountFlags::empty(), None)
            .map_err(|error| failed(error.into()))?;
        Ok(Self { root })
    }

    /// An empty folder of this name.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn folder(&self, name: &str) -> Result<PathBuf, CrashError> {
        let path = self.root.join(name);
        fs::create_dir_all(&path)
            .map_err(|source| CrashError::File { path: path.clone(), source })?;
        Ok(path)
    }
}
