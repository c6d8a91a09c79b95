//! Files that are there whole or not at all, also after a loss of power: written beside, synced,
//! renamed, and the folder synced (rename(2), fsync(2)).

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes `bytes` as the file at `path`, in place of what is there.
///
/// # Errors
/// When it cannot be written, synced or renamed; what was there before is then still there.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, bytes, |_| Ok(()))
}

/// Writes `bytes` in place of the existing file at `path`, which keeps its permissions and owner.
///
/// # Errors
/// As [`fn@write`], and when there is no file or its owner cannot be given to the new one.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let earlier = std::fs::metadata(path)?;
    write_with(path, bytes, |file| {
        std::os::unix::fs::fchown(file, Some(earlier.uid()), Some(earlier.gid()))?;
        file.set_permissions(Permissions::clone(&earlier.permissions()))
    })
}

fn write_with(
    path: &Path,
    bytes: &[u8],
    prepare: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let draft = draft_of(path);
    // One that was left is not written through: it may be a link to somewhere else.
    let _ = std::fs::remove_file(&draft);
    let created = OpenOptions::new().write(true).create_new(true).open(&draft);
    let written = created.and_then(|mut file| {
        prepare(&file)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&draft, path)
    });
    written.inspect_err(|_| {
        // What cannot be removed either is overwritten by the next attempt.
        let _ = std::fs::remove_file(&draft);
    })?;
    sync_folder(path.parent().unwrap_or(Path::new("/")))
}

/// The name is the file's own with an ending, so that a draft that is left is overwritten by the
/// next one, and no program takes it for a file of its kind.
fn draft_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

/// Makes what was created, renamed or removed in `folder` survive a loss of power.
///
/// # Errors
/// When the folder cannot be opened or synced.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}

/// Makes a folder with these permissions, and those above it that are missing. All of them survive
/// a loss of power: to sync what is in a folder does not keep the folder's own name.
///
/// # Errors
/// When one cannot be made or synced.
pub fn create_folders(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let above = path.parent().unwrap_or(Path::new("/"));
    create_folders(above, mode)?;
    // Recursive, because another process may have made it since.
    std::fs::DirBuilder::new().recursive(true).mode(mode).create(path)?;
    sync_folder(above)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_permissions() {
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
    fn folders_are_made_with_their_permissions_where_they_are_missing() {
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
    fn what_cannot_be_written_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        write(&path, b"one").unwrap();
        std::fs::create_dir(draft_of(&path)).unwrap();
        assert!(write(&path, b"two").is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        assert!(replace(&folder.path().join("none"), b"x").is_err());
    }
}
