//! Reads the kernel's view of block devices from sysfs and procfs, or from a copy in tests.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub struct SystemRoots {
    pub sys: PathBuf,
    pub proc: PathBuf,
}

impl Default for SystemRoots {
    fn default() -> Self {
        Self { sys: PathBuf::from("/sys"), proc: PathBuf::from("/proc") }
    }
}

impl SystemRoots {
    /// The sysfs folder of a block device or partition (`sda`, `mmcblk0p1`).
    pub fn block(&self, name: &str) -> PathBuf {
        self.sys.join("class/block").join(name)
    }

    /// A one-line attribute, trimmed; `None` when it is absent or empty. What is not UTF-8 in it
    /// becomes U+FFFD.
    pub fn attribute(&self, path: &Path) -> Option<String> {
        let text = std::fs::read(path).ok()?;
        let text = String::from_utf8_lossy(&text);
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// An attribute that is the path of a file; `None` when it is absent or empty.
    pub fn path_attribute(&self, path: &Path) -> Option<PathBuf> {
        let mut bytes = std::fs::read(path).ok()?;
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        (!bytes.is_empty()).then(|| OsString::from_vec(bytes).into())
    }

    pub fn number(&self, path: &Path) -> Option<u64> {
        self.attribute(path)?.parse().ok()
    }

    /// The sorted entries of a folder; empty if the folder does not exist.
    pub fn names(&self, folder: &Path) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .collect();
        names.sort();
        names
    }

    /// The kernel name of the block device with this `(major, minor)` number.
    pub fn name_of(&self, device: (u32, u32)) -> Option<String> {
        let link = self.sys.join(format!("dev/block/{}:{}", device.0, device.1));
        Some(link.canonicalize().ok()?.file_name()?.to_string_lossy().into_owned())
    }

    /// The disk that a partition belongs to, or `name` itself.
    pub fn whole_disk(&self, name: &str) -> String {
        let block = self.block(name);
        if !block.join("partition").exists() {
            return name.to_owned();
        }
        let parent = block
            .canonicalize()
            .ok()
            .and_then(|path| Some(path.parent()?.file_name()?.to_string_lossy().into_owned()));
        parent.unwrap_or_else(|| name.to_owned())
    }

    /// The kernel names of the partitions of a disk.
    pub fn partitions_of(&self, disk: &str) -> Vec<String> {
        let folder = self.block(disk);
        let is_partition = |name: &String| folder.join(name).join("partition").exists();
        self.names(&folder).into_iter().filter(is_partition).collect()
    }
}

/// The `(major, minor)` number of a block device node; `None` for other files.
pub fn device_number(node: &Path) -> Option<(u32, u32)> {
    let metadata = std::fs::metadata(node).ok()?;
    let number = metadata.rdev();
    metadata
        .file_type()
        .is_block_device()
        .then(|| (rustix::fs::major(number), rustix::fs::minor(number)))
}
