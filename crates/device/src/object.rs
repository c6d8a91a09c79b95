//! The object behind a target's path. It is opened once, when it is shown. Afterwards it is
//! compared by identity and opened again only through its own descriptor (`/proc/self/fd/N`),
//! never by its path.
//!
//! What is only shown is opened with `O_PATH`: that is not a use of a device, and it pins an
//! image's inode. What is held for writing also pins the kernel's device behind a node: neither
//! the inode nor the device's name is given to another one while it is open. Limits: before it
//! is held, another device under the same number is known by its size, its identity and the
//! kernel's count of disks (from Linux 5.15 on). A file system that does not report when a file
//! was made may give the inode of a removed file to a new one; identities that were recorded by
//! another process are then equal.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::UNIX_EPOCH;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// What identifies a file or a device node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectId {
    /// Number of the device that the file's file system is on.
    pub device: u64,
    pub inode: u64,
    /// Device number of a node; 0 for a file.
    #[serde(default)]
    pub node: u64,
    /// When the file was made, in nanoseconds since 1970; 0 where its file system does not say.
    #[serde(default)]
    pub born_ns: u64,
}

impl ObjectId {
    /// The identity of what was looked at.
    pub fn of(found: &Metadata) -> Self {
        let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        Self {
            device: found.dev(),
            inode: found.ino(),
            node: if is_node(found) { found.rdev() } else { 0 },
            born_ns: born.and_then(|born| u64::try_from(born.as_nanos()).ok()).unwrap_or_default(),
        }
    }

    /// The identity of what `path` names now. A link is not followed.
    ///
    /// # Errors
    /// When there is nothing.
    pub fn at(path: &Path) -> io::Result<Self> {
        std::fs::symlink_metadata(path).map(|found| Self::of(&found))
    }

    /// Whether both are one object, in the same boot. A node is its device, wherever the node is.
    pub fn is(&self, other: &Self) -> bool {
        if self.node != 0 || other.node != 0 {
            return self.node == other.node;
        }
        self.device == other.device && self.is_file(other)
    }

    /// Whether both are one file, perhaps in different boots: some file systems are given another
    /// device number each time. Without a time of birth the device number has to do.
    pub fn is_file(&self, other: &Self) -> bool {
        let born = [self.born_ns, other.born_ns];
        let same_birth =
            if born.contains(&0) { self.device == other.device } else { born[0] == born[1] };
        self.inode == other.inode && same_birth
    }
}

/// A target that was opened when it was looked at.
#[derive(Debug, Clone)]
pub struct TargetFile {
    file: Arc<File>,
    id: ObjectId,
    /// Whether the kernel counts this process more than once among those that have it open.
    was_reopened: Arc<AtomicBool>,
}

/// The descriptor is not part of what a device is: one that came from another machine has none.
impl PartialEq for TargetFile {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for TargetFile {}

impl TargetFile {
    /// Opens the image or node at `path`, without following links or waiting, and neither for
    /// reading nor for writing.
    ///
    /// # Errors
    /// When it is neither a regular file nor a block device, a link is on the way, or the system
    /// refuses.
    pub fn look(path: &Path) -> io::Result<Self> {
        let file = open_path(path)?;
        let found = file.metadata()?;
        let kind = found.file_type();
        if kind.is_file() || kind.is_block_device() {
            return Ok(Self::with(file, ObjectId::of(&found)));
        }
        Err(if kind.is_symlink() { Errno::LOOP.into() } else { io::ErrorKind::InvalidInput.into() })
    }

    fn with(file: File, id: ObjectId) -> Self {
        Self { file: Arc::new(file), id, was_reopened: Arc::default() }
    }

    pub fn id(&self) -> ObjectId {
        self.id
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// A name of the very object for programs, as long as this process has it open.
    pub fn path_for_programs(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()))
    }

    /// Opens the same object once more.
    ///
    /// # Errors
    /// When the system refuses, or the node has become another device's.
    pub fn reopen(&self, flags: OFlags) -> io::Result<File> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let file = File::from(rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())?);
        if ObjectId::of(&file.metadata()?).is(&self.id) {
            self.was_reopened.store(true, Ordering::Relaxed);
            return Ok(file);
        }
        Err(io::Error::other("it is another device now"))
    }

    /// Whether it was opened again since.
    pub(crate) fn was_reopened(&self) -> bool {
        self.was_reopened.load(Ordering::Relaxed)
    }

    /// The same object, kept open for work on it: an image for reading and writing; a node for
    /// reading, because some kernels mount nothing that anybody may write to.
    pub fn hold(&self) -> io::Result<Self> {
        let flags = if self.id.node == 0 { OFlags::RDWR } else { OFlags::RDONLY };
        Ok(Self::with(self.reopen(flags)?, self.id))
    }

    /// The size of an image, in bytes; 0 for a node.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn image_bytes(&self) -> io::Result<u64> {
        self.file.metadata().map(|found| found.len())
    }
}

/// Opens what `path` names without touching it; no part of the path may be a link.
fn open_path(path: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    Ok(File::from(match opened {
        // Linux before 5.6, or a filter that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::open(path, flags, Mode::empty())?,
        other => other?,
    }))
}

fn is_node(found: &Metadata) -> bool {
    found.file_type().is_block_device()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stays_itself_under_another_name_and_is_not_its_successor() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&path, "first").unwrap();
        let looked = TargetFile::look(&path).unwrap();
        std::fs::rename(&path, &other).unwrap();
        std::fs::write(&path, "other").unwrap();
        assert!(ObjectId::at(&other).unwrap().is(&looked.id()));
        assert!(!ObjectId::at(&path).unwrap().is(&looked.id()));
        let mut text = String::new();
        io::Read::read_to_string(&mut looked.reopen(OFlags::RDONLY).unwrap(), &mut text).unwrap();
        assert_eq!(text, "first");
        // A removed file's inode is not given to another one while it is open.
        std::fs::remove_file(&other).unwrap();
        for number in 0..100 {
            let next = folder.path().join(number.to_string());
            std::fs::write(&next, "later").unwrap();
            assert!(!ObjectId::at(&next).unwrap().is(&looked.id()));
        }
    }

    #[test]
    fn links_pipes_and_folders_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let inner = folder.path().join("inner");
        std::os::unix::fs::symlink(folder.path(), &inner).unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        for path in [link, inner.join("file"), pipe, folder.path().to_owned()] {
            assert!(TargetFile::look(&path).is_err(), "{}", path.display());
        }
    }
}
