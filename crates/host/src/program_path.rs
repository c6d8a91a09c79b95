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

/// What root can do to run a program that is there but not where root searches.
pub(crate) fn advice(name: &str) -> Option<String> {
    // The second: installed in the meantime.
    if !rustix::process::geteuid().is_root() || name.contains('/') || find(name).is_some() {
        return None;
    }
    let own = named();
    let path = std::env::var_os("PATH").unwrap_or_default();
    advice_for(name, own.as_deref(), &path)
}

fn advice_for(name: &str, own: Option<&OsStr>, path: &OsStr) -> Option<String> {
    let system = split(OsStr::new(SYSTEM_PATH));
    let named = own.map(split).unwrap_or_default();
    let all: Vec<PathBuf> = named.into_iter().chain(split(path)).collect();
    let found = find_among(&all, name)?;
    let folder = found.parent()?;
    if !only_root_writes(folder) {
        let (found, folder) = (found.display(), crate::program::quote_path(folder));
        return Some(format!(
            "root does not run {found}, since others may write to its directory or one above it: \
             namei -l {folder}"
        ));
    }
    if own.is_some() && system.iter().any(|one| one == folder) {
        return Some(format!(
            "root searches only {VARIABLE}, which lacks {}: unset {VARIABLE}",
            found.display()
        ));
    }
    let mut folders = vec![folder.to_owned()];
    folders.extend(own.map_or(system, split));
    let searched = std::env::join_paths(&folders).ok()?;
    let searched = crate::program::quote_path(Path::new(&searched));
    Some(format!(
        "root does not search PATH, where the program is {}: export {VARIABLE}={searched}",
        found.display()
    ))
}

/// What the variable has; an empty one counts as not set.
fn named() -> Option<OsString> {
    std::env::var_os(VARIABLE).filter(|path| !path.is_empty())
}

fn folders() -> Vec<PathBuf> {
    if rustix::process::geteuid().is_root() {
        let path = named().unwrap_or_else(|| SYSTEM_PATH.into());
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
    fn a_program_that_root_does_not_find_is_explained() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join("own"), "").unwrap();
        let nowhere = OsStr::new("/nonexistent");
        let set = advice_for("sh", Some(nowhere), OsStr::new("/usr/bin:/bin")).unwrap();
        assert!(set.contains("which lacks /usr/bin/sh: unset FLASHFIT_PATH"), "{set}");
        let typed = format!("export FLASHFIT_PATH={}:", bin.display());
        let unset = advice_for("own", None, bin.as_os_str()).unwrap();
        assert!(unset.contains(&format!("{typed}/usr/local/sbin:")), "{unset}");
        let more = advice_for("own", Some(OsStr::new("/opt/bin")), bin.as_os_str()).unwrap();
        assert!(more.ends_with(&format!("{typed}/opt/bin")), "{more}");
        std::fs::set_permissions(&bin, Permissions::from_mode(0o777)).unwrap();
        for own in [None, Some(bin.as_os_str())] {
            let unsafe_folder = advice_for("own", own, bin.as_os_str()).unwrap();
            assert!(unsafe_folder.contains("others may write"), "{unsafe_folder}");
        }
        assert_eq!(advice_for("own", None, nowhere), None);
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
