//! The directory of a test: made, locked, found again after a kill, and removed.
//!
//! A killed process leaves the directory. The next test of the same file system recognizes it by
//! its marker, which is locked as long as a test is under way, and removes it. Everything is opened
//! relative to the open mount, and no link is followed. Limit: the owner of the file system's root
//! can rename or remove the directory at any time.

use std::fs::File;
use std::io::{self, Write};

use flashfit_host::at_panic::AtPanic;
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// The name of the directory in the root of the file system.
pub const TEST_FOLDER: &str = ".flashfit-capacity-test";
/// The file in it that shows who made it.
const MARKER: &str = "flashfit";
const MARKER_TEXT: &[u8] =
    b"Files of `flashfit probe --capacity --keep-data`. They may be removed.\n";
const SAFE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// Why there is no directory.
#[derive(Debug)]
pub enum FolderProblem {
    UnderWay,
    Foreign,
    System(io::Error),
}

impl From<io::Error> for FolderProblem {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<Errno> for FolderProblem {
    fn from(errno: Errno) -> Self {
        Self::System(errno.into())
    }
}

/// Removed with its files when it is dropped, and at a panic.
#[derive(Debug)]
pub struct TestFolder<'a> {
    root: &'a File,
    folder: File,
    /// Locked.
    _marker: File,
    /// Files of a killed test that were removed.
    pub leftover_files: usize,
    is_removed: bool,
    _at_panic: AtPanic,
}

impl<'a> TestFolder<'a> {
    /// Makes the directory in this root, or takes over that of a killed test.
    pub fn make(root: &'a File) -> Result<Self, FolderProblem> {
        match rustix::fs::mkdirat(root, TEST_FOLDER, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let opened = rustix::fs::openat(root, TEST_FOLDER, SAFE | OFlags::DIRECTORY, Mode::empty());
        let folder = match opened {
            Ok(folder) => File::from(folder),
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(FolderProblem::Foreign),
            Err(errno) => return Err(errno.into()),
        };
        let names = names(&folder)?;
        // Killed after mkdir: empty.
        if !names.is_empty() && !names.iter().any(|name| name == MARKER) {
            return Err(FolderProblem::Foreign);
        }
        let flags = SAFE | OFlags::RDWR | OFlags::CREATE;
        let marker = match rustix::fs::openat(&folder, MARKER, flags, Mode::RUSR | Mode::WUSR) {
            Ok(marker) => File::from(marker),
            Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => return Err(FolderProblem::Foreign),
            Err(errno) => return Err(errno.into()),
        };
        match rustix::fs::flock(&marker, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(FolderProblem::UnderWay),
            Err(errno) => return Err(errno.into()),
        }
        let leftover_files = remove_files(&folder, &names)?;
        let at_panic = AtPanic::new({
            let (root, folder) = (root.try_clone()?, folder.try_clone()?);
            move || drop(clear(&root, &folder))
        });
        let made = Self {
            root,
            folder,
            _marker: marker,
            leftover_files,
            is_removed: false,
            _at_panic: at_panic,
        };
        (&made._marker).write_all(MARKER_TEXT).map_err(FolderProblem::System)?;
        made._marker.sync_all().map_err(FolderProblem::System)?;
        Ok(made)
    }

    /// Makes a file that must not exist.
    pub fn create(&self, number: u64) -> io::Result<File> {
        let flags = SAFE | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(rustix::fs::openat(&self.folder, file_name(number), flags, mode)?.into())
    }

    /// Removes everything; whether that worked.
    pub fn remove(mut self) -> bool {
        self.clear().is_ok()
    }

    fn clear(&mut self) -> io::Result<()> {
        self.is_removed = true;
        clear(self.root, &self.folder)
    }
}

fn clear(root: &File, folder: &File) -> io::Result<()> {
    let names = names(folder)?;
    remove_files(folder, &names)?;
    rustix::fs::unlinkat(folder, MARKER, AtFlags::empty())?;
    rustix::fs::unlinkat(root, TEST_FOLDER, AtFlags::REMOVEDIR)?;
    // The space is free again on the device, too.
    Ok(rustix::fs::syncfs(root)?)
}

impl Drop for TestFolder<'_> {
    fn drop(&mut self) {
        if !self.is_removed {
            // `remove` reports; here another error is under way.
            let _ = self.clear();
        }
    }
}

fn file_name(number: u64) -> String {
    format!("{number:06}")
}

fn is_file_name(name: &str) -> bool {
    name.len() >= 6 && name.bytes().all(|byte| byte.is_ascii_digit())
}

fn names(folder: &File) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Removes files of a test, and nothing else.
fn remove_files(folder: &File, names: &[String]) -> Result<usize, Errno> {
    let mut removed = 0;
    for name in names.iter().filter(|name| is_file_name(name)) {
        rustix::fs::unlinkat(folder, name.as_str(), AtFlags::empty())?;
        removed += 1;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn root(path: &std::path::Path) -> File {
        File::open(path).unwrap()
    }

    #[test]
    fn a_folder_is_removed_and_a_left_one_taken_over() {
        let place = tempfile::tempdir().unwrap();
        let root = root(place.path());
        let folder = TestFolder::make(&root).unwrap();
        folder.create(0).unwrap();
        assert!(folder.create(0).is_err());
        assert!(matches!(TestFolder::make(&root), Err(FolderProblem::UnderWay)));
        drop(folder);
        assert!(!place.path().join(TEST_FOLDER).exists());
        // As a kill leaves it.
        let folder = TestFolder::make(&root).unwrap();
        folder.create(3).unwrap();
        std::mem::forget(folder);
        assert!(matches!(TestFolder::make(&root), Err(FolderProblem::UnderWay)));
        let left = place.path().join("left");
        std::fs::rename(place.path().join(TEST_FOLDER), &left).unwrap();
        std::fs::create_dir(place.path().join(TEST_FOLDER)).unwrap();
        for name in [MARKER, "000003"] {
            std::fs::write(place.path().join(TEST_FOLDER).join(name), "x").unwrap();
        }
        let folder = TestFolder::make(&root).unwrap();
        assert_eq!(folder.leftover_files, 1);
        assert!(folder.remove());
        assert!(!place.path().join(TEST_FOLDER).exists());
        // In this test, as it is done for all tests of this process.
        let folder = TestFolder::make(&root).unwrap();
        folder.create(0).unwrap();
        std::mem::forget(folder);
        flashfit_host::at_panic::run();
        assert!(!place.path().join(TEST_FOLDER).exists());
    }

    #[test]
    fn links_and_foreign_folders_are_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let root = root(place.path());
        let (folder, other) = (place.path().join(TEST_FOLDER), place.path().join("other"));
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join(MARKER), "x").unwrap();
        std::fs::write(other.join("000001"), "mine").unwrap();
        symlink(&other, &folder).unwrap();
        assert!(matches!(TestFolder::make(&root), Err(FolderProblem::Foreign)));
        std::fs::remove_file(&folder).unwrap();
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("000001"), "mine").unwrap();
        assert!(matches!(TestFolder::make(&root), Err(FolderProblem::Foreign)));
        assert!(folder.join("000001").exists() && other.join("000001").exists());
        // A marker that is a link is not written through.
        symlink(other.join("000001"), folder.join(MARKER)).unwrap();
        assert!(matches!(TestFolder::make(&root), Err(FolderProblem::Foreign)));
        assert_eq!(std::fs::read_to_string(other.join("000001")).unwrap(), "mine");
    }
}
