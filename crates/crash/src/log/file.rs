//! The file of a log: a head with a version, the log without the contents, the contents, and a
//! checksum of it all.
//!
//! Written to a temporary file, synced and renamed, so that a file is either whole or absent.

use std::io;
use std::path::{Path, PathBuf};

use flashfit_host::program::quote_path;
use flashfit_host::{durable, input_file};
use flashfit_user_error::{ExitClass, Hint, UserError};
use serde::{Deserialize, Serialize};

use super::{CrashLog, LogEntry, LoggedWrite, MOST_BLOCKS, blocks_of};
use crate::blocks::{BLOCK_BYTES, BLOCK_SECTORS, Block, BlockId, BlockPool};
use crate::workload::LoggedOperation;

const MAGIC: &[u8; 8] = b"FFCRLOG1";
/// Of requests that were recorded elsewhere, 2 GiB of contents are kept.
const MOST_BYTES: u64 = 4 << 30;

#[derive(Debug, thiserror::Error)]
pub enum LogFileError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not a log of crash states: {reason}", path.display())]
    Invalid { path: PathBuf, reason: String },
}

impl UserError for LogFileError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Io { .. } => ExitClass::Environment,
            Self::Invalid { .. } => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Io { path, source } if source.kind() == io::ErrorKind::StorageFull => {
                let folder = path.parent().unwrap_or(path);
                Some(format!("free space in {}, then repeat the command", folder.display()).into())
            }
            Self::Io { .. } => None,
            Self::Invalid { path, .. } => {
                Some(format!("a campaign continues without it: rm {}", quote_path(path)).into())
            }
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Head {
    setup: String,
    seed: u64,
    /// Lengths of runs: blocks never written, then blocks with these contents, and so on.
    base: Vec<Run>,
    entries: Vec<LogEntry>,
    operations: Vec<LoggedOperation>,
    contents: u32,
}

#[derive(Serialize, Deserialize)]
enum Run {
    Unwritten(u32),
    Same(BlockId, u32),
}

impl CrashLog {
    /// Writes the log, durably.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), LogFileError> {
        let failed = |source| LogFileError::Io { path: path.to_owned(), source };
        durable::write(path, &self.to_bytes()).map_err(failed)
    }

    /// Reads a log and checks that it is whole and consistent.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a log.
    pub fn load(path: &Path) -> Result<Self, LogFileError> {
        let failed = |source| LogFileError::Io { path: path.to_owned(), source };
        let bytes = input_file::read_capped(path, MOST_BYTES);
        let bytes = bytes.map_err(|error| failed(error.into_io()))?;
        Self::from_bytes(&bytes)
            .map_err(|reason| LogFileError::Invalid { path: path.to_owned(), reason })
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let head = Head {
            setup: self.setup.clone(),
            seed: self.seed,
            base: runs(&self.base),
            entries: self.entries.clone(),
            operations: self.operations.clone(),
            contents: u32::try_from(self.pool.len()).expect("fewer than 2^31 contents"),
        };
        let head = postcard::to_stdvec(&head).expect("plain data");
        let mut bytes = MAGIC.to_vec();
        bytes.extend((head.len() as u64).to_le_bytes());
        bytes.extend(head);
        for block in self.pool.stored() {
            bytes.extend(block);
        }
        let checksum = crc32fast::hash(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// The log in the bytes of a file.
    ///
    /// # Errors
    /// In words, why these are not the bytes of a log.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let (body, checksum) = bytes.split_last_chunk::<4>().ok_or("it is too short")?;
        let rest = body.strip_prefix(MAGIC).ok_or("it does not begin as one")?;
        if crc32fast::hash(body) != u32::from_le_bytes(*checksum) {
            return Err("its checksum does not match".to_owned());
        }
        let (length, rest) = rest.split_first_chunk::<8>().ok_or("it is too short")?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|e| e.to_string())?;
        let (head, contents) = rest.split_at_checked(length).ok_or("it is too short")?;
        let head: Head = postcard::from_bytes(head).map_err(|error| error.to_string())?;
        let log = Self {
            setup: head.setup,
            seed: head.seed,
            base: expanded(&head.base)?,
            pool: pool(contents, head.contents)?,
            entries: head.entries,
            operations: head.operations,
        };
        log.check()?;
        Ok(log)
    }

    /// # Errors
    /// In words, why its parts do not fit together.
    pub(crate) fn check(&self) -> Result<(), String> {
        let sectors = self.base.len() as u64 * u64::from(BLOCK_SECTORS);
        let known = |id: &BlockId| self.pool.contains(*id);
        if !self.base.iter().all(known) {
            return Err("a block of the device has no content".to_owned());
        }
        for (position, entry) in self.entries.iter().enumerate() {
            let Some((sector, count)) = entry.range() else { continue };
            let inside = sector.checked_add(u64::from(count)).is_some_and(|end| end <= sectors);
            if !inside || count == 0 {
                return Err(format!("entry {position} is not within the device"));
            }
            if let LogEntry::Write(LoggedWrite { blocks, .. }) = entry {
                let expected = blocks_of(sector, count).count();
                if blocks.len() != expected || !blocks.iter().all(known) {
                    return Err(format!("entry {position} lacks data"));
                }
            }
        }
        let mut last = 0;
        for operation in &self.operations {
            let ordered = last <= operation.begin && operation.begin <= operation.end;
            if !ordered || operation.end > self.end() {
                return Err("the operations are not in order".to_owned());
            }
            last = operation.end;
        }
        Ok(())
    }
}

fn runs(base: &[BlockId]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (block, id) in (0..).zip(base) {
        let is_unwritten = *id == BlockId::unwritten(block);
        match runs.last_mut() {
            Some(Run::Unwritten(count)) if is_unwritten => *count += 1,
            Some(Run::Same(last, count)) if !is_unwritten && last == id => *count += 1,
            _ if is_unwritten => runs.push(Run::Unwritten(1)),
            _ => runs.push(Run::Same(*id, 1)),
        }
    }
    runs
}

fn expanded(runs: &[Run]) -> Result<Vec<BlockId>, String> {
    let mut base: Vec<BlockId> = Vec::new();
    for run in runs {
        let (Run::Unwritten(count) | Run::Same(_, count)) = run;
        let first = u32::try_from(base.len()).expect("checked below");
        let end = first.checked_add(*count).filter(|end| *end <= MOST_BLOCKS);
        let end = end.ok_or("the device is too large")?;
        match run {
            Run::Unwritten(_) => base.extend((first..end).map(BlockId::unwritten)),
            Run::Same(id, count) => base.extend(std::iter::repeat_n(*id, *count as usize)),
        }
    }
    Ok(base)
}

fn pool(contents: &[u8], count: u32) -> Result<BlockPool, String> {
    if contents.len() as u64 != u64::from(count) * BLOCK_BYTES as u64 {
        return Err("its data is not complete".to_owned());
    }
    let mut pool = BlockPool::default();
    for bytes in contents.chunks_exact(BLOCK_BYTES) {
        let block: &Block = bytes.try_into().expect("chunks of that size");
        let before = pool.len();
        pool.intern(block);
        if pool.len() == before {
            return Err("a content is stored twice".to_owned());
        }
    }
    Ok(pool)
}
