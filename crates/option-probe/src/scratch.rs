//! Images that options are tried on, and the loop devices over them.
//!
//! No data of the user is written to: the image is a sparse file that was made here a moment ago
//! in a folder of our own, so no consent is asked. Where it is attached to a loop device, its name
//! is removed at once: when the process has gone, however it went, the kernel detaches the device
//! and frees the file. Only an empty folder can be left behind.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use flashfit_device::Bytes;
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use tempfile::TempDir;

use crate::OptionProbeError;

/// Below this a file system of any kind that was refused may have been refused for want of room.
const LEAST_ROOM: Bytes = Bytes::mib(8);

/// A folder for images, with a place to mount them on.
#[derive(Debug)]
pub(super) struct ScratchImages {
    folder: TempDir,
    point: PathBuf,
    rotational: Option<bool>,
}

impl ScratchImages {
    /// A folder in `parent`; `rotational` is set for the loop devices.
    pub(super) fn new(parent: &Path, rotational: Option<bool>) -> Result<Self, OptionProbeError> {
        let error = |source| scratch_error(parent, source);
        let folder = tempfile::Builder::new()
            .prefix("flashfit-options-")
            .tempdir_in(parent)
            .map_err(error)?;
        let point = folder.path().join("point");
        std::fs::create_dir(&point).map_err(error)?;
        Ok(Self { folder, point, rotational })
    }

    /// Where images are mounted.
    pub(super) fn point(&self) -> &Path {
        &self.point
    }

    /// An empty sparse image of this size, on a loop device where `attached`.
    pub(super) fn image(&self, size: Bytes, attached: bool) -> Result<Image, OptionProbeError> {
        let path = self.folder.path().join("image");
        let file = sparse(&path, size).map_err(|source| scratch_error(&path, source))?;
        let image = Image { path, node: None, _file: file };
        if !attached {
            return Ok(image);
        }
        let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
        let device = LoopDevice::attach(&image.path, options)?;
        std::fs::remove_file(&image.path).map_err(|source| scratch_error(&image.path, source))?;
        if let Some(rotational) = self.rotational {
            // btrfs takes `ssd` for its default by this. It is set again when a device is attached,
            // so nothing has to be put back; where it cannot be set, the disk's own applies.
            let value = if rotational { "1" } else { "0" };
            let _ = std::fs::write(device.queue().join("rotational"), value);
        }
        Ok(Image { node: Some(device), ..image })
    }

    /// Fails where there is so little room that an image could not be written.
    pub(super) fn check_room(&self) -> Result<(), OptionProbeError> {
        let folder = self.folder.path();
        let found = rustix::fs::statvfs(folder);
        let found = found.map_err(|error| scratch_error(folder, error.into()))?;
        if found.f_bavail.saturating_mul(found.f_frsize) < LEAST_ROOM.0 {
            return Err(OptionProbeError::Full { path: folder.to_owned() });
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(super) struct Image {
    path: PathBuf,
    node: Option<LoopDevice>,
    _file: File,
}

impl Image {
    /// What programs are given: the loop device, or the image itself.
    pub(super) fn place(&self) -> &Path {
        self.node.as_ref().map_or(&self.path, LoopDevice::node)
    }

    /// The name of its loop device; empty where it has none.
    pub(super) fn device(&self) -> String {
        let name = self.node.as_ref().and_then(|device| device.node().file_name());
        name.unwrap_or_default().to_string_lossy().into_owned()
    }
}

fn sparse(path: &Path, size: Bytes) -> std::io::Result<File> {
    // What an earlier image of this run left; nobody else writes to this folder.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    file.set_len(size.0)?;
    Ok(file)
}

fn scratch_error(path: &Path, source: std::io::Error) -> OptionProbeError {
    let path = path.to_owned();
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => OptionProbeError::Full { path },
        _ => OptionProbeError::Scratch { path, source },
    }
}

#[cfg(test)]
mod tests {
    use flashfit_user_error::{ExitClass, UserError};

    use super::*;

    #[test]
    fn a_disk_without_room_is_the_worlds_error_with_a_way_out() {
        let full = scratch_error(Path::new("/tmp/x"), ErrorKind::StorageFull.into());
        assert!(matches!(full, OptionProbeError::Full { .. }));
        assert_eq!(full.class(), ExitClass::Environment);
        assert!(full.hint().is_some());
        let other = scratch_error(Path::new("/tmp/x"), ErrorKind::ReadOnlyFilesystem.into());
        assert_eq!(other.class(), ExitClass::Environment);
        assert!(other.hint().is_some());
    }

    #[test]
    fn a_folder_that_is_not_there_is_told() {
        let error = ScratchImages::new(Path::new("/no/such/folder"), None).unwrap_err();
        assert!(error.to_string().contains("/no/such/folder"), "{error}");
    }

    #[test]
    fn an_image_takes_no_room_and_a_second_one_replaces_it() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = ScratchImages::new(parent.path(), None).unwrap();
        for size in [Bytes::mib(512), Bytes::mib(64)] {
            let image = scratch.image(size, false).unwrap();
            let found = std::fs::metadata(image.place()).unwrap();
            assert_eq!(found.len(), size.0);
            assert!(std::os::unix::fs::MetadataExt::blocks(&found) < 128);
        }
        scratch.check_room().unwrap();
        drop(scratch);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
