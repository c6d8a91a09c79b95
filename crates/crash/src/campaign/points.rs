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
        let candidates = ["/mnt", "/media", "/srv", "/opt"].map(Path::new);
        let root = folder_to_cover(&candidates, &used).ok_or_else(|| {
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

/// The first folder that covers nothing that is used; rather an empty one, as the user's own
/// program may need what is in the others.
fn folder_to_cover(candidates: &[&Path], used: &[PathBuf]) -> Option<PathBuf> {
    let is_free = |root: &PathBuf| root.is_dir() && !used.iter().any(|it| it.starts_with(root));
    let is_empty = |root: &PathBuf| fs::read_dir(root).is_ok_and(|mut all| all.next().is_none());
    let folders = candidates.iter().filter_map(|folder| folder.canonicalize().ok());
    let mut free: Vec<PathBuf> = folders.filter(is_free).collect();
    let first = free.iter().position(is_empty).unwrap_or(0);
    (first < free.len()).then(|| free.swap_remove(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_folder_is_covered_rather_than_one_with_files() {
        let place = tempfile::tempdir().unwrap();
        let [full, used, empty] = ["full", "used", "empty"].map(|name| place.path().join(name));
        for folder in [&full, &used, &empty] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(full.join("tool"), "").unwrap();
        let in_use = [used.canonicalize().unwrap()];
        let chosen = |candidates: &[&Path]| folder_to_cover(candidates, &in_use);
        let name = |folder: Option<PathBuf>| folder.map(|it| it.file_name().unwrap().to_owned());
        assert_eq!(name(chosen(&[&full, &used, &empty])).unwrap(), "empty");
        assert_eq!(name(chosen(&[&full, &used])).unwrap(), "full");
        assert_eq!(chosen(&[&used, &place.path().join("none")]), None);
    }
}
