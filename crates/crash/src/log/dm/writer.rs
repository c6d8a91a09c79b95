//! Writes the format of dm-log-writes.

use super::{BASE_MARK, DISCARD, DmLogError, FLUSH, FUA, HEAD_BYTES, MAGIC, MARK, VERSION};
use crate::blocks::{BLOCK_BYTES, BLOCK_SECTORS, BlockId, SECTOR_BYTES};
use crate::log::{CrashLog, LogEntry};
use crate::workload::{LoggedOperation, Operation};

/// Of a line that is too long, in a message.
const NAMED_CHARS: usize = 60;

impl CrashLog {
    /// The log in the format of dm-log-writes, with sectors of 512 bytes, or larger ones if a mark
    /// is longer and all requests are of such sectors.
    ///
    /// # Errors
    /// [`DmLogError::LongMark`]: a check would not get the line that was printed.
    pub fn to_dm_log(&self) -> Result<Vec<u8>, DmLogError> {
        let mut out = DmLogWriter { sector_bytes: self.sector_bytes()?, ..DmLogWriter::default() };
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
                out.mark(&mark_of(operation));
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
        Ok(out.finish())
    }

    /// The smallest sectors that a mark fits into with the head of an entry.
    fn sector_bytes(&self) -> Result<usize, DmLogError> {
        let marks = self.operations.iter().map(mark_of);
        let Some(longest) = marks.max_by_key(String::len) else { return Ok(SECTOR_BYTES) };
        let needed = (HEAD_BYTES + longest.len()).next_power_of_two().max(SECTOR_BYTES);
        let multiple = (needed / SECTOR_BYTES) as u64;
        let has_such_sectors = |(sector, sectors): (u64, u32)| {
            sector % multiple == 0 && u64::from(sectors) % multiple == 0
        };
        if needed <= BLOCK_BYTES
            && self.entries.iter().filter_map(LogEntry::range).all(has_such_sectors)
        {
            return Ok(needed);
        }
        let start = longest.chars().take(NAMED_CHARS).collect();
        Err(DmLogError::LongMark { bytes: longest.len(), start })
    }
}

fn mark_of(operation: &LoggedOperation) -> String {
    match &operation.operation {
        // As it was printed, for the check that reads it.
        Operation::Acknowledge { line } => line.clone(),
        other => other.to_string(),
    }
}

#[derive(Default)]
struct DmLogWriter {
    entries: Vec<u8>,
    count: u64,
    sector_bytes: usize,
}

impl DmLogWriter {
    /// An entry; its sectors are of 512 bytes.
    fn entry(&mut self, sector: u64, sectors: u64, flags: u64, data: &[u8]) {
        let multiple = (self.sector_bytes / SECTOR_BYTES) as u64;
        self.head(sector / multiple, sectors / multiple, flags, 0, &[]);
        self.entries.extend_from_slice(data);
    }

    fn mark(&mut self, text: &str) {
        self.head(0, 0, MARK, text.len() as u64, text.as_bytes());
    }

    fn head(&mut self, sector: u64, sectors: u64, flags: u64, length: u64, mark: &[u8]) {
        for number in [sector, sectors, flags, length] {
            self.entries.extend_from_slice(&number.to_le_bytes());
        }
        self.entries.extend_from_slice(mark);
        let end = self.entries.len().next_multiple_of(self.sector_bytes);
        self.entries.resize(end, 0);
        self.count += 1;
    }

    fn finish(self) -> Vec<u8> {
        let mut out = Vec::new();
        for number in [MAGIC, VERSION, self.count, self.sector_bytes as u64] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.resize(self.sector_bytes, 0);
        out.extend(self.entries);
        out
    }
}
