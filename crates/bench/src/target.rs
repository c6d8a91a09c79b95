//! Where a workload runs, and making sure that it is still there.
//!
//! A mount that went away would let fio measure the disk below it; a mistyped device name would let
//! fio make a file in `/dev` and measure memory. So targets are looked at before and after each
//! run.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use flashfit_host::mount::Mounted;

use crate::error::BenchError;

/// Where a workload runs.
#[derive(Debug, Clone, Copy)]
pub enum WorkloadTarget<'a> {
    /// A file system mounted for the trial, and the device that is mounted.
    Mounted(&'a Mounted, &'a Path),
    /// A directory of whatever file system; files are made and removed in a sub-directory.
    Directory(&'a Path),
    /// A bare device, for reading only.
    BlockDevice(&'a Path),
}

/// What a target was when it was looked at: device and inode of a directory, number of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetIdentity {
    /// The path without symbolic links.
    pub path: PathBuf,
    device: u64,
    inode: u64,
}

impl WorkloadTarget<'_> {
    /// The path as given.
    pub fn path(&self) -> &Path {
        match self {
            Self::Mounted(mounted, _) => mounted.point(),
            Self::Directory(path) | Self::BlockDevice(path) => path,
        }
    }

    /// Looks at the target.
    ///
    /// # Errors
    /// [`BenchError::BadTarget`] when it is not what it is said to be.
    pub fn look(&self) -> Result<TargetIdentity, BenchError> {
        let path = self.path();
        let bad = |reason: String| BenchError::BadTarget { path: path.to_owned(), reason };
        let real = path.canonicalize().map_err(|error| bad(error.to_string()))?;
        let metadata = std::fs::metadata(&real).map_err(|error| bad(error.to_string()))?;
        match self {
            Self::BlockDevice(_) => {
                if !metadata.file_type().is_block_device() {
                    return Err(bad("is not a block device".to_owned()));
                }
                if !is_plain(&real) {
                    return Err(bad("fio cannot be given a device of that name".to_owned()));
                }
                Ok(TargetIdentity { path: real, device: metadata.rdev(), inode: metadata.ino() })
            }
            Self::Mounted(_, _) | Self::Directory(_) => {
                if !metadata.is_dir() {
                    return Err(bad("is not a directory".to_owned()));
                }
                self.look_at_mount().map_err(bad)?;
                Ok(TargetIdentity { path: real, device: metadata.dev(), inode: metadata.ino() })
            }
        }
    }

    fn look_at_mount(&self) -> Result<(), String> {
        let Self::Mounted(mounted, node) = self else { return Ok(()) };
        match mounted.is_there(node) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("{} is not mounted there", node.display())),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Looks again.
    ///
    /// # Errors
    /// [`BenchError::TargetVanished`] when it is not what it `was`.
    pub fn is_still(&self, was: &TargetIdentity) -> Result<(), BenchError> {
        match self.look() {
            Ok(now) if now == *was => Ok(()),
            _ => Err(BenchError::TargetVanished { path: self.path().to_owned() }),
        }
    }
}

/// Whether fio takes a path word for word: `:` separates names and `$` starts a variable.
pub fn is_plain(path: &Path) -> bool {
    path.to_str()
        .is_some_and(|text| text.chars().all(|c| c.is_alphanumeric() || "/._-+@,".contains(c)))
}

#[cfg(test)]
mod tests {
    use flashfit_user_error::{ExitClass, UserError};

    use super::*;

    #[test]
    fn a_mistyped_device_is_no_device() {
        let error =
            WorkloadTarget::BlockDevice(Path::new("/dev/zz_not_a_card")).look().unwrap_err();
        assert_eq!(error.class(), ExitClass::Usage);
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = WorkloadTarget::BlockDevice(file.path()).look().unwrap_err();
        assert!(error.to_string().ends_with("is not a block device"), "{error}");
    }

    #[test]
    fn a_directory_that_was_replaced_has_vanished() {
        let folder = tempfile::tempdir().unwrap();
        let point = folder.path().join("point");
        std::fs::create_dir(&point).unwrap();
        let target = WorkloadTarget::Directory(&point);
        let was = target.look().unwrap();
        target.is_still(&was).unwrap();
        std::fs::rename(&point, folder.path().join("aside")).unwrap();
        std::fs::create_dir(&point).unwrap();
        let error = target.is_still(&was).unwrap_err();
        assert!(matches!(error, BenchError::TargetVanished { .. }));
    }

    #[test]
    fn names_that_fio_would_read_otherwise_are_not_plain() {
        assert!(is_plain(Path::new("/dev/mapper/a-b_1.x")));
        for name in ["/a:b", "/a b", "/a$b", "/a%b", "/a\nb"] {
            assert!(!is_plain(Path::new(name)), "{name}");
        }
    }
}
