//! Possible disk states. States share the blocks in which they are equal.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const BLOCK: u64 = 4096;
pub(super) const BLOCK_BYTES: usize = 4096;
const ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];
pub(super) const SECTOR_BYTES: usize = 512;

/// A 4 KiB block of a file and its hash.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BlockData {
    pub(super) bytes: Box<[u8]>,
    hash: u64,
    is_zero: bool,
}

impl BlockData {
    pub(super) fn new(bytes: Vec<u8>) -> Arc<Self> {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let is_zero = bytes.iter().all(|byte| *byte == 0);
        Arc::new(Self { bytes: bytes.into(), hash: hasher.finish(), is_zero })
    }

    pub(super) fn zeros() -> Arc<Self> {
        Self::new(vec![0; BLOCK_BYTES])
    }
}

pub(super) type Blocks = BTreeMap<u64, Arc<BlockData>>;

/// The contribution of a block to the hash of its file; a block of zeros equals one that was never
/// written.
pub(super) fn hash_part(number: u64, block: &BlockData) -> u64 {
    if block.is_zero {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    (number, block.hash).hash(&mut hasher);
    hasher.finish()
}

/// A file or directory of a [`StateAfterCut`].
#[derive(Debug, Clone)]
pub enum StateEntry {
    Dir,
    File {
        /// In bytes.
        length: u64,
        /// Identifies the contents.
        hash: u64,
        /// The synced blocks, and those that differ.
        blocks: StateBlocks,
    },
}

/// The contents of a file in a [`StateAfterCut`].
#[derive(Debug, Clone)]
pub struct StateBlocks {
    pub(super) base: Arc<Blocks>,
    pub(super) changed: Blocks,
}

/// A possible disk state after a power cut: paths below the root and their entries.
#[derive(Debug, Clone)]
pub struct StateAfterCut {
    /// Everything below the root, parents first.
    pub entries: BTreeMap<PathBuf, StateEntry>,
}

impl StateBlocks {
    fn block(&self, number: u64) -> Option<&Arc<BlockData>> {
        self.changed.get(&number).or_else(|| self.base.get(&number))
    }
}

impl StateEntry {
    /// The contents of a file; `None` for a directory.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let Self::File { length, blocks, .. } = self else { return None };
        let mut bytes = vec![0; usize::try_from(*length).ok()?];
        for (number, block) in blocks.base.iter().chain(&blocks.changed) {
            let from = usize::try_from(number * BLOCK).ok()?;
            if from < bytes.len() {
                let part = BLOCK_BYTES.min(bytes.len() - from);
                bytes[from..from + part].copy_from_slice(&block.bytes[..part]);
            }
        }
        Some(bytes)
    }

    /// The places where a file differs from `earlier`, by whole blocks; the last one may reach
    /// beyond the end.
    pub fn differences<'a>(&'a self, earlier: &'a Self) -> Vec<(u64, &'a [u8])> {
        let (Self::File { blocks: now, .. }, Self::File { blocks: before, .. }) = (self, earlier)
        else {
            return Vec::new();
        };
        let mut numbers: BTreeSet<u64> =
            now.changed.keys().chain(before.changed.keys()).copied().collect();
        if !Arc::ptr_eq(&now.base, &before.base) {
            numbers.extend(now.base.keys().chain(before.base.keys()));
        }
        let differing = numbers.into_iter().filter_map(|number| {
            let (now, before) = (now.block(number), before.block(number));
            let is_same = match (now, before) {
                (Some(now), Some(before)) => Arc::ptr_eq(now, before) || now == before,
                (Some(block), None) | (None, Some(block)) => block.is_zero,
                (None, None) => true,
            };
            (!is_same).then(|| (number * BLOCK, now.map_or(&ZEROS[..], |block| &block.bytes)))
        });
        differing.collect()
    }

    /// The length of a file; 0 of a directory.
    pub fn length(&self) -> u64 {
        match self {
            Self::Dir => 0,
            Self::File { length, .. } => *length,
        }
    }

    pub fn hash(&self) -> u64 {
        match self {
            Self::Dir => 1,
            Self::File { hash, .. } => *hash,
        }
    }
}

impl StateAfterCut {
    pub fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (path, entry) in &self.entries {
            (path, entry.hash()).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The contents of the file at a path below the root.
    pub fn file(&self, path: &str) -> Option<Vec<u8>> {
        self.entries.get(Path::new(path)).and_then(StateEntry::bytes)
    }
}
