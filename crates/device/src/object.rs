//! Identifies the file or device node that a target path names, and keeps it open.
//!
//! A target is opened once, when it is described to the user. Afterwards it is compared by identity
//! and reopened only through its own descriptor (`/proc/self/fd/N`), never by path.
//!
//! The first open uses `O_PATH`, which does not count as a use of the device and pins an image's
//! inode. A target opened for writing also pins the kernel's block device: while it is open,
//! neither its inode nor its device number is reused. Limits: before that, a device that reuses a
//! number is recognized by its size, identity and disk sequence number (Linux 5.15 or newer). A
//! file system that reports no creation time may reuse the inode of a deleted file; identities
//! recorded by another process are then equal.

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
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The identity of a file or a device node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ObjectId {
    /// Number of the device of the file's file system.
    pub device: u64,
    pub inode: u64,
    /// Device number of a node; 0 for a file.
    #[serde(default)]
    pub node: u64,
    /// Creation time in nanoseconds since 1970; 0 if the file system does not report it.
    #[serde(default)]
    #[serde(rename = "born_ns")]
    pub created_ns: u64,
}

impl ObjectId {
    pub fn from_metadata(found: &Metadata) -> Self {
        let created = found.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Self {
            device: found.dev(),
            inode: found.ino(),
            node: if is_node(found) { found.rdev() } else { 0 },
            created_ns: created
                .and_then(|time| u64::try_from(time.as_nanos()).ok())
                .unwrap_or_default(),
        }
    }

    /// The identity of what `path` names now. A symbolic link is not followed.
    ///
    /// # Errors
    /// When the path does not exist or cannot be read.
    pub fn at(path: &Path) -> io::Result<Self> {
        std::fs::symlink_metadata(path).map(|found| Self::from_metadata(&found))
    }

    /// Whether both are the same object within one boot. Nodes are compared by device number only.
    pub fn is_same(&self, other: &Self) -> bool {
        if self.node != 0 || other.node != 0 {
            return self.node == other.node;
        }
        self.device == other.device && self.is_same_file(other)
    }

    /// Whether both are the same file, possibly across boots, where some file systems get another
    /// device number. Without a creation time, the device numbers are compared.
    pub fn is_same_file(&self, other: &Self) -> bool {
        let created = [self.created_ns, other.created_ns];
        let same_creation = if created.contains(&0) {
            self.device == other.device
        } else {
            created[0] == created[1]
        };
        self.inode == other.inode && same_creation
    }
}

/// A target that stays open from the moment it was first examined.
#[derive(Debug, Clone)]
pub struct TargetFile {
    file: Arc<File>,
    id: ObjectId,
    /// Whether this process, or one that it started, holds a second open file description of the
    /// target.
    was_reopened: Arc<AtomicBool>,
}

/// Ignores the descriptor: a description received from another machine has none.
impl PartialEq for TargetFile {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for TargetFile {}

impl TargetFile {
    /// Opens the image or node at `path` with `O_PATH`, without following links or blocking.
    ///
    /// # Errors
    /// When it is neither a regular file nor a block device, the path contains a symbolic link, or
    /// it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = open_path(path)?;
        let found = file.metadata()?;
        let kind = found.file_type();
        if kind.is_file() || kind.is_block_device() {
            return Ok(Self::with(file, ObjectId::from_metadata(&found)));
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

    /// The same descriptor, kept open by whoever has it.
    pub(crate) fn shared(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// A path that other programs can use for this object while this process keeps it open.
    pub fn path_for_programs(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()))
    }

    /// Opens the same object again.
    ///
    /// # Errors
    /// When it cannot be opened, or the node now belongs to another device.
    pub fn reopen(&self, flags: OFlags) -> io::Result<File> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let file = File::from(rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())?);
        if ObjectId::from_metadata(&file.metadata()?).is_same(&self.id) {
            self.was_reopened.store(true, Ordering::Relaxed);
            return Ok(file);
        }
        Err(io::Error::other("it is now another device"))
    }

    /// A process that belongs to this one opens it, too: a lease then shows nothing.
    pub(crate) fn opened_elsewhere(&self) {
        self.was_reopened.store(true, Ordering::Relaxed);
    }

    pub(crate) fn was_reopened(&self) -> bool {
        self.was_reopened.load(Ordering::Relaxed)
    }

    /// Opens the target for use: an image for reading and writing, a node for reading, because
    /// some kernels refuse to mount a device that is open for writing.
    pub fn open_for_use(&self) -> io::Result<Self> {
        let flags = if self.id.node == 0 { OFlags::RDWR } else { OFlags::RDONLY };
        Ok(Self::with(self.reopen(flags)?, self.id))
    }

    /// The size of an image in bytes; 0 for a node.
    ///
    /// # Errors
    /// When the metadata cannot be read.
    pub fn image_bytes(&self) -> io::Result<u64> {
        self.file.metadata().map(|found| found.len())
    }
}

/// Opens `path` with `O_PATH`; no component of the path may be a symbolic link.
fn open_path(path: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    Ok(File::from(match opened {
        // Linux before 5.6, or a seccomp filter that does not know openat2.
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
    fn a_renamed_file_keeps_its_identity_and_its_replacement_differs() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&path, "first").unwrap();
        let target = TargetFile::open(&path).unwrap();
        std::fs::rename(&path, &other).unwrap();
        std::fs::write(&path, "other").unwrap();
        assert!(ObjectId::at(&other).unwrap().is_same(&target.id()));
        assert!(!ObjectId::at(&path).unwrap().is_same(&target.id()));
        let mut text = String::new();
        io::Read::read_to_string(&mut target.reopen(OFlags::RDONLY).unwrap(), &mut text).unwrap();
        assert_eq!(text, "first");
        // The inode of a deleted file is not reused while the file is open.
        std::fs::remove_file(&other).unwrap();
        for number in 0..100 {
            let next = folder.path().join(number.to_string());
            std::fs::write(&next, "later").unwrap();
            assert!(!ObjectId::at(&next).unwrap().is_same(&target.id()));
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
            assert!(TargetFile::open(&path).is_err(), "{}", path.display());
        }
    }
}
