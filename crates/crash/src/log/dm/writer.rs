//! Writes the format of dm-log-writes.

use super::{BASE_MARK, DISCARD, FLUSH, FUA, HEAD_BYTES, MAGIC, MARK, VERSION};
use crate::blocks::{BLOCK_BYTES, BLOCK_SECTORS, BlockId, SECTOR_BYTES};
use crate::log::{CrashLog, LogEntry};
use crate::workload::Operation;

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
                out.mark(&match &operation.operation {
                    // As it was printed, for the check that reads it.
                    Operation::Acknowledge { line } => line.clone(),
                    other => other.to_string(),
                });
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
