//! The FUSE file system with one file, whose bytes are an [`OverlayDisk`]'s.
//!
//! What arrives for what: a flush as FSYNC, a discard or a request to write zeros that may discard
//! as FALLOCATE with PUNCH_HOLE, other zeros with ZERO_RANGE (`drivers/block/loop.c`).

use std::ffi::OsStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flashfit_card_server::device_file::{
    FILE, FOREVER, MAX_WRITE_BYTES, PUNCH_HOLE, ZERO_RANGE, attributes,
};
use fuser::{
    Errno, FileHandle, Filesystem, Generation, INodeNo, KernelConfig, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyWrite, Request as FuseRequest, WriteFlags,
};

use super::disk::OverlayDisk;

/// A name for the file of a device. btrfs-progs takes loop devices with files of one name for one
/// device, so no two have the same.
pub(super) fn new_file_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("crash-disk-{}-{number}", std::process::id())
}

/// A disk shared by the thread that answers the kernel and the one that loads states.
pub type SharedDisk = Arc<Mutex<OverlayDisk>>;

/// Locks it; a panic of the other thread is reported by that thread.
pub fn lock(disk: &Mutex<OverlayDisk>) -> MutexGuard<'_, OverlayDisk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct DiskFile {
    disk: SharedDisk,
    name: String,
    size: u64,
    buffer: Mutex<Vec<u8>>,
}

impl DiskFile {
    pub(super) fn new(disk: SharedDisk, name: String) -> Self {
        let size = lock(&disk).device_bytes();
        Self { disk, name, size, buffer: Mutex::default() }
    }
}

impl Filesystem for DiskFile {
    fn init(&mut self, _: &FuseRequest, config: &mut KernelConfig) -> std::io::Result<()> {
        // A kernel that takes less says so by itself.
        let _ = config.set_max_write(MAX_WRITE_BYTES);
        Ok(())
    }

    fn lookup(&self, _: &FuseRequest, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == self.name.as_str() {
            reply.entry(&FOREVER, &attributes(FILE, self.size), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &FuseRequest, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &attributes(node, self.size));
    }

    fn read(
        &self,
        _: &FuseRequest,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.resize(size as usize, 0);
        match lock(&self.disk).read(offset, &mut buffer) {
            Ok(()) => reply.data(&buffer),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _: &FuseRequest,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match lock(&self.disk).write(offset, data) {
            Ok(()) => reply.written(u32::try_from(data.len()).expect("below the maximum write")),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    /// The closing of a file, which is not a flush of the device.
    fn flush(&self, _: &FuseRequest, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &FuseRequest, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match lock(&self.disk).flush() {
            Ok(()) => reply.ok(),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn fallocate(
        &self,
        _: &FuseRequest,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        match mode {
            PUNCH_HOLE | ZERO_RANGE => {
                match lock(&self.disk).zero(offset, length, mode == PUNCH_HOLE) {
                    Ok(()) => reply.ok(),
                    Err(_) => reply.error(Errno::EIO),
                }
            }
            _ => reply.error(Errno::EOPNOTSUPP),
        }
    }
}
