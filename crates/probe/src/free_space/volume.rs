//! One mounted file system: its free space is filled, read back and given back.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use flashfit_device::describe::DeviceMount;
use flashfit_device::direct::AlignedBuffer;
use flashfit_device::{Bytes, Device, SystemRoots};
use flashfit_geometry::probed::ProbeObserver;
use flashfit_host::{mountinfo, path_text};
use rustix::fs::{Advice, Mode, OFlags};

use super::compare::WrongContent;
use super::content::{self, BLOCK, BlockPlace};
use super::folder::{FolderProblem, TestFolder};
use super::{FILE_BYTES, FreeSpaceError, VolumeResult};

/// Bytes of a write.
const CHUNK: usize = 1 << 20;
/// Written data is synced and the free space looked at again after so much.
const SYNC_BYTES: u64 = 8 << 20;
/// What stays free: this share of the file system, and at least so much.
const MARGIN_SHARE: u64 = 20;
const LEAST_MARGIN_BYTES: u64 = 16 << 20;

/// A mounted file system of the device, open from before the user agrees.
#[derive(Debug)]
pub struct MountedFileSystem {
    root: File,
    point: PathBuf,
    pub kind: String,
    pub size_bytes: u64,
    pub margin_bytes: u64,
    pub planned_bytes: u64,
}

/// How far the test is: everything is written once and read once.
pub struct Progress<'a> {
    all_bytes: u64,
    done_bytes: u64,
    observer: &'a mut dyn ProbeObserver,
}

impl<'a> Progress<'a> {
    pub fn new(planned_bytes: u64, observer: &'a mut dyn ProbeObserver) -> Self {
        Self { all_bytes: (2 * planned_bytes).max(1), done_bytes: 0, observer }
    }

    fn step(&mut self, bytes: u64, what: &str, written: u64) -> Result<(), FreeSpaceError> {
        self.done_bytes += bytes;
        let done = self.done_bytes as f64 / self.all_bytes as f64;
        let text = format!("{what}; {} written so far", Bytes(written));
        match self.observer.step(done, &text) {
            std::ops::ControlFlow::Continue(()) => Ok(()),
            std::ops::ControlFlow::Break(()) => Err(FreeSpaceError::Interrupted),
        }
    }
}

/// The file systems of a device that can be tested, and why others cannot.
pub fn of_device(device: &Device) -> Result<(Vec<MountedFileSystem>, Vec<String>), FreeSpaceError> {
    let (mut volumes, mut problems) = (Vec::new(), Vec::new());
    let mut nodes = BTreeSet::new();
    for mount in &device.mounts {
        // A file system that is mounted twice has its free space once.
        if nodes.contains(&mount.node) {
            continue;
        }
        match MountedFileSystem::open(mount) {
            Ok(volume) => {
                nodes.insert(&mount.node);
                volumes.push(volume);
            }
            Err(problem) => problems.push(problem),
        }
    }
    if volumes.is_empty() {
        let none = FreeSpaceError::NotMounted { device: device.path.clone() };
        return Err(problems.into_iter().next().unwrap_or(none));
    }
    Ok((volumes, problems.iter().map(ToString::to_string).collect()))
}

impl MountedFileSystem {
    fn open(mount: &DeviceMount) -> Result<Self, FreeSpaceError> {
        let point = mount.point.clone();
        let failed = |source: io::Error| FreeSpaceError::Open { point: point.clone(), source };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::open(&point, flags, Mode::empty());
        let root = File::from(root.map_err(|errno| failed(errno.into()))?);
        let system = SystemRoots::default();
        let seen = mountinfo::of_open(&root).map_err(failed)?;
        let Some(mounted) = seen.filter(|seen| mount.is_seen_through(&system, seen)) else {
            return Err(FreeSpaceError::Hidden { point });
        };
        let is_read_only = |options: &str| options.split(',').any(|option| option == "ro");
        if is_read_only(&mounted.options) || is_read_only(&mounted.super_options) {
            return Err(FreeSpaceError::ReadOnly { point });
        }
        let found = rustix::fs::fstatvfs(&root).map_err(|errno| failed(errno.into()))?;
        let size_bytes = found.f_blocks.saturating_mul(found.f_frsize);
        let margin_bytes = (size_bytes / MARGIN_SHARE).max(LEAST_MARGIN_BYTES);
        let volume =
            Self { root, point, kind: mounted.kind, size_bytes, margin_bytes, planned_bytes: 0 };
        let planned_bytes = volume
            .left_bytes()
            .map_err(|source| FreeSpaceError::Open { point: volume.point.clone(), source })?;
        if planned_bytes < CHUNK as u64 {
            return Err(FreeSpaceError::NoSpace { point: volume.point });
        }
        Ok(Self { planned_bytes, ..volume })
    }

    /// The mount point, for people and documents.
    pub fn shown(&self) -> String {
        path_text::to_text(&self.point)
    }

    /// Whole chunks above the margin. What is reserved for root is not touched.
    fn left_bytes(&self) -> io::Result<u64> {
        let found = rustix::fs::fstatvfs(&self.root)?;
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        let left = free.saturating_sub(self.margin_bytes);
        Ok(left / CHUNK as u64 * CHUNK as u64)
    }

    fn failed(&self, what: &'static str) -> impl Fn(io::Error) -> FreeSpaceError + use<> {
        let point = self.point.clone();
        move |source| FreeSpaceError::Failed { point: point.clone(), what, source }
    }

    /// Writes, reads, compares and removes; what was found so far is in `result` in any case.
    pub fn test(
        &self,
        run: u64,
        progress: &mut Progress<'_>,
        result: &mut VolumeResult,
    ) -> Result<(), FreeSpaceError> {
        let folder = TestFolder::make(&self.root).map_err(|problem| match problem {
            FolderProblem::UnderWay => FreeSpaceError::UnderWay { point: self.point.clone() },
            FolderProblem::Foreign => FreeSpaceError::Foreign { point: self.point.clone() },
            FolderProblem::System(source) => {
                FreeSpaceError::Open { point: self.point.clone(), source }
            }
        })?;
        result.leftover_files_removed = folder.leftover_files;
        let mut files = Vec::new();
        let written = self.write(&folder, run, &mut files, progress, result);
        let tested = match written {
            Err(FreeSpaceError::Interrupted) => written,
            // What was written before a failure may show why.
            _ => written.and(self.read(run, &files, progress, result)),
        };
        drop(files);
        if !folder.remove() {
            let left = self.point.join(super::TEST_FOLDER);
            result.not_removed = Some(path_text::to_text(&left));
        }
        tested
    }

    fn write(
        &self,
        folder: &TestFolder<'_>,
        run: u64,
        files: &mut Vec<(File, u64)>,
        progress: &mut Progress<'_>,
        result: &mut VolumeResult,
    ) -> Result<(), FreeSpaceError> {
        let mut chunk = vec![0; CHUNK];
        let syncing = self.failed("cannot sync what was written");
        // Other programs write, too: the margin counts, not the plan.
        while self.left_bytes().map_err(self.failed("cannot be looked at"))? > 0 {
            let number = files.len() as u64;
            let file = match folder.create(number) {
                Ok(file) => file,
                Err(error) if is_full(&error) => break,
                Err(error) => return Err(self.failed("cannot make a file")(error)),
            };
            files.push((file, 0));
            let (file, length) = files.last_mut().expect("it was pushed");
            while *length < FILE_BYTES {
                let left = self.left_bytes().map_err(self.failed("cannot be looked at"))?;
                let burst = left.min(SYNC_BYTES).min(FILE_BYTES - *length);
                let end = *length + burst;
                while *length < end {
                    content::fill(&mut chunk, BlockPlace { run, file: number, offset: *length });
                    match file.write_all_at(&chunk, *length) {
                        Ok(()) => *length += CHUNK as u64,
                        Err(error) if is_full(&error) => break,
                        Err(error) => return Err(self.failed("cannot write")(error)),
                    }
                    result.written_bytes += CHUNK as u64;
                }
                file.sync_data().map_err(&syncing)?;
                let what = format!("writing to {}", self.shown());
                progress.step(burst, &what, result.written_bytes)?;
                if burst == 0 || *length < end {
                    break;
                }
            }
            let is_short = *length < FILE_BYTES;
            file.sync_all().map_err(&syncing)?;
            if is_short {
                break;
            }
        }
        rustix::fs::syncfs(&self.root).map_err(|errno| syncing(errno.into()))
    }

    fn read(
        &self,
        run: u64,
        files: &[(File, u64)],
        progress: &mut Progress<'_>,
        result: &mut VolumeResult,
    ) -> Result<(), FreeSpaceError> {
        let mut buffer = AlignedBuffer::default();
        for ((file, length), number) in files.iter().zip(0..) {
            bypass_cache(file).map_err(self.failed("cannot drop its cache"))?;
            let mut offset = 0;
            while offset < *length {
                let chunk = buffer.slice(CHUNK);
                file.read_exact_at(chunk, offset).map_err(self.failed("cannot read"))?;
                for (block, at) in chunk.chunks_exact(BLOCK).zip(0..) {
                    let place =
                        BlockPlace { run, file: number, offset: offset + at * BLOCK as u64 };
                    if let Some(found) = content::compare(block, place) {
                        result.wrong_bytes += BLOCK as u64;
                        result.wrong.add(WrongContent::new(place, found));
                    }
                }
                offset += CHUNK as u64;
                result.tested_bytes += CHUNK as u64;
                let what = format!("reading from {}", self.shown());
                progress.step(CHUNK as u64, &what, result.written_bytes)?;
            }
        }
        Ok(())
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Reads must reach the device. Where a file system has no direct I/O, its pages are dropped; they
/// are clean.
fn bypass_cache(file: &File) -> io::Result<()> {
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?;
    let flags = rustix::fs::fcntl_getfl(file)?;
    // Not all file systems have it.
    let _ = rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT);
    Ok(())
}
