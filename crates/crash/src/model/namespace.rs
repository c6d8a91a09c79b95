//! The names of a file system, and what each operation changes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::workload::{LoggedOperation, Operation};

pub const ROOT: u32 = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeKind {
    File,
    Dir,
}

/// What a sync covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncScope {
    Everything,
    /// Data and names of a file.
    File(u32),
    /// Data and size of a file.
    Data(u32),
    /// The sectors and the size of a write with `O_SYNC`, which is the same operation.
    Range(u32),
    /// The names in a directory.
    Dir(u32),
}

/// A change of a file's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataChange {
    Write {
        sector: u32,
        sectors: u32,
        version: u32,
    },
    Size(u32),
    /// Makes the file at least this long.
    Extend(u32),
}

/// What an operation changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelChange {
    /// A new node, with its inode number.
    Node {
        node: u32,
        kind: NodeKind,
        inode: u64,
    },
    /// A name in a directory now means this node, or nothing. `replaces` another node by rename.
    Bind {
        dir: u32,
        name: String,
        node: Option<u32>,
        replaces: bool,
    },
    Data {
        node: u32,
        change: DataChange,
    },
    Sync(SyncScope),
}

/// The names at one moment.
#[derive(Debug, Clone)]
pub struct Namespace {
    kinds: Vec<NodeKind>,
    entries: BTreeMap<(u32, String), u32>,
}

impl Default for Namespace {
    fn default() -> Self {
        Self { kinds: vec![NodeKind::Dir], entries: BTreeMap::new() }
    }
}

impl Namespace {
    pub fn node_at(&self, path: &str) -> Option<u32> {
        path.split('/')
            .filter(|name| !name.is_empty())
            .try_fold(ROOT, |dir, name| self.entries.get(&(dir, name.to_owned())).copied())
    }

    /// Applies an operation that has returned. One that failed changes nothing.
    pub fn apply(&mut self, done: &LoggedOperation) -> Vec<ModelChange> {
        if done.error.is_some() {
            return Vec::new();
        }
        self.changes(done).unwrap_or_default()
    }

    fn changes(&mut self, done: &LoggedOperation) -> Option<Vec<ModelChange>> {
        let data = |node, change| ModelChange::Data { node, change };
        Some(match &done.operation {
            Operation::MakeDir { path } => self.create(path, NodeKind::Dir, done.inode?)?,
            Operation::Create { path } => self.create(path, NodeKind::File, done.inode?)?,
            Operation::RemoveDir { path } | Operation::Unlink { path } => {
                let (dir, name) = self.place(path)?;
                vec![self.bind(dir, name, None, false)]
            }
            Operation::Rename { from, to } => {
                let node = self.node_at(from)?;
                let (old, new) = (self.place(from)?, self.place(to)?);
                if self.node_at(to) == Some(node) {
                    return Some(Vec::new());
                }
                let replaces = self.entries.contains_key(&new);
                vec![
                    self.bind(new.0, new.1, Some(node), replaces),
                    self.bind(old.0, old.1, None, false),
                ]
            }
            Operation::Link { from, to } => {
                let node = self.node_at(from)?;
                let (dir, name) = self.place(to)?;
                vec![self.bind(dir, name, Some(node), false)]
            }
            Operation::Write { path, sector, sectors, synchronous } => {
                let node = self.node_at(path)?;
                let (sector, sectors, version) = (*sector, *sectors, done.number);
                let mut changes = vec![data(node, DataChange::Write { sector, sectors, version })];
                if *synchronous {
                    changes.push(ModelChange::Sync(SyncScope::Range(node)));
                }
                changes
            }
            Operation::Truncate { path, sectors } => {
                vec![data(self.node_at(path)?, DataChange::Size(*sectors))]
            }
            Operation::Allocate { path, sector, sectors } => {
                vec![data(self.node_at(path)?, DataChange::Extend(sector + sectors))]
            }
            Operation::StartWriteback { .. } | Operation::Acknowledge { .. } => Vec::new(),
            Operation::Fsync { path } => {
                vec![ModelChange::Sync(SyncScope::File(self.node_at(path)?))]
            }
            Operation::Fdatasync { path } => {
                vec![ModelChange::Sync(SyncScope::Data(self.node_at(path)?))]
            }
            Operation::FsyncDir { path } => {
                vec![ModelChange::Sync(SyncScope::Dir(self.node_at(path)?))]
            }
            Operation::SyncAll => vec![ModelChange::Sync(SyncScope::Everything)],
        })
    }

    fn create(&mut self, path: &str, kind: NodeKind, inode: u64) -> Option<Vec<ModelChange>> {
        let (dir, name) = self.place(path)?;
        let node = u32::try_from(self.kinds.len()).ok()?;
        self.kinds.push(kind);
        Some(vec![ModelChange::Node { node, kind, inode }, self.bind(dir, name, Some(node), false)])
    }

    fn bind(&mut self, dir: u32, name: String, node: Option<u32>, replaces: bool) -> ModelChange {
        match node {
            Some(node) => self.entries.insert((dir, name.clone()), node),
            None => self.entries.remove(&(dir, name.clone())),
        };
        ModelChange::Bind { dir, name, node, replaces }
    }

    /// The directory and the name in it.
    fn place(&self, path: &str) -> Option<(u32, String)> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        Some((self.node_at(dir)?, name.to_owned()))
    }
}
