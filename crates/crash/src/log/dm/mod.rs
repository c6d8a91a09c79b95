//! The format of dm-log-writes, in both directions.
//!
//! Source: `drivers/md/dm-log-writes.c` of Linux and `src/log-writes` of xfstests. A super block,
//! then entries of one sector, each followed by its data; all numbers are little-endian and
//! sectors have the size that the super block gives. A flush of an entry comes before its own
//! write. A mark becomes an acknowledgment with its text.
//!
//! The format has no contents from before the first entry, so an export begins with writes of what
//! mkfs left, up to a mark. Limit: never-written blocks are imported as zeros.

use super::{CrashLog, LogEntry, LoggedWrite, MOST_BLOCKS, blocks_of};
use crate::blocks::{BLOCK_BYTES, BLOCK_SECTORS, BlockId, BlockPool, SECTOR_BYTES};
use crate::workload::{LoggedOperation, Operation};

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;
const HEAD_BYTES: usize = 32;
/// Ends the writes of what was there before.
const BASE_MARK: &str = "flashfit: made";

impl CrashLog {
    /// The log in the format of dm-log-writes, with sectors of 512 bytes.
    pub fn to_dm_log(&self) -> Vec<u8> {
        let mut out = DmLogWriter::default();
        for (block, id) in (0..).zip(&self.base) {
            if *id != BlockId::unwritten(block) {
                let mut content = [0; BLOCK_BYTES];
                self.pool.read(*id, &mut content);
                out.entry(u64::from(block * BLOCK_SECTORS), u64::from(BLOCK_SECTORS), 0, &content);
            }
        }
        out.mark(BASE_MARK);
        let mut done = self.operations.iter().peekable();
        for position in 0..=self.end() {
            while let Some(operation) = done.next_if(|operation| operation.end <= position) {
                out.mark(&operation.operation.to_string());
            }
            match self.entries.get(position as usize) {
                None => {}
                Some(LogEntry::Flush) => out.entry(0, 0, FLUSH, &[]),
                Some(LogEntry::Discard { sector, sectors }) => {
                    out.entry(*sector, u64::from(*sectors), DISCARD, &[]);
                }
                Some(LogEntry::Write(write)) => {
                    let flags = if write.is_durable { FUA } else { 0 };
                    out.entry(write.sector, u64::from(write.sectors), flags, &self.data(write));
                }
            }
        }
        out.finish()
    }

    pub(super) fn data(&self, write: &LoggedWrite) -> Vec<u8> {
        let mut data = Vec::new();
        let mut content = [0; BLOCK_BYTES];
        for ((_, within), id) in blocks_of(write.sector, write.sectors).zip(&write.blocks) {
            self.pool.read(*id, &mut content);
            let bytes = within.start as usize * SECTOR_BYTES..within.end as usize * SECTOR_BYTES;
            data.extend_from_slice(&content[bytes]);
        }
        data
    }

    /// A log from the format of dm-log-writes.
    ///
    /// # Errors
    /// In words, why these are not the bytes of such a log.
    pub fn from_dm_log(bytes: &[u8]) -> Result<Self, String> {
        let number = |at: usize| -> Result<u64, String> {
            let bytes = bytes.get(at..at + 8).ok_or("it is too short")?;
            Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
        };
        if number(0)? != MAGIC || number(8)? != VERSION {
            return Err("it does not begin as a log of dm-log-writes".to_owned());
        }
        let count = number(16)?;
        let sector_bytes = (number(24)? & u64::from(u32::MAX)) as usize;
        if !sector_bytes.is_power_of_two() || !(SECTOR_BYTES..=BLOCK_BYTES).contains(&sector_bytes)
        {
            return Err(format!("sectors of {sector_bytes} bytes"));
        }
        let mut reader = DmLogReader {
            log: Self {
                setup: String::new(),
                seed: 0,
                base: Vec::new(),
                pool: BlockPool::default(),
                entries: Vec::new(),
                operations: Vec::new(),
            },
            scale: (sector_bytes / SECTOR_BYTES) as u64,
        };
        let mut at = sector_bytes;
        for _ in 0..count {
            let head = [number(at)?, number(at + 8)?, number(at + 16)?, number(at + 24)?];
            let mark = bytes.get(at + HEAD_BYTES..at + sector_bytes).ok_or("it is too short")?;
            at += sector_bytes;
            at += reader.entry(head, mark, &bytes[at..])?;
        }
        Ok(reader.log)
    }
}

#[derive(Default)]
struct DmLogWriter {
    entries: Vec<u8>,
    count: u64,
}

impl DmLogWriter {
    fn entry(&mut self, sector: u64, sectors: u64, flags: u64, data: &[u8]) {
        self.head(sector, sectors, flags, 0, &[]);
        self.entries.extend_from_slice(data);
    }

    fn mark(&mut self, text: &str) {
        let text = &text.as_bytes()[..text.len().min(SECTOR_BYTES - HEAD_BYTES)];
        self.head(0, 0, MARK, text.len() as u64, text);
    }

    fn head(&mut self, sector: u64, sectors: u64, flags: u64, length: u64, mark: &[u8]) {
        for number in [sector, sectors, flags, length] {
            self.entries.extend_from_slice(&number.to_le_bytes());
        }
        self.entries.extend_from_slice(mark);
        let end = self.entries.len().next_multiple_of(SECTOR_BYTES);
        self.entries.resize(end, 0);
        self.count += 1;
    }

    fn finish(self) -> Vec<u8> {
        let mut out = Vec::new();
        for number in [MAGIC, VERSION, self.count, SECTOR_BYTES as u64] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.resize(SECTOR_BYTES, 0);
        out.extend(self.entries);
        out
    }
}

struct DmLogReader {
    log: CrashLog,
    /// Sectors of 512 bytes in a sector of the log.
    scale: u64,
}

impl DmLogReader {
    /// Reads an entry; returns the length of its data.
    fn entry(&mut self, head: [u64; 4], mark: &[u8], rest: &[u8]) -> Result<usize, String> {
        let [sector, sectors, flags, length] = head;
        let log = &mut self.log;
        if flags & MARK != 0 {
            let length = usize::try_from(length).unwrap_or(usize::MAX).min(mark.len());
            self.mark(&String::from_utf8_lossy(&mark[..length]));
            return Ok(0);
        }
        if flags & FLUSH != 0 {
            log.entries.push(LogEntry::Flush);
        }
        if sectors == 0 {
            return Ok(0);
        }
        let scaled = |number: u64| number.checked_mul(self.scale).ok_or("too large a number");
        let (sector, sectors) = (scaled(sector)?, scaled(sectors)?);
        let end = sector.checked_add(sectors).ok_or("too large a number")?;
        let blocks = end.div_ceil(u64::from(BLOCK_SECTORS));
        if blocks > u64::from(MOST_BLOCKS) {
            return Err("the device is too large".to_owned());
        }
        let sectors = u32::try_from(sectors).map_err(|_| "too long a request")?;
        let blocks = usize::try_from(blocks).expect("checked");
        if log.base.len() < blocks {
            log.base.resize(blocks, BlockId::ZERO);
        }
        if flags & DISCARD != 0 {
            log.entries.push(LogEntry::Discard { sector, sectors });
            return Ok(0);
        }
        let length = sectors as usize * SECTOR_BYTES;
        let mut data = rest.get(..length).ok_or("its data is not complete")?;
        let mut blocks = Vec::new();
        for (_, within) in blocks_of(sector, sectors) {
            let bytes = within.start as usize * SECTOR_BYTES..within.end as usize * SECTOR_BYTES;
            let mut content = [0; BLOCK_BYTES];
            let (piece, later) = data.split_at(bytes.len());
            content[bytes].copy_from_slice(piece);
            data = later;
            blocks.push(log.pool.intern(&content));
        }
        let is_durable = flags & FUA != 0;
        log.entries.push(LogEntry::Write(LoggedWrite { sector, sectors, blocks, is_durable }));
        Ok(length)
    }

    fn mark(&mut self, text: &str) {
        let log = &mut self.log;
        if text == BASE_MARK {
            for entry in std::mem::take(&mut log.entries) {
                let LogEntry::Write(write) = entry else { continue };
                for ((block, within), id) in
                    blocks_of(write.sector, write.sectors).zip(write.blocks)
                {
                    let old = log.base[block as usize];
                    log.base[block as usize] = log.pool.overlay(old, id, within);
                }
            }
            return;
        }
        let begin = log.operations.last().map_or(0, |last| last.end);
        log.operations.push(LoggedOperation {
            operation: Operation::Acknowledge { line: text.to_owned() },
            number: u32::try_from(log.operations.len()).expect("few marks"),
            begin,
            end: log.end(),
            inode: None,
            error: None,
        });
    }
}
