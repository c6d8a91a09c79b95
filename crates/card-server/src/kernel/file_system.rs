//! The FUSE file system with one file, whose bytes are the card's.
//!
//! Each reply is held back until the card would have done the request. One thread takes the
//! kernel's requests. For a card without a command queue it serves them one by one, and the kernel
//! is not asked for `FUSE_ASYNC_DIO`, without which it sends one at a time; for a card with one it
//! takes as many as the card works on at once, and they are answered as they are done.
//! What arrives for what was measured on Linux 6.18: a flush as FSYNC, a discard as FALLOCATE with
//! PUNCH_HOLE, a request to write zeros as FALLOCATE with ZERO_RANGE, or with PUNCH_HOLE where it
//! may discard (`drivers/block/loop.c`, `do_req_filebacked`). The loop driver waits for each of
//! these three before it sends anything else, so only reads and writes overlap.

use std::ffi::OsStr;
use std::time::Instant;

use flashfit_card::CardRequest;
use flashfit_device::{BlockDevError, BlockDevInfo};
use fuser::{
    Errno, FileHandle, Filesystem, Generation, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyStatfs, ReplyWrite,
    Request as FuseRequest, WriteFlags,
};

use super::device_file::{FILE, FOREVER, MAX_WRITE_BYTES, PUNCH_HOLE, ZERO_RANGE, attributes};
use crate::buffers::Buffers;
use crate::live::{CompletionTime, LiveCard};
use crate::replies::Replies;

pub fn file_name() -> String {
    flashfit_device::guard::simulated_card_file(std::process::id())
}

/// The kernel's own least number of requests under way (`FUSE_DEFAULT_MAX_BACKGROUND`).
const LEAST_BACKGROUND: u16 = 12;

#[derive(Debug)]
pub struct CardFile {
    card: LiveCard,
    description: BlockDevInfo,
    replies: Replies,
    buffers: Buffers,
}

impl CardFile {
    /// A file system over a card. Its threads share the open files of the thread that calls this.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn new(card: LiveCard) -> std::io::Result<Self> {
        let description = *card.description();
        let replies = Replies::new(card.clone())?;
        Ok(Self { card, description, replies, buffers: Buffers::default() })
    }

    /// Submits a request without data and replies when it is done.
    fn serve(
        &self,
        reply: ReplyEmpty,
        submit: impl FnOnce(Instant) -> Result<CompletionTime, Errno>,
    ) {
        let place = self.card.place();
        match submit(Instant::now()) {
            Ok(due) => self.replies.when(place, Ok(due), |result| match result {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(&error)),
            }),
            Err(errno) => reply.error(errno),
        }
    }
}

fn errno(error: &BlockDevError) -> Errno {
    match error {
        BlockDevError::OutOfBounds { .. } => Errno::EINVAL,
        BlockDevError::NoDiscard => Errno::EOPNOTSUPP,
        BlockDevError::WornOut | BlockDevError::Disconnected(_) | BlockDevError::Io { .. } => {
            Errno::EIO
        }
    }
}

impl Filesystem for CardFile {
    fn init(&mut self, _: &FuseRequest, config: &mut KernelConfig) -> std::io::Result<()> {
        // A kernel that takes less says so by itself.
        let _ = config.set_max_write(MAX_WRITE_BYTES);
        if self.card.depth() > 1 {
            let depth = u16::try_from(self.card.depth()).unwrap_or(u16::MAX);
            let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
            let _ = config.set_max_background(depth.max(LEAST_BACKGROUND));
        }
        Ok(())
    }

    fn lookup(&self, _: &FuseRequest, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == file_name().as_str() {
            reply.entry(
                &FOREVER,
                &attributes(FILE, self.description.capacity_bytes),
                Generation(0),
            );
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &FuseRequest, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &attributes(node, self.description.capacity_bytes));
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
        let place = self.card.place();
        let arrival = Instant::now();
        let mut buffer = self.buffers.take(size as usize);
        let due = self.card.submit(arrival, CardRequest::Read { offset, buffer: &mut buffer });
        self.replies.when(place, due, move |result| match result {
            Ok(()) => reply.data(&buffer),
            Err(error) => reply.error(errno(&error)),
        });
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
        let place = self.card.place();
        let arrival = Instant::now();
        let due = self.card.submit(arrival, CardRequest::Write { offset, data });
        let length = u32::try_from(data.len()).expect("below the maximum write");
        self.replies.when(place, due, move |result| match result {
            Ok(()) => reply.written(length),
            Err(error) => reply.error(errno(&error)),
        });
    }

    /// The closing of a file; it has no meaning for a card.
    fn flush(&self, _: &FuseRequest, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &FuseRequest, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.serve(reply, |arrival| {
            self.card.submit(arrival, CardRequest::Flush).map_err(|error| errno(&error))
        });
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
        let discards = self.description.discard_granularity_bytes > 0;
        self.serve(reply, |arrival| match mode {
            PUNCH_HOLE if discards => self
                .card
                .submit(arrival, CardRequest::Discard { offset, length })
                .map_err(|error| errno(&error)),
            // The queue of a card without discard takes none, so this asks for zeros.
            PUNCH_HOLE | ZERO_RANGE => {
                self.card.write_zeros(arrival, offset, length).map_err(|error| errno(&error))
            }
            _ => Err(Errno::EOPNOTSUPP),
        });
    }
}
