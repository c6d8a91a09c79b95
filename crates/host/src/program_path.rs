//! Finds programs.
//!
//! An unprivileged user's `PATH` is used, with the `sbin` next to each `bin`. Root may have
//! inherited the `PATH` of another user (`su`, `sudo` without `secure_path`), so root searches only
//! the system folders or those in `FLASHFIT_PATH`. Each folder must belong to root and must not be
//! writable by others; the same holds for its parents unless they have the sticky bit.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Replaces `PATH` for root.
pub const VARIABLE: &str = "FLASHFIT_PATH";
/// Used without a `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Writable by group or others.
const GROUP_OR_OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// The path of a program. A name with a slash is used as is.
pub fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Path::new(name).exists().then(|| PathBuf::from(name));
    }
    find_among(&folders(), name)
}

/// The `PATH` for child processes, so that they search the same folders.
pub(crate) fn for_children() -> Option<OsString> {
    let folders = rustix::process::geteuid().is_root().then(folders)?;
    std::env::join_paths(folders).ok()
}

/// Where a program is on root's `PATH`, which is not searched.
pub(crate) fn find_outside_system_path(name: &str) -> Option<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    let path = std::env::var_os("PATH").filter(|_| is_root && !name.contains('/'))?;
    if find(name).is_some() {
        // Installed in the meantime.
        return None;
    }
    find_among(&split(&path), name)
}

fn folders() -> Vec<PathBuf> {
    if rustix::process::geteuid().is_root() {
        let path = std::env::var_os(VARIABLE).unwrap_or_else(|| SYSTEM_PATH.into());
        return split(&path).into_iter().filter(|folder| only_root_writes(folder)).collect();
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    with_sbin(split(&path))
}

/// Drops relative folders: the working directory is never searched.
fn split(path: &OsStr) -> Vec<PathBuf> {
    std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect()
}

/// The `PATH` of an unprivileged user usually lacks the `sbin` folders. A `PATH` without any `bin`
/// folder was set on purpose and is not extended.
fn with_sbin(mut folders: Vec<PathBuf>) -> Vec<PathBuf> {
    let bins = folders.iter().filter(|folder| folder.ends_with("bin"));
    let sbins: Vec<PathBuf> = bins.map(|folder| folder.with_file_name("sbin")).collect();
    folders.extend(sbins);
    folders
}

fn find_among(folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    folders.iter().map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

/// Whether only root can add programs to `folder` or replace the folder.
fn only_root_writes(folder: &Path) -> bool {
    let Ok(real) = folder.canonicalize() else { return false };
    let safe = |path: &Path, may_be_sticky: bool| {
        std::fs::metadata(path).is_ok_and(|found| {
            let is_sticky = may_be_sticky && found.mode() & STICKY != 0;
            found.uid() == 0 && (found.mode() & GROUP_OR_OTHERS_WRITE == 0 || is_sticky)
        })
    };
    safe(&real, false) && real.ancestors().skip(1).all(|parent| safe(parent, true))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn find_in(path: &OsStr, name: &str) -> Option<PathBuf> {
        find_among(&with_sbin(split(path)), name)
    }

    #[test]
    fn sbin_next_to_bin_is_searched() {
        let root = tempfile::tempdir().unwrap();
        let (bin, sbin) = (root.path().join("bin"), root.path().join("sbin"));
        let other = root.path().join("other");
        for folder in [&bin, &sbin, &other] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(sbin.join("mkfs"), "").unwrap();
        assert_eq!(find_in(bin.as_os_str(), "mkfs"), Some(sbin.join("mkfs")));
        assert_eq!(find_in(other.as_os_str(), "mkfs"), None);
        std::fs::write(bin.join("mkfs"), "").unwrap();
        let both = std::env::join_paths([&other, &bin]).unwrap();
        assert_eq!(find_in(&both, "mkfs"), Some(bin.join("mkfs")));
        for path in ["", ".", "::"] {
            assert_eq!(find_in(OsStr::new(path), "Cargo.toml"), None);
        }
    }

    #[test]
    fn root_does_not_search_folders_that_others_can_write_to() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        assert!(only_root_writes(Path::new("/usr/bin")));
        assert!(!only_root_writes(Path::new("/nonexistent")));
        let root = tempfile::tempdir().unwrap();
        let (outer, inner) = (root.path().join("outer"), root.path().join("outer/bin"));
        std::fs::create_dir_all(&inner).unwrap();
        assert!(only_root_writes(&inner));
        for (folder, mode) in [(&inner, 0o775), (&inner, 0o1777), (&outer, 0o757)] {
            std::fs::set_permissions(folder, Permissions::from_mode(mode)).unwrap();
            assert!(!only_root_writes(&inner), "{folder:?} {mode:o}");
            std::fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
        }
        std::fs::set_permissions(&outer, Permissions::from_mode(0o1777)).unwrap();
        assert!(only_root_writes(&inner), "the sticky bit keeps others from renaming");
        std::os::unix::fs::chown(&inner, Some(65534), None).unwrap();
        assert!(!only_root_writes(&inner));
    }
}
