//! Reads the format of dm-log-writes.
//!
//! Everything up to the start of the work becomes the contents of the device before it. Limits:
//! a device of 16 GiB, four million requests, 2 GiB of different contents. The device ends with the
//! furthest request, or with the image of what was there before.

use std::io::{self, Read};

use super::{BASE_MARK, DISCARD, DmLogError, FLUSH, FUA, HEAD_BYTES, MAGIC, MARK, VERSION};
use crate::blocks::{BLOCK_BYTES, BLOCK_SECTORS, BlockId, BlockPool, SECTOR_BYTES};
use crate::log::{CrashLog, LogEntry, LoggedWrite, MOST_BLOCKS, blocks_of};
use crate::workload::{LoggedOperation, Operation};

const MOST_ENTRIES: usize = 1 << 22;
/// Different contents, of 4 KiB each.
const MOST_CONTENTS: usize = 1 << 19;
/// The mark that xfstests writes after mkfs.
const MKFS_MARK: &str = "mkfs";

/// Where the work begins that the power is cut during.
#[derive(Default)]
pub struct DmLogStart<'a> {
    /// The first mark with this text; by default that of an export of flashfit, or `mkfs`.
    pub mark: Option<&'a str>,
    /// The contents of the device before the first request; without it, zeros. With it and without
    /// a mark, all requests are of the work.
    pub image: Option<&'a mut dyn Read>,
}

impl CrashLog {
    /// A log from the format of dm-log-writes.
    ///
    /// # Errors
    /// [`DmLogError`].
    pub fn from_dm_log(from: &mut dyn Read, start: DmLogStart<'_>) -> Result<Self, DmLogError> {
        let has_image = start.image.is_some();
        let mut reader = DmLogReader::new(from)?;
        if let Some(image) = start.image {
            reader.image(image)?;
        }
        for _ in 0..reader.count {
            reader.entry()?;
        }
        let mut log = reader.log;
        if let Some(mark) = start_mark(&log, start.mark, has_image)? {
            begin_after(&mut log, mark);
        }
        if log.entries.is_empty() {
            return Err(DmLogError::Empty);
        }
        Ok(log)
    }
}

/// Which mark the work begins after; `None` if it begins with the first request.
fn start_mark(
    log: &CrashLog,
    wanted: Option<&str>,
    has_image: bool,
) -> Result<Option<usize>, DmLogError> {
    let marks = || log.operations.iter().map(|mark| line(mark).to_owned()).collect();
    let find = |text: &str| log.operations.iter().position(|mark| line(mark) == text);
    if let Some(mark) = wanted {
        let missing = || DmLogError::NoMark { mark: mark.to_owned(), marks: marks() };
        return find(mark).map(Some).ok_or_else(missing);
    }
    match find(BASE_MARK).or_else(|| find(MKFS_MARK)) {
        None if !has_image => Err(DmLogError::NoStart { marks: marks() }),
        found => Ok(found),
    }
}

fn line(mark: &LoggedOperation) -> &str {
    match &mark.operation {
        Operation::Acknowledge { line } => line,
        _ => unreachable!("a mark is an acknowledgment"),
    }
}

/// Makes what came before a mark the contents of the device before the work.
fn begin_after(log: &mut CrashLog, mark: usize) {
    let start = log.operations[mark].end;
    let before: Vec<LogEntry> = log.entries.drain(..start as usize).collect();
    for entry in before {
        let Some((sector, sectors)) = entry.range() else { continue };
        for (index, (block, within)) in blocks_of(sector, sectors).enumerate() {
            let new = match &entry {
                LogEntry::Write(write) => write.blocks[index],
                _ => BlockId::ZERO,
            };
            let old = log.base[block as usize];
            log.base[block as usize] = log.pool.overlay(old, new, within);
        }
    }
    log.operations.drain(..=mark);
    for (number, operation) in (0..).zip(&mut log.operations) {
        operation.number = number;
        operation.begin = operation.begin.saturating_sub(start);
        operation.end -= start;
    }
}

struct DmLogReader<'a> {
    from: &'a mut dyn Read,
    log: CrashLog,
    count: u64,
    sector_bytes: usize,
}

impl<'a> DmLogReader<'a> {
    fn new(from: &'a mut dyn Read) -> Result<Self, DmLogError> {
        let mut head = [0; HEAD_BYTES];
        exact(from, &mut head)?;
        let [magic, version, count, sector_bytes] = numbers(&head);
        if magic != MAGIC || version != VERSION {
            return Err(DmLogError::format("it does not begin as one"));
        }
        let sector_bytes = (sector_bytes & u64::from(u32::MAX)) as usize;
        if !sector_bytes.is_power_of_two() || !(SECTOR_BYTES..=BLOCK_BYTES).contains(&sector_bytes)
        {
            return Err(DmLogError::format(format!("sectors of {sector_bytes} bytes")));
        }
        exact(from, &mut vec![0; sector_bytes - HEAD_BYTES])?;
        let log = CrashLog {
            setup: String::new(),
            seed: 0,
            base: Vec::new(),
            pool: BlockPool::default(),
            entries: Vec::new(),
            operations: Vec::new(),
        };
        Ok(Self { from, log, count, sector_bytes })
    }

    /// Reads what was on the device before.
    fn image(&mut self, image: &mut dyn Read) -> Result<(), DmLogError> {
        loop {
            let mut content = [0; BLOCK_BYTES];
            let mut filled = 0;
            while filled < BLOCK_BYTES {
                match image.read(&mut content[filled..]) {
                    Ok(0) => break,
                    Ok(count) => filled += count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if filled == 0 {
                return Ok(());
            }
            if self.log.base.len() == MOST_BLOCKS as usize {
                return Err(too_large());
            }
            let id = self.intern(&content)?;
            self.log.base.push(id);
        }
    }

    fn entry(&mut self) -> Result<(), DmLogError> {
        let mut first = vec![0; self.sector_bytes];
        exact(self.from, &mut first)?;
        let [sector, sectors, flags, length] = numbers(&first);
        if flags & MARK != 0 {
            let text = &first[HEAD_BYTES..];
            let length = usize::try_from(length).unwrap_or(usize::MAX).min(text.len());
            return self.mark(&String::from_utf8_lossy(&text[..length]));
        }
        if flags & FLUSH != 0 {
            self.push(LogEntry::Flush)?;
        }
        if sectors == 0 {
            return Ok(());
        }
        let scale = (self.sector_bytes / SECTOR_BYTES) as u64;
        let too_large_number = || DmLogError::format("too large a number");
        let scaled = |number: u64| number.checked_mul(scale).ok_or_else(too_large_number);
        let (sector, sectors) = (scaled(sector)?, scaled(sectors)?);
        let end = sector.checked_add(sectors).ok_or_else(too_large_number)?;
        let blocks = end.div_ceil(u64::from(BLOCK_SECTORS));
        if blocks > u64::from(MOST_BLOCKS) {
            return Err(too_large());
        }
        let sectors =
            u32::try_from(sectors).map_err(|_| DmLogError::format("too long a request"))?;
        let blocks = usize::try_from(blocks).expect("checked");
        if self.log.base.len() < blocks {
            self.log.base.resize(blocks, BlockId::ZERO);
        }
        if flags & DISCARD != 0 {
            return self.push(LogEntry::Discard { sector, sectors });
        }
        let mut blocks = Vec::new();
        for (_, within) in blocks_of(sector, sectors) {
            let bytes = within.start as usize * SECTOR_BYTES..within.end as usize * SECTOR_BYTES;
            let mut content = [0; BLOCK_BYTES];
            exact(self.from, &mut content[bytes])?;
            blocks.push(self.intern(&content)?);
        }
        let is_durable = flags & FUA != 0;
        self.push(LogEntry::Write(LoggedWrite { sector, sectors, blocks, is_durable }))
    }

    fn push(&mut self, entry: LogEntry) -> Result<(), DmLogError> {
        if self.log.entries.len() == MOST_ENTRIES {
            return Err(DmLogError::format(format!("more than {MOST_ENTRIES} requests")));
        }
        self.log.entries.push(entry);
        Ok(())
    }

    fn intern(&mut self, content: &[u8; BLOCK_BYTES]) -> Result<BlockId, DmLogError> {
        let id = self.log.pool.intern(content);
        if self.log.pool.len() > MOST_CONTENTS {
            return Err(DmLogError::format("more than 2 GiB of different contents"));
        }
        Ok(id)
    }

    fn mark(&mut self, text: &str) -> Result<(), DmLogError> {
        let log = &mut self.log;
        if log.operations.len() == MOST_ENTRIES {
            return Err(DmLogError::format(format!("more than {MOST_ENTRIES} marks")));
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
        Ok(())
    }
}

fn too_large() -> DmLogError {
    DmLogError::format("the device is larger than 16 GiB")
}

fn exact(from: &mut dyn Read, bytes: &mut [u8]) -> Result<(), DmLogError> {
    from.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => DmLogError::format("it is cut short"),
        _ => error.into(),
    })
}

/// The four numbers that a super block and an entry begin with.
fn numbers(bytes: &[u8]) -> [u64; 4] {
    [0, 8, 16, 24]
        .map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("the length of a head")))
}
