//! The modeled disk: files of blocks, and directories, each with its synced state and the changes
//! since the last sync.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::DiskOp;
use super::state::{
    BLOCK, BLOCK_BYTES, BlockData, Blocks, SECTOR_BYTES, StateAfterCut, StateBlocks, StateEntry,
    hash_part,
};

#[derive(Debug, Default)]
pub(super) struct FileNode {
    base: Arc<Blocks>,
    base_hash: u64,
    base_length: u64,
    /// The lengths since the last sync.
    pub(super) lengths: Vec<u64>,
    /// The versions of each block since the last sync, each with the page cache it went through.
    pub(super) versions: BTreeMap<u64, Vec<(u8, Arc<BlockData>)>>,
}

impl FileNode {
    fn length(&self) -> u64 {
        self.lengths.last().copied().unwrap_or(self.base_length)
    }

    fn block(&self, number: u64) -> Arc<BlockData> {
        let latest = self.versions.get(&number).and_then(|versions| versions.last());
        let base = || self.base.get(&number).cloned().unwrap_or_else(BlockData::zeros);
        latest.map_or_else(base, |(_, block)| Arc::clone(block))
    }

    fn write(&mut self, cache: u8, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        let mut at = offset;
        while at < end {
            let number = at / BLOCK;
            let upto = end.min((number + 1) * BLOCK);
            let mut bytes = self.block(number).bytes.to_vec();
            let (from, length) = ((at % BLOCK) as usize, (upto - at) as usize);
            let source = (at - offset) as usize;
            bytes[from..from + length].copy_from_slice(&data[source..source + length]);
            self.versions.entry(number).or_default().push((cache, BlockData::new(bytes)));
            if upto > self.length() {
                self.lengths.push(upto);
            }
            at = upto;
        }
    }

    /// Truncated data reads as zeros if the file grows again.
    fn set_length(&mut self, length: u64) {
        if length == self.length() {
            return;
        }
        let before = self.length();
        for number in length / BLOCK..before.div_ceil(BLOCK) {
            let keep = (length.max(number * BLOCK) - number * BLOCK) as usize;
            let mut bytes = self.block(number).bytes.to_vec();
            bytes[keep.min(BLOCK_BYTES)..].fill(0);
            self.versions.entry(number).or_default().push((0, BlockData::new(bytes)));
        }
        self.lengths.push(length);
    }

    fn sync(&mut self, cache: u8) {
        let base = Arc::make_mut(&mut self.base);
        for (number, versions) in &mut self.versions {
            let Some(last) = versions.iter().rposition(|(through, _)| *through == cache) else {
                continue;
            };
            let Some((_, block)) = versions.drain(..=last).next_back() else { continue };
            if let Some(old) = base.get(number) {
                self.base_hash ^= hash_part(*number, old);
            }
            self.base_hash ^= hash_part(*number, &block);
            base.insert(*number, block);
        }
        self.versions.retain(|_, versions| !versions.is_empty());
        self.base_length = self.length();
        self.lengths.clear();
    }
}

/// Directory changes that happen atomically: names and the nodes they refer to.
type EntryChange = Vec<(String, Option<usize>)>;

#[derive(Debug, Default)]
pub(super) struct DirNode {
    base: BTreeMap<String, usize>,
    pub(super) changes: Vec<EntryChange>,
}

impl DirNode {
    fn entries(&self, changes: usize) -> BTreeMap<String, usize> {
        let mut entries = self.base.clone();
        for (name, node) in self.changes.iter().take(changes).flatten() {
            match node {
                Some(node) => entries.insert(name.clone(), *node),
                None => entries.remove(name),
            };
        }
        entries
    }

    fn sync(&mut self) {
        self.base = self.entries(usize::MAX);
        self.changes.clear();
    }
}

#[derive(Debug)]
pub(super) enum DiskNode {
    File(FileNode),
    Dir(DirNode),
}

/// A directory tree with its synced state and the changes since.
#[derive(Debug)]
pub struct CrashDisk {
    root: PathBuf,
    pub(super) nodes: Vec<DiskNode>,
}

/// Which changes of a file since its last sync reach the disk.
#[derive(Debug, Clone, Default)]
pub(super) struct FileChoice {
    /// How many length changes happen, and how many bytes of the next one.
    pub(super) lengths: usize,
    pub(super) more_bytes: u64,
    /// For each changed block, how many changes happen, and the sectors that miss the last one.
    pub(super) blocks: BTreeMap<u64, (usize, u8)>,
}

/// Which changes reach the disk, by node number.
#[derive(Debug, Clone, Default)]
pub(super) struct Choice {
    pub(super) files: BTreeMap<usize, FileChoice>,
    pub(super) dirs: BTreeMap<usize, usize>,
}

impl CrashDisk {
    /// Reads everything below `root` except `ignored`, as synced.
    pub fn read(root: &Path, ignored: &[PathBuf]) -> io::Result<Self> {
        Self::read_as(root, root, ignored)
    }

    /// Reads a copy in place of `root`.
    pub fn read_as(copy: &Path, root: &Path, ignored: &[PathBuf]) -> io::Result<Self> {
        let mut disk = Self { root: root.to_owned(), nodes: Vec::new() };
        disk.read_dir(copy, ignored)?;
        Ok(disk)
    }

    fn read_dir(&mut self, folder: &Path, ignored: &[PathBuf]) -> io::Result<usize> {
        let own = self.nodes.len();
        self.nodes.push(DiskNode::Dir(DirNode::default()));
        let mut base = BTreeMap::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if ignored.contains(&entry.path()) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let node = if entry.file_type()?.is_dir() {
                self.read_dir(&entry.path(), ignored)?
            } else {
                let mut file = FileNode::default();
                file.write(0, 0, &std::fs::read(entry.path())?);
                file.sync(0);
                self.nodes.push(DiskNode::File(file));
                self.nodes.len() - 1
            };
            base.insert(name, node);
        }
        self.nodes[own] = DiskNode::Dir(DirNode { base, changes: Vec::new() });
        Ok(own)
    }

    /// Applies an operation as a program observes it.
    pub fn apply(&mut self, op: &DiskOp) -> Result<(), String> {
        self.try_apply(op).ok_or_else(|| format!("missing file or directory: {}", short(op)))
    }

    fn try_apply(&mut self, op: &DiskOp) -> Option<()> {
        match op {
            DiskOp::MakeDir(path) => {
                self.enter(path, DiskNode::Dir(DirNode::default()))?;
            }
            DiskOp::Open { path, truncates } => match self.find(path) {
                Some(_) if *truncates => self.file(path)?.set_length(0),
                Some(_) => {}
                None => self.enter(path, DiskNode::File(FileNode::default()))?,
            },
            DiskOp::Write { path, cache, offset, data } => {
                let file = self.file(path)?;
                let offset = offset.unwrap_or(file.length());
                file.write(*cache, offset, data);
            }
            DiskOp::SetLength(path, length) => self.file(path)?.set_length(*length),
            DiskOp::Rename(from, to) => {
                let node = self.find(from)?;
                let change = vec![(name(from)?, None), (name(to)?, Some(node))];
                self.dir(from.parent()?)?.changes.push(change);
            }
            DiskOp::Remove(path) => {
                self.find(path)?;
                self.dir(path.parent()?)?.changes.push(vec![(name(path)?, None)]);
            }
            DiskOp::Sync { path, cache } => {
                let node = self.find(path)?;
                match &mut self.nodes[node] {
                    DiskNode::File(file) => file.sync(*cache),
                    DiskNode::Dir(dir) => dir.sync(),
                }
            }
        }
        Some(())
    }

    fn find(&self, path: &Path) -> Option<usize> {
        let mut node = 0;
        for part in path.strip_prefix(&self.root).ok()? {
            let DiskNode::Dir(dir) = &self.nodes[node] else { return None };
            node = *dir.entries(usize::MAX).get(part.to_str()?)?;
        }
        Some(node)
    }

    fn file(&mut self, path: &Path) -> Option<&mut FileNode> {
        let node = self.find(path)?;
        match &mut self.nodes[node] {
            DiskNode::File(file) => Some(file),
            DiskNode::Dir(_) => None,
        }
    }

    fn dir(&mut self, path: &Path) -> Option<&mut DirNode> {
        let node = self.find(path)?;
        match &mut self.nodes[node] {
            DiskNode::Dir(dir) => Some(dir),
            DiskNode::File(_) => None,
        }
    }

    fn enter(&mut self, path: &Path, node: DiskNode) -> Option<()> {
        let number = self.nodes.len();
        self.dir(path.parent()?)?.changes.push(vec![(name(path)?, Some(number))]);
        self.nodes.push(node);
        Some(())
    }

    /// The state without a power cut.
    pub fn whole(&self) -> StateAfterCut {
        self.state(&self.everything())
    }

    pub(super) fn state(&self, choice: &Choice) -> StateAfterCut {
        let mut state = StateAfterCut { entries: BTreeMap::new() };
        self.collect(0, Path::new(""), choice, &mut state);
        state
    }

    fn collect(&self, node: usize, path: &Path, choice: &Choice, state: &mut StateAfterCut) {
        let DiskNode::Dir(dir) = &self.nodes[node] else { return };
        let changes = choice.dirs.get(&node).copied().unwrap_or(0);
        for (name, node) in dir.entries(changes) {
            let path = path.join(name);
            match &self.nodes[node] {
                DiskNode::Dir(_) => {
                    state.entries.insert(path.clone(), StateEntry::Dir);
                    self.collect(node, &path, choice, state);
                }
                DiskNode::File(file) => {
                    let chosen = choice.files.get(&node).cloned().unwrap_or_default();
                    state.entries.insert(path, file_state(file, &chosen));
                }
            }
        }
    }
}

impl StateEntry {
    /// A file with these contents.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let mut file = FileNode::default();
        file.write(0, 0, bytes);
        file.sync(0);
        file_state(&file, &FileChoice::default())
    }
}

fn file_state(file: &FileNode, choice: &FileChoice) -> StateEntry {
    let at = |count: usize| match count {
        0 => Some(file.base_length),
        count => file.lengths.get(count - 1).copied(),
    };
    let length = at(choice.lengths).unwrap_or(file.length());
    let most = at(choice.lengths + 1).unwrap_or(length).saturating_sub(length);
    let length = length + choice.more_bytes % (most + 1);
    let (mut changed, mut hash) = (Blocks::new(), file.base_hash);
    for (number, (count, torn)) in &choice.blocks {
        let (Some(versions), true) = (file.versions.get(number), *count > 0) else { continue };
        if number * BLOCK >= length {
            continue;
        }
        let old = file.base.get(number);
        let version = |count: usize| match count {
            0 => old.cloned().unwrap_or_else(BlockData::zeros),
            count => Arc::clone(&versions[count - 1].1),
        };
        let mut block = version(*count);
        let visible = usize::try_from(length - number * BLOCK).unwrap_or(BLOCK_BYTES);
        if *torn != 0 || visible < BLOCK_BYTES {
            let mut bytes = block.bytes.to_vec();
            let before = version(count - 1);
            for sector in (0..8).filter(|sector| torn >> sector & 1 == 1) {
                let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
                bytes[range.clone()].copy_from_slice(&before.bytes[range]);
            }
            bytes[visible.min(BLOCK_BYTES)..].fill(0);
            block = BlockData::new(bytes);
        }
        if let Some(old) = old {
            hash ^= hash_part(*number, old);
        }
        hash ^= hash_part(*number, &block);
        changed.insert(*number, block);
    }
    let mut hasher = DefaultHasher::new();
    (hash, length).hash(&mut hasher);
    let blocks = StateBlocks { base: Arc::clone(&file.base), changed };
    StateEntry::File { length, hash: hasher.finish(), blocks }
}

fn name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}

fn short(op: &DiskOp) -> String {
    match op {
        DiskOp::Write { path, offset, data, .. } => {
            format!("a write of {} bytes at {offset:?} of {}", data.len(), path.display())
        }
        other => format!("{other:?}"),
    }
}
