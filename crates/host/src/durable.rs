//! Writes files atomically and durably: to a temporary file, which is synced and renamed, after
//! which the folder is synced (rename(2), fsync(2)). After a power cut a file is either the old or
//! the new one.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes `bytes` to the file at `path`, replacing an existing one.
///
/// # Errors
/// When writing, syncing or renaming fails; an existing file is then unchanged.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, bytes, |_| Ok(()))
}

/// Replaces the existing file at `path` and keeps its permissions and owner.
///
/// # Errors
/// Those of [`fn@write`], and when the file does not exist or its owner cannot be kept.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let old = std::fs::metadata(path)?;
    write_with(path, bytes, |file| {
        std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()))?;
        file.set_permissions(Permissions::clone(&old.permissions()))
    })
}

fn write_with(
    path: &Path,
    bytes: &[u8],
    prepare: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let draft = draft_of(path);
    // Never written through an old draft, which could be a symbolic link.
    let _ = std::fs::remove_file(&draft);
    let created = OpenOptions::new().write(true).create_new(true).open(&draft);
    let written = created.and_then(|mut file| {
        prepare(&file)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&draft, path)
    });
    written.inspect_err(|_| {
        // The next attempt removes what is left.
        let _ = std::fs::remove_file(&draft);
    })?;
    sync_folder(path.parent().unwrap_or(Path::new("/")))
}

/// A fixed suffix: the next attempt replaces a stale draft, and no program mistakes it for a file
/// of its type.
fn draft_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

/// Makes creations, renames and removals in `folder` survive a power cut.
///
/// # Errors
/// When the folder cannot be opened or synced.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}

/// Creates a folder and its missing parents with these permissions, durably. Syncing a folder does
/// not sync its own entry in the parent, so each parent is synced as well.
///
/// # Errors
/// When a folder cannot be created or synced.
pub fn create_folders(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().unwrap_or(Path::new("/"));
    create_folders(parent, mode)?;
    // Recursive, because another process may have created it in the meantime.
    std::fs::DirBuilder::new().recursive(true).mode(mode).create(path)?;
    sync_folder(parent)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_replaced_file_keeps_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fstab");
        write(&path, b"one").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a draft is left");
    }

    #[test]
    fn missing_folders_are_created_with_the_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        for _ in 0..2 {
            create_folders(&path, 0o700).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        }
        write(&path.join("file"), b"one").unwrap();
        assert!(create_folders(&path.join("file/c"), 0o700).is_err());
    }

    #[test]
    fn a_link_in_place_of_the_draft_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("new"), folder.path().join("other"));
        std::fs::write(&other, "theirs").unwrap();
        std::os::unix::fs::symlink(&other, draft_of(&path)).unwrap();
        write(&path, b"ours").unwrap();
        assert_eq!(std::fs::read(&other).unwrap(), b"theirs");
        assert_eq!(std::fs::read(&path).unwrap(), b"ours");
    }

    #[test]
    fn a_failed_write_keeps_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        write(&path, b"one").unwrap();
        std::fs::create_dir(draft_of(&path)).unwrap();
        assert!(write(&path, b"two").is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        assert!(replace(&folder.path().join("none"), b"x").is_err());
    }
}
