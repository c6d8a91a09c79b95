//! What a device held before it was changed: its partition table, its first and last 4 MiB, and
//! whose they are. A folder of plain files, read back and compared before anything is written to
//! the device. What lies between the two ends is not kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flashfit_device::{Device, SystemRoots};
use flashfit_host::dir::{DirError, DirHandle, DirObstacle};
use flashfit_host::{Program, Runner, durable, mountinfo};
use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};

use crate::checksum::PartChecksum;
use crate::error::ApplyError;
use crate::fingerprint::DeviceFingerprint;
use crate::region;

/// How much of each end is kept, in bytes.
pub const END_BYTES: u64 = 4 << 20;

const MANIFEST: &str = "manifest.json";
const TABLE: &str = "table.sfdisk";
const FIRST: &str = "first.img";
const LAST: &str = "last.img";
/// More than any manifest has.
const MANIFEST_BYTES: u64 = 1 << 20;
const SCHEMA: &str = "flashfit.backup";
/// Version 1 had `fnv1a64` in place of `crc32`, and is still read.
const SCHEMA_VERSION: u32 = 2;

/// The contents of `manifest.json`. It is written last: a folder without one is not a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub schema: String,
    pub schema_version: u32,
    /// When it was made, in seconds since 1970.
    pub created_unix_s: u64,
    #[serde(rename = "medium")]
    pub device: DeviceFingerprint,
    /// Whether the device had a partition table, which is then in `table.sfdisk`.
    pub has_table: bool,
    pub pieces: Vec<BackupPart>,
}

/// A kept part of the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupPart {
    pub file: String,
    /// Where it was on the device.
    pub offset_bytes: u64,
    pub length_bytes: u64,
    #[serde(flatten)]
    pub checksum: PartChecksum,
}

#[derive(Debug, Clone)]
pub struct Backup {
    dir: Arc<DirHandle>,
    manifest: Manifest,
}

impl Backup {
    /// Saves the contents of `device` to `folder`, which may be there when it is empty, and reads
    /// it back.
    ///
    /// # Errors
    /// When the folder is on the device or holds something else, there is no room for it, or the
    /// device cannot be read. Nothing was written to the device then.
    pub fn make(
        system: &SystemRoots,
        runner: &dyn Runner,
        device: &Device,
        folder: &Path,
    ) -> Result<Self, ApplyError> {
        let dir = claim(system, device, folder)?;
        let fingerprint = DeviceFingerprint::of(system, device);
        let mut pieces = Vec::new();
        for (file, offset_bytes, length_bytes) in ends(fingerprint.capacity.0) {
            let length = usize::try_from(length_bytes).expect("at most 8 MiB");
            let bytes = region::read(device, offset_bytes, length)?;
            keep(&dir, file, &bytes)?;
            let checksum = PartChecksum::of(&bytes);
            pieces.push(BackupPart { file: file.to_owned(), offset_bytes, length_bytes, checksum });
        }
        let dump = Program::new("sfdisk").arg("--dump").arg(&device.path);
        // It fails where there is no table; and what it would say is in the first piece too.
        let table = runner.run(&dump).ok().filter(flashfit_host::ProgramOutcome::success);
        if let Some(table) = &table {
            keep(&dir, TABLE, table.stdout.as_bytes())?;
        }
        let manifest = Manifest {
            schema: SCHEMA.to_owned(),
            schema_version: SCHEMA_VERSION,
            created_unix_s: flashfit_host::calendar::unix_seconds(),
            device: fingerprint,
            has_table: table.is_some(),
            pieces,
        };
        let text = serde_json::to_string_pretty(&manifest).expect("a manifest is plain data");
        keep(&dir, MANIFEST, text.as_bytes())?;
        let above = folder.parent().unwrap_or(Path::new("/"));
        durable::sync_folder(above).map_err(ApplyError::file(above))?;
        Self::read_in(dir)
    }

    /// Whether `folder` contains a complete backup, whole or damaged.
    pub fn is_in(folder: &Path) -> bool {
        DirHandle::open(folder).is_ok_and(|dir| dir.has(MANIFEST))
    }

    /// Gives up a backup that nothing depends on yet: the folder contains none then.
    pub(crate) fn forget(folder: &Path) -> Result<(), ApplyError> {
        Ok(DirHandle::open(folder)?.remove(MANIFEST)?)
    }

    /// Reads a backup and compares every piece with its checksum.
    ///
    /// # Errors
    /// When something is missing or damaged.
    pub fn read(folder: &Path) -> Result<Self, ApplyError> {
        match DirHandle::open(folder) {
            Err(error) if error.is_not_found() => Err(missing(&folder.join(MANIFEST))),
            opened => Self::read_in(opened?),
        }
    }

    fn read_in(dir: DirHandle) -> Result<Self, ApplyError> {
        let path = dir.path().join(MANIFEST);
        let text = dir.read(MANIFEST, MANIFEST_BYTES)?.ok_or_else(|| missing(&path))?;
        let damaged = |reason: String| ApplyError::Damaged { path: path.clone(), reason };
        let manifest: Manifest =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        if manifest.schema != SCHEMA || !(1..=SCHEMA_VERSION).contains(&manifest.schema_version) {
            return Err(damaged(format!("a format of version {}", manifest.schema_version)));
        }
        let named = manifest.pieces.iter();
        let named: Vec<_> =
            named.map(|it| (it.file.as_str(), it.offset_bytes, it.length_bytes)).collect();
        if named != ends(manifest.device.capacity.0) {
            return Err(damaged("its parts are not the two ends of the device".to_owned()));
        }
        let backup = Self { dir: Arc::new(dir), manifest };
        backup.contents()?;
        Ok(backup)
    }

    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The kept bytes with their offsets, each compared with its checksum.
    ///
    /// # Errors
    /// When one is missing or damaged.
    pub fn contents(&self) -> Result<Vec<(u64, Vec<u8>)>, ApplyError> {
        self.manifest.pieces.iter().map(|piece| self.content(piece)).collect()
    }

    fn content(&self, piece: &BackupPart) -> Result<(u64, Vec<u8>), ApplyError> {
        let path = self.folder().join(&piece.file);
        let damaged =
            |reason: &str| ApplyError::Damaged { path: path.clone(), reason: reason.to_owned() };
        let bytes = match self.dir.read(&piece.file, piece.length_bytes) {
            Ok(found) => found.ok_or_else(|| missing(&path))?,
            Err(DirError::Invalid { obstacle: DirObstacle::Larger(_), .. }) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        if u64::try_from(bytes.len()) != Ok(piece.length_bytes) || !piece.checksum.fits(&bytes) {
            return Err(damaged("it was changed after it was saved"));
        }
        Ok((piece.offset_bytes, bytes))
    }
}

fn missing(path: &Path) -> ApplyError {
    ApplyError::NoBackup { path: path.to_owned() }
}

/// Where a backup goes unless the user says it: a new folder here, named after device and time.
pub fn default_folder(device: &Device, unix_s: u64) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = device.short_name().chars().map(plain).collect();
    PathBuf::from(format!("flashfit-backup-{name}-{}", flashfit_host::calendar::stamp(unix_s)))
}

/// The parts to keep: both ends, or the whole of a small device.
fn ends(capacity: u64) -> Vec<(&'static str, u64, u64)> {
    if capacity <= 2 * END_BYTES {
        return vec![(FIRST, 0, capacity)];
    }
    vec![(FIRST, 0, END_BYTES), (LAST, capacity - END_BYTES, END_BYTES)]
}

/// Makes the folder, unless it is on the device or contains anything but a backup that was cut
/// short.
pub(crate) fn claim(
    system: &SystemRoots,
    device: &Device,
    folder: &Path,
) -> Result<DirHandle, ApplyError> {
    // What a device contains is nobody else's business.
    let dir = DirHandle::create(folder, 0o700)?;
    if is_on(system, device, &dir)? {
        // What was just made for nothing.
        let _ = std::fs::remove_dir(folder);
        let (folder, device) = (folder.to_owned(), device.path.clone());
        return Err(ApplyError::BackupOnDevice { folder, device });
    }
    let ours = [TABLE, FIRST, LAST, crate::journal::FILE];
    for name in dir.names()? {
        let name = name.to_string_lossy();
        // A manifest makes it a whole backup; a draft of one does not.
        let is_draft = name.strip_suffix(".part") == Some(MANIFEST);
        if !is_draft && !ours.contains(&name.strip_suffix(".part").unwrap_or(&name)) {
            return Err(ApplyError::Occupied { path: folder.to_owned() });
        }
    }
    Ok(dir)
}

/// Whether a folder lies on a file system that lies on the device.
fn is_on(system: &SystemRoots, device: &Device, dir: &DirHandle) -> Result<bool, ApplyError> {
    let folder = dir.real_path()?;
    let mounts = mountinfo::read().map_err(ApplyError::file(&folder))?;
    let holds = |entry: &&mountinfo::MountEntry| folder.starts_with(&entry.point);
    let length = |entry: &&mountinfo::MountEntry| entry.point.components().count();
    let Some(mount) = mounts.iter().filter(holds).max_by_key(length) else { return Ok(false) };
    let number = match mount.device.0 {
        0 => flashfit_device::system::device_number(&mount.source),
        _ => Some(mount.device),
    };
    let Some(name) = number.and_then(|number| system.name_of(number)) else { return Ok(false) };
    Ok(match device.partition_start {
        Some(_) => name == device.short_name(),
        None => system.whole_disk(&name) == device.disk,
    })
}

/// Writes a file and reads it back from the disk that it is on, as far as the kernel lets that be
/// told.
fn keep(dir: &DirHandle, name: &str, bytes: &[u8]) -> Result<(), ApplyError> {
    dir.write(name, bytes, 0o600)?;
    if let Some(file) = dir.open_file(name)? {
        // Only advice: what stays in memory is compared there.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
    }
    let length = u64::try_from(bytes.len()).expect("at most 8 MiB");
    match dir.read(name, length) {
        Ok(Some(again)) if again == bytes => Ok(()),
        Ok(_) | Err(DirError::Invalid { .. }) => {
            let reason = "it reads back differently than written".to_owned();
            Err(ApplyError::Damaged { path: dir.path().join(name), reason })
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use flashfit_host::program::ScriptedRunner;

    use super::*;

    fn image(length: usize) -> (tempfile::TempDir, Device) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        std::fs::write(&path, bytes).unwrap();
        let device = Device::from_image(&ScriptedRunner::new(), &path).unwrap();
        (folder, device)
    }

    fn make(device: &Device, folder: &Path) -> Result<Backup, ApplyError> {
        Backup::make(&SystemRoots::default(), &ScriptedRunner::new(), device, folder)
    }

    #[test]
    fn both_ends_or_all_of_a_small_device() {
        assert_eq!(ends(8 << 20), [(FIRST, 0, 8 << 20)]);
        let large = ends((8 << 20) + 512);
        assert_eq!(large, [(FIRST, 0, 4 << 20), (LAST, (4 << 20) + 512, 4 << 20)]);
    }

    #[test]
    fn a_damaged_piece_is_noticed() {
        let (folder, device) = image(100_352);
        let at = folder.path().join("saved/here");
        let made = make(&device, &at).unwrap();
        assert_eq!(made.contents().unwrap()[0].1.len(), 100_352);
        assert_eq!(Backup::read(&at).unwrap().manifest(), made.manifest());
        std::fs::write(at.join(FIRST), b"another").unwrap();
        assert!(matches!(Backup::read(&at), Err(ApplyError::Damaged { .. })));
    }

    #[test]
    fn a_backup_of_version_1_is_still_read() {
        let folder = tempfile::tempdir().unwrap();
        let piece: Vec<u8> = (0..4096).map(|at| (at % 251) as u8).collect();
        std::fs::write(folder.path().join(FIRST), &piece).unwrap();
        let manifest = include_str!("../tests/corpus/backup-1.json");
        std::fs::write(folder.path().join(MANIFEST), manifest).unwrap();
        let read = Backup::read(folder.path()).unwrap();
        assert_eq!(read.contents().unwrap(), [(0, piece.clone())]);
        let mut damaged = piece;
        damaged[7] ^= 1;
        std::fs::write(folder.path().join(FIRST), damaged).unwrap();
        assert!(matches!(Backup::read(folder.path()), Err(ApplyError::Damaged { .. })));
    }

    #[test]
    fn a_folder_with_anything_else_in_it_is_left_alone() {
        let (folder, device) = image(4096);
        let error = make(&device, folder.path()).unwrap_err();
        assert!(matches!(error, ApplyError::Occupied { .. }), "{error}");
        let at = folder.path().join("cut short");
        std::fs::create_dir(&at).unwrap();
        std::fs::write(at.join(FIRST), b"half").unwrap();
        std::fs::write(at.join("manifest.json.part"), b"half").unwrap();
        make(&device, &at).unwrap();
        let again = make(&device, &at).unwrap_err();
        assert!(matches!(again, ApplyError::Occupied { .. }), "a backup is never overwritten");
    }

    #[test]
    fn a_manifest_that_names_other_files_or_places_is_refused() {
        let (folder, device) = image(4096);
        let at = folder.path().join("saved");
        make(&device, &at).unwrap();
        let text = std::fs::read_to_string(at.join(MANIFEST)).unwrap();
        for (from, to) in [
            (FIRST, "../image"),
            ("\"offset_bytes\": 0", "\"offset_bytes\": 512"),
            ("\"capacity\": 4096", "\"capacity\": 9000000"),
        ] {
            assert!(text.contains(from), "{from} in {text}");
            std::fs::write(at.join(MANIFEST), text.replace(from, to)).unwrap();
            assert!(matches!(Backup::read(&at), Err(ApplyError::Damaged { .. })), "{to}");
        }
    }

    #[test]
    fn links_in_the_folder_are_not_followed() {
        let (folder, device) = image(4096);
        let theirs = folder.path().join("theirs");
        std::fs::write(&theirs, "theirs").unwrap();
        let at = folder.path().join("saved");
        std::fs::create_dir(&at).unwrap();
        for name in [FIRST, TABLE, "first.img.part"] {
            symlink(&theirs, at.join(name)).unwrap();
        }
        make(&device, &at).unwrap();
        assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "theirs");
        for name in [FIRST, MANIFEST] {
            let (real, moved) = (at.join(name), folder.path().join(name));
            std::fs::rename(&real, &moved).unwrap();
            symlink(&moved, &real).unwrap();
            let error = Backup::read(&at).unwrap_err();
            assert!(matches!(error, ApplyError::Dir(DirError::Invalid { .. })), "{name}: {error}");
            std::fs::rename(&moved, &real).unwrap();
        }
        Backup::read(&at).unwrap();
    }

    #[test]
    fn a_link_to_a_folder_is_not_followed() {
        let (folder, device) = image(4096);
        let (theirs, link) = (folder.path().join("theirs"), folder.path().join("link"));
        std::fs::create_dir(&theirs).unwrap();
        symlink(&theirs, &link).unwrap();
        let error = make(&device, &link).unwrap_err();
        assert!(matches!(error, ApplyError::Dir(DirError::Invalid { .. })), "{error}");
        assert_eq!(std::fs::read_dir(&theirs).unwrap().count(), 0);
    }
}
