//! A block device in memory that records what is written to it, or shows one crash state and
//! records what is read of it.
//!
//! Writes never reach the state that is shown, so the next state is loaded without undoing them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use flashfit_card::{Card, CardRequest};
use flashfit_device::BlockDevError;

use crate::blocks::{BLOCK_BYTES, BLOCK_SECTORS, Block, BlockId, BlockPool, SECTOR_BYTES};
use crate::log::{LogEntry, LoggedWrite, blocks_of};

/// What a device shows: a base and the blocks that differ from it.
#[derive(Debug, Clone, Default)]
pub struct DiskContents {
    pub base: Arc<Vec<BlockId>>,
    pub changed: HashMap<u32, BlockId>,
    /// A saved simulated card, which is shown instead.
    pub card: Option<Arc<Vec<u8>>>,
}

impl DiskContents {
    pub fn block(&self, block: u32) -> BlockId {
        self.changed.get(&block).copied().unwrap_or_else(|| self.base[block as usize])
    }
}

/// A block that was read before it was written, with what it was.
pub type ReadBlock = (u32, BlockId);

#[derive(Debug, Default)]
pub struct OverlayDisk {
    pub pool: BlockPool,
    contents: DiskContents,
    /// What was written since the contents were loaded; `None` for zeros, so that making a file
    /// system on a large device, which may discard all of it, takes little memory.
    written: HashMap<u32, Option<Box<Block>>>,
    /// Where one is shown, it is read and written instead of the blocks.
    card: Option<Box<Card>>,
    reads: Vec<ReadBlock>,
    seen: HashSet<u32>,
    /// The requests since recording began.
    recorded: Option<Vec<LogEntry>>,
}

impl OverlayDisk {
    /// A device of which nothing was ever written.
    pub fn unwritten(device_bytes: u64) -> Self {
        let blocks = u32::try_from(device_bytes / BLOCK_BYTES as u64).expect("a small device");
        let base = (0..blocks).map(BlockId::unwritten).collect();
        let contents = DiskContents { base: Arc::new(base), ..DiskContents::default() };
        Self { contents, ..Self::default() }
    }

    pub fn device_bytes(&self) -> u64 {
        self.contents.base.len() as u64 * BLOCK_BYTES as u64
    }

    /// Shows `contents` and forgets what was written and read.
    pub fn load(&mut self, contents: DiskContents) {
        assert_eq!(contents.base.len(), self.contents.base.len(), "the size stays");
        self.card = contents.card.as_ref().map(|saved| {
            let mut card = Card::load(&saved[..]).expect("saved by this process");
            // A bricked card stays without power, and its requests fail.
            let _ = card.power_on();
            Box::new(card)
        });
        self.contents = contents;
        self.written.clear();
        self.reads.clear();
        self.seen.clear();
        self.recorded = None;
    }

    /// What was read of the contents since they were loaded, each block once, in this order.
    pub fn reads(&self) -> &[ReadBlock] {
        &self.reads
    }

    /// Records requests from now on, and forgets those recorded before.
    pub fn record(&mut self) {
        self.recorded = Some(Vec::new());
    }

    /// How many requests were recorded.
    pub fn recorded(&self) -> usize {
        self.recorded.as_ref().map_or(0, Vec::len)
    }

    /// Ends recording and returns the requests.
    pub fn take_recorded(&mut self) -> Vec<LogEntry> {
        self.recorded.take().unwrap_or_default()
    }

    /// The content of every block as it is now.
    pub fn snapshot(&mut self) -> Vec<BlockId> {
        let blocks = 0..u32::try_from(self.contents.base.len()).expect("a small device");
        blocks
            .map(|block| match self.written.get(&block) {
                Some(Some(content)) => self.pool.intern(content),
                Some(None) => BlockId::ZERO,
                None => self.contents.block(block),
            })
            .collect()
    }

    /// Fills `buffer` from a byte offset; what is beyond the end is zeros.
    ///
    /// # Errors
    /// Those of the card that is shown.
    pub fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError> {
        if let Some(card) = &mut self.card {
            let left = card.model().capacity.0.saturating_sub(offset);
            let inside = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let (buffer, beyond) = buffer.split_at_mut(inside);
            beyond.fill(0);
            return card.serve(CardRequest::Read { offset, buffer }).map(drop);
        }
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let (number, within) = (at / BLOCK_BYTES as u64, (at % BLOCK_BYTES as u64) as usize);
            let length = (BLOCK_BYTES - within).min(buffer.len() - done);
            let target = &mut buffer[done..done + length];
            if number < self.contents.base.len() as u64 {
                let block = u32::try_from(number).expect("a small device");
                target.copy_from_slice(&self.block(block)[within..within + length]);
            } else {
                target.fill(0);
            }
            done += length;
        }
        Ok(())
    }

    /// Writes whole sectors.
    ///
    /// # Errors
    /// Those of the card that is shown.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError> {
        if let Some(card) = &mut self.card {
            return card.serve(CardRequest::Write { offset, data }).map(drop);
        }
        let sector = offset / SECTOR_BYTES as u64;
        let sectors = u32::try_from(data.len() / SECTOR_BYTES).expect("requests are small");
        let mut blocks = Vec::new();
        let mut data = data;
        for (block, within) in blocks_of(sector, sectors) {
            let bytes = within.start as usize * SECTOR_BYTES..within.end as usize * SECTOR_BYTES;
            let (piece, rest) = data.split_at(bytes.len());
            data = rest;
            if self.recorded.is_some() {
                let mut content = [0; BLOCK_BYTES];
                content[bytes.clone()].copy_from_slice(piece);
                blocks.push(self.pool.intern(&content));
            }
            self.change(block, within, |content| content[bytes].copy_from_slice(piece));
        }
        self.note(|| LogEntry::Write(LoggedWrite { sector, sectors, blocks, is_durable: false }));
        Ok(())
    }

    /// Makes a range read as zeros; as a discard it is recorded as such.
    ///
    /// # Errors
    /// Those of the card that is shown.
    pub fn zero(
        &mut self,
        offset: u64,
        length: u64,
        is_discard: bool,
    ) -> Result<(), BlockDevError> {
        if let Some(card) = &mut self.card {
            return match card.serve(CardRequest::Discard { offset, length }) {
                Err(BlockDevError::NoDiscard) if !is_discard => {
                    let zeros = vec![0; usize::try_from(length).unwrap_or(0)];
                    card.serve(CardRequest::Write { offset, data: &zeros }).map(drop)
                }
                // A card that cannot discard keeps the data, as it may.
                Err(BlockDevError::NoDiscard) => Ok(()),
                served => served.map(drop),
            };
        }
        // A range of any length is recorded in pieces whose sectors can be counted.
        const MOST: u64 = 1 << 30;
        let (mut offset, end) = (offset, (offset + length).min(self.device_bytes()));
        while offset < end {
            let length = (end - offset).min(MOST);
            let sector = offset / SECTOR_BYTES as u64;
            let sectors = u32::try_from(length / SECTOR_BYTES as u64).expect("at most 1 GiB");
            let mut blocks = Vec::new();
            for (block, within) in blocks_of(sector, sectors) {
                blocks.push(BlockId::ZERO);
                if within == (0..BLOCK_SECTORS) {
                    self.written.insert(block, None);
                    continue;
                }
                let bytes =
                    within.start as usize * SECTOR_BYTES..within.end as usize * SECTOR_BYTES;
                self.change(block, within, |content| content[bytes].fill(0));
            }
            self.note(|| match is_discard {
                true => LogEntry::Discard { sector, sectors },
                false => {
                    LogEntry::Write(LoggedWrite { sector, sectors, blocks, is_durable: false })
                }
            });
            offset += length;
        }
        Ok(())
    }

    /// # Errors
    /// Those of the card that is shown.
    pub fn flush(&mut self) -> Result<(), BlockDevError> {
        if let Some(card) = &mut self.card {
            return card.serve(CardRequest::Flush).map(drop);
        }
        self.note(|| LogEntry::Flush);
        Ok(())
    }

    fn note(&mut self, entry: impl FnOnce() -> LogEntry) {
        if let Some(recorded) = &mut self.recorded {
            recorded.push(entry());
        }
    }

    fn change(
        &mut self,
        block: u32,
        sectors: std::ops::Range<u32>,
        change: impl FnOnce(&mut Block),
    ) {
        if !self.written.contains_key(&block) {
            // A block written in part keeps the rest, which is therefore read.
            let is_whole = sectors == (0..BLOCK_SECTORS);
            let content = if is_whole { [0; BLOCK_BYTES] } else { self.block(block) };
            self.written.insert(block, Some(Box::new(content)));
        }
        let content = self.written.get_mut(&block).expect("inserted");
        change(content.get_or_insert_with(|| Box::new([0; BLOCK_BYTES])));
    }

    fn block(&mut self, block: u32) -> Block {
        if let Some(content) = self.written.get(&block) {
            return content.as_deref().copied().unwrap_or([0; BLOCK_BYTES]);
        }
        let id = self.contents.block(block);
        if self.seen.insert(block) {
            self.reads.push((block, id));
        }
        let mut content = [0; BLOCK_BYTES];
        self.pool.read(id, &mut content);
        content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_a_loaded_state_replaces_it() {
        let mut disk = OverlayDisk::unwritten(1 << 20);
        let before = disk.snapshot();
        disk.record();
        disk.write(4096 + 512, &[7; 1024]).unwrap();
        disk.flush().unwrap();
        let mut buffer = [0; 4096];
        disk.read(4096, &mut buffer).unwrap();
        assert_eq!(
            (buffer[511] == 7, buffer[512], buffer[1535], buffer[1536] == 7),
            (false, 7, 7, false)
        );
        assert_eq!(disk.recorded(), 2);
        assert_eq!(disk.reads(), [(1, BlockId::unwritten(1))]);
        let entries = disk.take_recorded();
        assert_eq!(entries[0].range(), Some((9, 2)));
        disk.load(DiskContents {
            base: Arc::new(before),
            changed: HashMap::from([(1, BlockId::ZERO)]),
            card: None,
        });
        disk.read(4096, &mut buffer).unwrap();
        assert_eq!(buffer, [0; 4096]);
        assert_eq!(disk.reads(), [(1, BlockId::ZERO)]);
    }

    #[test]
    fn zeros_are_a_write_or_a_discard() {
        let mut disk = OverlayDisk::unwritten(1 << 20);
        disk.record();
        disk.zero(0, 8192, false).unwrap();
        disk.zero(8192, 1 << 40, true).unwrap();
        let entries = disk.take_recorded();
        assert!(matches!(&entries[0], LogEntry::Write(write) if write.blocks.len() == 2));
        assert_eq!(entries[1], LogEntry::Discard { sector: 16, sectors: 2032 });
        assert_eq!(disk.snapshot(), [BlockId::ZERO; 256]);
    }

    #[test]
    fn zeros_take_no_memory_until_they_are_overwritten() {
        let mut disk = OverlayDisk::unwritten(1 << 30);
        disk.zero(0, 1 << 30, true).unwrap();
        assert_eq!(disk.written.values().flatten().count(), 0);
        disk.write(4096 + 512, &[7; 512]).unwrap();
        assert_eq!(disk.written.values().flatten().count(), 1);
        let mut buffer = [9; 8192];
        disk.read(4096, &mut buffer).unwrap();
        assert_eq!((buffer[511], buffer[512], buffer[1023], buffer[1024]), (0, 7, 7, 0));
        assert_eq!((buffer[4096], disk.reads().len()), (0, 0));
    }
}
