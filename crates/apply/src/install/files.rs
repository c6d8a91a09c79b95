//! The system's files: where they are below a root, whether they can be replaced, and their text.

use std::path::{Path, PathBuf};

use flashfit_host::{byte_text, calendar, durable, mountinfo};
use rustix::fs::Access;

use crate::error::ApplyError;

/// Whether `root` is the root of the running system.
pub fn is_own_system(root: &Path) -> bool {
    root.canonicalize().is_ok_and(|root| root == Path::new("/"))
}

/// A file of the system below `root`, with links resolved as long as they stay there: a new file is
/// put in place of the old one, not in place of a link to it.
pub(crate) fn path_below(root: &Path, name: &str) -> Result<PathBuf, ApplyError> {
    let root = root.canonicalize().map_err(ApplyError::file(root))?;
    let path = root.join(name);
    let exists = |path: &&Path| std::fs::symlink_metadata(path).is_ok();
    let there = path.ancestors().find(exists).unwrap_or(&root);
    let resolved = there.canonicalize().map_err(ApplyError::file(there))?;
    if !resolved.starts_with(&root) {
        let (there, to) = (there.display(), resolved.display());
        let reason = format!("{there} is a link to {to}, outside of {}", root.display());
        return Err(ApplyError::SystemFile { path, reason });
    }
    let rest = path.strip_prefix(there).expect("it is an ancestor");
    Ok(if rest.as_os_str().is_empty() { resolved } else { resolved.join(rest) })
}

/// The text of a file, see [`byte_text`]; empty where there is none.
pub(crate) fn read(path: &Path) -> Result<String, ApplyError> {
    match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        other => other.map(|bytes| byte_text::from_bytes(&bytes)).map_err(ApplyError::file(path)),
    }
}

/// Replaces the file, or makes it and its folders.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), ApplyError> {
    let bytes = byte_text::to_bytes(text);
    if path.exists() {
        return durable::replace(path, &bytes).map_err(unwritable(path));
    }
    let folder = path.parent().expect("its name has folders in it");
    std::fs::create_dir_all(folder).map_err(unwritable(folder))?;
    durable::write(path, &bytes).map_err(unwritable(path))
}

/// Whether the file could be replaced, or made with its folders. Nothing is written.
///
/// # Errors
/// [`ApplyError::UnwritableFile`].
pub(crate) fn check_writable(path: &Path) -> Result<(), ApplyError> {
    let is_there = |path: &&Path| path.exists();
    let folder = path.ancestors().skip(1).find(is_there).unwrap_or(Path::new("/"));
    // The file, too: it may be protected by an attribute.
    for place in [folder].into_iter().chain(Some(path).filter(is_there)) {
        rustix::fs::access(place, Access::WRITE_OK)
            .map_err(|errno| unwritable(path)(errno.into()))?;
    }
    Ok(())
}

/// An error of writing to a file of the system.
pub(crate) fn unwritable(path: &Path) -> impl FnOnce(std::io::Error) -> ApplyError + use<'_> {
    move |source| {
        let is_there = |path: &&Path| path.exists();
        let place = path.ancestors().find(is_there).and_then(|at| std::fs::File::open(at).ok());
        let entry = place.and_then(|file| mountinfo::of_open(&file).ok().flatten());
        let mount_point = entry.map_or_else(|| PathBuf::from("/"), |entry| entry.point);
        ApplyError::UnwritableFile { path: path.to_owned(), mount_point, source }
    }
}

/// A free name next to a file: no earlier copy is overwritten.
pub(super) fn copy_path(path: &Path) -> PathBuf {
    let stamp = calendar::stamp(calendar::unix_seconds());
    let name = |more: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".flashfit-{stamp}{more}"));
        PathBuf::from(name)
    };
    let mut names = std::iter::once(name("")).chain((1..).map(|count| name(&format!("-{count}"))));
    names.find(|name| !name.exists()).expect("the numbers do not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_a_link_out_of_the_root_is_not_followed() {
        const NAME: &str = "etc/udev/rules.d/60-flashfit.rules";
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        std::fs::create_dir_all(root.join("etc/udev")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        let link = root.join("etc/udev/rules.d");
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        let error = path_below(&root, NAME).unwrap_err().to_string();
        assert!(error.contains("outside of"), "{error}");
        std::fs::remove_file(&link).unwrap();
        std::fs::create_dir(root.join("rules")).unwrap();
        std::os::unix::fs::symlink("../../rules", &link).unwrap();
        let found = path_below(&root, NAME).unwrap();
        assert_eq!(found, root.canonicalize().unwrap().join("rules/60-flashfit.rules"));
    }

    #[test]
    fn no_copy_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fstab");
        let first = copy_path(&path);
        std::fs::write(&first, "x").unwrap();
        assert_ne!(copy_path(&path), first);
    }

    #[test]
    fn a_file_that_can_be_made_with_its_folders_is_writable() {
        let folder = tempfile::tempdir().unwrap();
        check_writable(&folder.path().join("etc/udev/rules.d/a.rules")).unwrap();
        assert!(!folder.path().join("etc").exists());
        let file = folder.path().join("fstab");
        std::fs::write(&file, "").unwrap();
        check_writable(&file).unwrap();
        assert!(is_own_system(Path::new("/")) && is_own_system(Path::new("/proc/../")));
        assert!(!is_own_system(folder.path()));
    }
}
