//! What happened to every name and every file, in the order of the operations.

use std::collections::BTreeMap;

use super::namespace::{DataChange, ModelChange, Namespace, NodeKind, SyncScope};
use crate::workload::LoggedOperation;

/// A name in a directory: the directory's node and the name.
pub(super) type Key = (u32, String);

/// A name's new meaning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Binding {
    /// Index of the operation.
    pub(super) at: usize,
    pub(super) node: Option<u32>,
    /// Whether a rename replaced another node.
    pub(super) replaces: bool,
}

/// A file or directory.
#[derive(Debug, Clone)]
pub(super) struct NodeHistory {
    pub(super) kind: NodeKind,
    pub(super) inode: u64,
    pub(super) data: Vec<(usize, DataChange)>,
    /// How the number of its names changes.
    pub(super) links: Vec<(usize, i32)>,
}

/// The history of a workload.
#[derive(Debug, Clone)]
pub struct History {
    pub(super) bindings: BTreeMap<Key, Vec<Binding>>,
    pub(super) nodes: Vec<NodeHistory>,
    pub(super) syncs: Vec<(usize, SyncScope)>,
    /// Begin and end of each operation, as positions.
    spans: Vec<(u32, u32)>,
    pub(super) renumbers_inodes: bool,
}

/// How many operations had returned at a power cut, and how many had begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) acknowledged: usize,
    pub(super) begun: usize,
}

impl History {
    pub fn new(operations: &[LoggedOperation]) -> Self {
        let root = NodeHistory { kind: NodeKind::Dir, inode: 0, data: vec![], links: vec![(0, 1)] };
        let mut history = Self {
            bindings: BTreeMap::new(),
            nodes: vec![root],
            syncs: Vec::new(),
            spans: operations.iter().map(|done| (done.begin, done.end)).collect(),
            renumbers_inodes: false,
        };
        let mut namespace = Namespace::default();
        for (at, done) in operations.iter().enumerate() {
            for change in namespace.apply(done) {
                history.record(at, change);
            }
        }
        history
    }

    /// Judges files by their content, if `renumbers`: the file system gives its inodes other
    /// numbers at every mount.
    #[must_use]
    pub fn with_renumbered_inodes(mut self, renumbers: bool) -> Self {
        self.renumbers_inodes = renumbers;
        self
    }

    fn record(&mut self, at: usize, change: ModelChange) {
        match change {
            ModelChange::Node { kind, inode, .. } => {
                self.nodes.push(NodeHistory { kind, inode, data: Vec::new(), links: Vec::new() });
            }
            ModelChange::Bind { dir, name, node, replaces } => {
                let events = self.bindings.entry((dir, name)).or_default();
                let before = events.last().and_then(|binding| binding.node);
                events.push(Binding { at, node, replaces });
                for (node, step) in [(node, 1), (before, -1)] {
                    if let Some(node) = node {
                        self.nodes[node as usize].links.push((at, step));
                    }
                }
            }
            ModelChange::Data { node, change } => self.nodes[node as usize].data.push((at, change)),
            ModelChange::Sync(scope) => self.syncs.push((at, scope)),
        }
    }

    pub(super) fn moment(&self, position: u32) -> Moment {
        let acknowledged = self.spans.partition_point(|(_, end)| *end <= position);
        let begun = self.spans.partition_point(|(begin, _)| *begin < position);
        Moment { acknowledged, begun: begun.max(acknowledged) }
    }

    /// The names that a directory ever had, and what they meant.
    pub(super) fn bindings_in(&self, dir: u32) -> impl Iterator<Item = (&str, &[Binding])> {
        let from = self.bindings.range((dir, String::new())..);
        let of_dir = from.take_while(move |((other, _), _)| *other == dir);
        of_dir.map(|((_, name), events)| (name.as_str(), events.as_slice()))
    }

    /// The last of the first `acknowledged` operations that is a sync of this kind.
    pub(super) fn last_sync(
        &self,
        acknowledged: usize,
        covers: impl Fn(usize, SyncScope) -> bool,
    ) -> Option<usize> {
        let mut syncs = self.syncs.iter().rev().skip_while(|(at, _)| *at >= acknowledged);
        syncs.find(|(at, scope)| covers(*at, *scope)).map(|(at, _)| *at)
    }

    /// What a name meant after the operation `at`.
    pub(super) fn binding(events: &[Binding], at: usize) -> Option<Binding> {
        events.iter().rev().find(|binding| binding.at <= at).copied()
    }

    /// The last acknowledged sync of the data of a node.
    pub(super) fn data_sync(&self, node: u32, acknowledged: usize) -> Option<usize> {
        self.last_sync(acknowledged, |_, scope| match scope {
            SyncScope::Everything => true,
            SyncScope::File(other) | SyncScope::Data(other) => other == node,
            SyncScope::Range(_) | SyncScope::Dir(_) => false,
        })
    }

    /// The acknowledged operations that wrote to a node with `O_SYNC`.
    pub(super) fn synced_writes(&self, node: u32, acknowledged: usize) -> Vec<usize> {
        let of_node = |(at, scope): &&(usize, SyncScope)| {
            *at < acknowledged && *scope == SyncScope::Range(node)
        };
        self.syncs.iter().filter(of_node).map(|(at, _)| *at).collect()
    }

    /// Whether a node that was synced with its names must still be there: it had a name at every
    /// moment since.
    pub(super) fn must_exist(&self, node: u32, acknowledged: usize, begun: usize) -> bool {
        let sync = self.last_sync(acknowledged, |_, scope| match scope {
            SyncScope::Everything => true,
            SyncScope::File(other) => other == node,
            SyncScope::Data(_) | SyncScope::Range(_) | SyncScope::Dir(_) => false,
        });
        let Some(sync) = sync else { return false };
        let links = &self.nodes[node as usize].links;
        let mut count: i32 =
            links.iter().take_while(|(at, _)| *at <= sync).map(|(_, step)| step).sum();
        if count <= 0 {
            return false;
        }
        let mut later = links.iter().filter(|(at, _)| *at > sync && *at < begun).peekable();
        while let Some((at, step)) = later.next() {
            count += step;
            // A rename removes one name and adds another in one operation.
            let is_last = later.peek().is_none_or(|(next, _)| next != at);
            if is_last && count <= 0 {
                return false;
            }
        }
        true
    }
}
