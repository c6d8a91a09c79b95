//! The target of a workload, checked before and after each run of fio.
//!
//! If a mount vanished, fio would measure the disk below it; with a mistyped device name, fio would
//! create a file in `/dev` and measure memory.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use flashfit_host::mount::Mounted;

use crate::error::BenchError;

#[derive(Debug, Clone, Copy)]
pub enum WorkloadTarget<'a> {
    /// A file system that is mounted for the trial, and its device.
    Mounted(&'a Mounted, &'a Path),
    /// A directory of any file system; the workload uses a subdirectory.
    Directory(&'a Path),
    /// A bare device, read only.
    BlockDevice(&'a Path),
    /// A bare device whose data its owner has given up.
    GivenUpDevice(&'a Path),
}

/// Identifies a target: device and inode of a directory, number and inode of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetIdentity {
    /// The path without symbolic links.
    pub path: PathBuf,
    device: u64,
    inode: u64,
}

impl TargetIdentity {
    /// Whether an open directory is this target.
    pub fn is_of(&self, opened: &std::fs::Metadata) -> bool {
        (opened.dev(), opened.ino()) == (self.device, self.inode)
    }
}

impl WorkloadTarget<'_> {
    /// The path as given.
    pub fn path(&self) -> &Path {
        match self {
            Self::Mounted(mounted, _) => mounted.point(),
            Self::Directory(path) | Self::BlockDevice(path) | Self::GivenUpDevice(path) => path,
        }
    }

    /// # Errors
    /// [`BenchError::BadTarget`] if the target is not of the expected kind.
    pub fn identify(&self) -> Result<TargetIdentity, BenchError> {
        let path = self.path();
        let bad = |reason: String| BenchError::BadTarget { path: path.to_owned(), reason };
        let real = path.canonicalize().map_err(|error| bad(error.to_string()))?;
        let metadata = std::fs::metadata(&real).map_err(|error| bad(error.to_string()))?;
        match self {
            Self::BlockDevice(_) | Self::GivenUpDevice(_) => {
                if !metadata.file_type().is_block_device() {
                    return Err(bad("is not a block device".to_owned()));
                }
                if !is_plain(&real) {
                    return Err(bad("fio cannot use a path with characters other than letters, digits and `/._-+@,`".to_owned()));
                }
                Ok(TargetIdentity { path: real, device: metadata.rdev(), inode: metadata.ino() })
            }
            Self::Mounted(_, _) | Self::Directory(_) => {
                if !metadata.is_dir() {
                    return Err(bad("is not a directory".to_owned()));
                }
                self.check_mount().map_err(bad)?;
                Ok(TargetIdentity { path: real, device: metadata.dev(), inode: metadata.ino() })
            }
        }
    }

    fn check_mount(&self) -> Result<(), String> {
        let Self::Mounted(mounted, node) = self else { return Ok(()) };
        match mounted.is_there(node) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("{} is not mounted there", node.display())),
            Err(error) => Err(error.to_string()),
        }
    }

    /// # Errors
    /// [`BenchError::TargetVanished`] if the target changed since it was identified.
    pub fn check_unchanged(&self, identity: &TargetIdentity) -> Result<(), BenchError> {
        match self.identify() {
            Ok(now) if now == *identity => Ok(()),
            _ => Err(BenchError::TargetVanished { path: self.path().to_owned() }),
        }
    }
}

/// Whether fio uses a path literally: `:` separates names and `$` starts a variable.
pub fn is_plain(path: &Path) -> bool {
    path.to_str()
        .is_some_and(|text| text.chars().all(|c| c.is_alphanumeric() || "/._-+@,".contains(c)))
}

#[cfg(test)]
mod tests {
    use flashfit_user_error::{ExitClass, UserError};

    use super::*;

    #[test]
    fn a_mistyped_device_is_rejected() {
        let error =
            WorkloadTarget::BlockDevice(Path::new("/dev/zz_not_a_card")).identify().unwrap_err();
        assert_eq!(error.class(), ExitClass::Usage);
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = WorkloadTarget::BlockDevice(file.path()).identify().unwrap_err();
        assert!(error.to_string().ends_with("is not a block device"), "{error}");
    }

    #[test]
    fn a_directory_that_was_replaced_has_vanished() {
        let folder = tempfile::tempdir().unwrap();
        let point = folder.path().join("point");
        std::fs::create_dir(&point).unwrap();
        let target = WorkloadTarget::Directory(&point);
        let identity = target.identify().unwrap();
        target.check_unchanged(&identity).unwrap();
        std::fs::rename(&point, folder.path().join("moved")).unwrap();
        std::fs::create_dir(&point).unwrap();
        let error = target.check_unchanged(&identity).unwrap_err();
        assert!(matches!(error, BenchError::TargetVanished { .. }));
    }

    #[test]
    fn names_that_fio_would_parse_are_not_plain() {
        assert!(is_plain(Path::new("/dev/mapper/a-b_1.x")));
        for name in ["/a:b", "/a b", "/a$b", "/a%b", "/a\nb"] {
            assert!(!is_plain(Path::new(name)), "{name}");
        }
    }
}
