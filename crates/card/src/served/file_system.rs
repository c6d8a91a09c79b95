//! The FUSE file system with one file, whose bytes are the card's.
//!
//! Each reply is held back until the request's arrival plus the card's service time. The kernel's
//! requests are taken one by one by one thread, as a card without a command queue does.
//! What arrives for what was measured on Linux 6.18: a flush as FSYNC, a discard as FALLOCATE with
//! PUNCH_HOLE, a request to write zeros as FALLOCATE with ZERO_RANGE, or with PUNCH_HOLE where it
//! may discard (`drivers/block/loop.c`, `do_req_filebacked`).

use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use flashfit_medium::{BlockDevError, Description};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyStatfs, ReplyWrite,
    Request as FuseRequest, WriteFlags,
};

use super::delay;
use crate::card::{Card, Request};

/// The name of the file.
pub const FILE_NAME: &str = flashfit_medium::guard::SIMULATED_CARD_FILE;
const FILE: INodeNo = INodeNo(2);
/// Nothing about the file ever changes.
const FOREVER: Duration = Duration::from_secs(1 << 30);
/// The largest write that the kernel is to send; a real mmc host has 512 KiB.
const MAX_WRITE_BYTES: u32 = 1 << 20;
/// How a card that cannot write zeros by itself is sent them.
const ZEROS: &[u8] = &[0; 512 << 10];

const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
const ZERO_RANGE: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;

/// A card that several threads use.
#[derive(Debug, Clone)]
pub struct SharedCard(Arc<Mutex<Card>>);

impl SharedCard {
    /// Shares a card.
    pub fn new(card: Card) -> Self {
        Self(Arc::new(Mutex::new(card)))
    }

    /// Waits for the card, never for the time that a request takes.
    pub fn lock(&self) -> MutexGuard<'_, Card> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The file system.
#[derive(Debug)]
pub struct CardFile {
    card: SharedCard,
    description: Description,
}

impl CardFile {
    /// A file system over a card.
    pub fn new(card: SharedCard) -> Self {
        let description = card.lock().description();
        Self { card, description }
    }

    /// Serves a request and waits out its time since `arrival`.
    fn serve(&self, arrival: Instant, request: Request<'_>) -> Result<(), Errno> {
        let served = self.card.lock().serve(request);
        delay::until(arrival + Duration::from_nanos(served.map_err(|error| errno(&error))?));
        Ok(())
    }

    /// A request to write zeros is what a host does to a card that cannot: writes of zeros.
    fn write_zeros(&self, arrival: Instant, mut offset: u64, mut left: u64) -> Result<(), Errno> {
        let mut end = arrival;
        while left > 0 {
            let part = usize::try_from(left).unwrap_or(usize::MAX).min(ZEROS.len());
            let request = Request::Write { offset, data: &ZEROS[..part] };
            let service_ns = self.card.lock().serve(request).map_err(|error| errno(&error))?;
            end += Duration::from_nanos(service_ns);
            offset += part as u64;
            left -= part as u64;
        }
        delay::until(end);
        Ok(())
    }

    fn attributes(&self, node: INodeNo) -> FileAttr {
        let file = node == FILE;
        let epoch = SystemTime::UNIX_EPOCH;
        let size = if file { self.description.capacity_bytes } else { 0 };
        FileAttr {
            ino: node,
            size,
            blocks: size / 512,
            atime: epoch,
            mtime: epoch,
            ctime: epoch,
            crtime: epoch,
            kind: if file { FileType::RegularFile } else { FileType::Directory },
            perm: if file { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

fn errno(error: &BlockDevError) -> Errno {
    match error {
        BlockDevError::OutOfBounds { .. } => Errno::EINVAL,
        BlockDevError::NoDiscard => Errno::EOPNOTSUPP,
        BlockDevError::Gone(_) | BlockDevError::Io { .. } => Errno::EIO,
    }
}

fn reply_empty(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for CardFile {
    fn init(&mut self, _: &FuseRequest, config: &mut KernelConfig) -> std::io::Result<()> {
        // A kernel that takes less says so by itself.
        let _ = config.set_max_write(MAX_WRITE_BYTES);
        Ok(())
    }

    fn lookup(&self, _: &FuseRequest, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == FILE_NAME {
            reply.entry(&FOREVER, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &FuseRequest, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(node));
    }

    fn statfs(&self, _: &FuseRequest, _: INodeNo, reply: ReplyStatfs) {
        // The loop driver takes its discard granularity from f_bsize.
        let granularity = u32::try_from(self.description.discard_granularity_bytes);
        let block = granularity.ok().filter(|&bytes| bytes > 0);
        let block = block.unwrap_or(self.description.sector_bytes);
        reply.statfs(
            self.description.capacity_bytes / u64::from(block),
            0,
            0,
            1,
            0,
            block,
            255,
            block,
        );
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
        let arrival = Instant::now();
        let mut buffer = vec![0; size as usize];
        match self.serve(arrival, Request::Read { offset, buffer: &mut buffer }) {
            Ok(()) => reply.data(&buffer),
            Err(errno) => reply.error(errno),
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
        let arrival = Instant::now();
        match self.serve(arrival, Request::Write { offset, data }) {
            Ok(()) => reply.written(u32::try_from(data.len()).expect("below the maximum write")),
            Err(errno) => reply.error(errno),
        }
    }

    /// The closing of a file; a card knows nothing of it.
    fn flush(&self, _: &FuseRequest, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &FuseRequest, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(reply, self.serve(Instant::now(), Request::Flush));
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
        let arrival = Instant::now();
        let discards = self.description.discard_granularity_bytes > 0;
        let result = match mode {
            PUNCH_HOLE if discards => self.serve(arrival, Request::Discard { offset, length }),
            // The queue of a card without discard takes none, so this asks for zeros.
            PUNCH_HOLE | ZERO_RANGE => self.write_zeros(arrival, offset, length),
            _ => Err(Errno::EOPNOTSUPP),
        };
        reply_empty(reply, result);
    }
}
