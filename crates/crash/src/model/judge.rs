//! Judges the names and contents found after a power cut.

use std::collections::BTreeMap;

use flashfit_filesystem::Promise;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::content::ContentFault;
use super::history::{Binding, History, Key};
use super::namespace::{DataChange, NodeKind, ROOT, SyncScope};
use crate::observe::{ObservedNode, ObservedTree};

/// What found a violation.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Oracle {
    /// The kernel does not mount it.
    Mount,
    /// It cannot be read.
    Read,
    /// The checking program finds damage after recovery.
    Fsck,
    /// The kernel logs an error.
    KernelLog,
    /// A new file cannot be written and synced.
    Writable,
    /// A synced name is missing or means another file.
    SyncedName,
    /// Synced data is missing.
    SyncedData,
    /// A file contains data that is not its own.
    ForeignData,
    /// After a rename over a file, neither the old nor the new one is there.
    Replace,
    /// A file replaced without a sync is neither the old nor the new one.
    ReplaceUnsynced,
    /// A file replaced without a sync has neither the old nor the new length.
    ReplaceEmpty,
    /// The names are not those of any one moment.
    NameOrder,
    /// A database is damaged.
    Database,
    /// A committed transaction is missing.
    Commit,
    /// The user's own check fails.
    Check,
}

impl Oracle {
    /// The promise that is broken.
    pub fn promise(self) -> Promise {
        match self {
            Self::Mount | Self::Read | Self::Fsck | Self::KernelLog | Self::Writable => {
                Promise::Consistent
            }
            Self::SyncedName | Self::SyncedData | Self::Database | Self::Commit | Self::Check => {
                Promise::Synced
            }
            Self::ForeignData => Promise::OwnData,
            Self::Replace => Promise::AtomicRename,
            Self::ReplaceUnsynced => Promise::ReplaceWithoutFsync,
            Self::ReplaceEmpty => Promise::ReplaceNotEmpty,
            Self::NameOrder => Promise::OrderedNames,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Mount => "mount",
            Self::Read => "read",
            Self::Fsck => "fsck",
            Self::KernelLog => "kernel-log",
            Self::Writable => "writable",
            Self::SyncedName => "synced-name",
            Self::SyncedData => "synced-data",
            Self::ForeignData => "foreign-data",
            Self::Replace => "replace",
            Self::ReplaceUnsynced => "replace-unsynced",
            Self::ReplaceEmpty => "replace-empty",
            Self::NameOrder => "name-order",
            Self::Database => "database",
            Self::Commit => "commit",
            Self::Check => "check",
        }
    }
}

/// What is wrong after a power cut.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Violation {
    pub oracle: Oracle,
    /// What was found and what was expected.
    pub detail: String,
}

impl Violation {
    pub fn new(oracle: Oracle, detail: impl Into<String>) -> Self {
        Self { oracle, detail: detail.into() }
    }
}

/// What was found, by directory node and name.
struct Found<'a> {
    entries: BTreeMap<Key, (&'a str, &'a ObservedNode)>,
    /// Where each directory is.
    dirs: BTreeMap<u32, &'a str>,
}

impl History {
    /// What is wrong with the tree that a power cut at `position` has left.
    pub fn judge(&self, position: u32, tree: &ObservedTree) -> Vec<Violation> {
        let (acknowledged, begun) = self.counts(position);
        let mut violations = Vec::new();
        let found = self.found(tree, acknowledged, begun, &mut violations);
        let mut present = vec![false; self.nodes.len()];
        for (key, events) in &self.bindings {
            let Some(dir) = found.dirs.get(&key.0) else { continue };
            let allowed = self.allowed(key, events, acknowledged, begun);
            match found.entries.get(key) {
                None => violations.extend(missing(dir, &key.1, &allowed)),
                Some((path, seen)) => {
                    let file = FoundFile { path, seen, acknowledged, begun };
                    violations.extend(self.judge_found(&file, &allowed, &mut present));
                }
            }
        }
        for (node, history) in (0..).zip(&self.nodes) {
            let is_absent = history.kind == NodeKind::File && !present[node as usize];
            if is_absent && self.must_exist(node, acknowledged, begun) {
                let detail = format!("{} was synced and has no name", self.names_of(node));
                violations.push(Violation::new(Oracle::SyncedName, detail));
            }
        }
        violations.extend(self.judge_order(&found, acknowledged, begun));
        violations
    }

    fn found<'a>(
        &self,
        tree: &'a ObservedTree,
        acknowledged: usize,
        begun: usize,
        violations: &mut Vec<Violation>,
    ) -> Found<'a> {
        let mut found = Found { entries: BTreeMap::new(), dirs: BTreeMap::from([(ROOT, "")]) };
        let mut by_path: BTreeMap<&str, u32> = BTreeMap::from([("", ROOT)]);
        for (path, seen) in &tree.nodes {
            let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
            let Some(dir) = by_path.get(dir).copied() else { continue };
            let key = (dir, name.to_owned());
            let Some(events) = self.bindings.get(&key) else {
                let detail = format!("{path} is there, and nobody created it");
                violations.push(Violation::new(Oracle::SyncedName, detail));
                continue;
            };
            if seen.kind == NodeKind::Dir {
                let allowed = self.allowed(&key, events, acknowledged, begun);
                let is_this = |node: &u32| self.nodes[*node as usize].inode == seen.inode;
                if let Some(node) = allowed.iter().filter_map(|b| b.node).find(is_this) {
                    by_path.insert(path, node);
                    found.dirs.insert(node, path);
                }
            }
            found.entries.insert(key, (path, seen));
        }
        found
    }

    /// What a name may mean: what it meant at its last sync, and everything since.
    fn allowed(
        &self,
        key: &Key,
        events: &[Binding],
        acknowledged: usize,
        begun: usize,
    ) -> Vec<Binding> {
        let sync = self.last_sync(acknowledged, |at, scope| match scope {
            SyncScope::Everything => true,
            SyncScope::Dir(dir) => dir == key.0,
            SyncScope::File(node) => {
                Self::binding(events, at).is_some_and(|binding| binding.node == Some(node))
            }
            SyncScope::Data(_) | SyncScope::Range(_) => false,
        });
        let nothing = Binding { at: 0, node: None, replaces: false };
        let base = sync.and_then(|sync| Self::binding(events, sync)).unwrap_or(nothing);
        let is_later =
            |binding: &&Binding| sync.is_none_or(|sync| binding.at > sync) && binding.at < begun;
        std::iter::once(base).chain(events.iter().filter(is_later).copied()).collect()
    }

    fn judge_found(
        &self,
        file: &FoundFile<'_>,
        allowed: &[Binding],
        present: &mut [bool],
    ) -> Vec<Violation> {
        let FoundFile { path, seen, .. } = file;
        let mut least: Option<Vec<Violation>> = None;
        for binding in allowed {
            let Some(node) = binding.node else { continue };
            let history = &self.nodes[node as usize];
            if history.inode != seen.inode || history.kind != seen.kind {
                continue;
            }
            present[node as usize] = true;
            if history.kind == NodeKind::Dir {
                return Vec::new();
            }
            let faults = self.judge_content(file, node, *binding);
            // An inode number can be used again, so the file may be any of several: the one that
            // explains most of what is seen.
            if least.as_ref().is_none_or(|least| weight(least) > weight(&faults)) {
                least = Some(faults);
            }
        }
        least.unwrap_or_else(|| {
            let detail = format!("{path} is none of the files that it may be");
            vec![Violation::new(Oracle::SyncedName, detail)]
        })
    }

    fn judge_content(&self, file: &FoundFile<'_>, node: u32, binding: Binding) -> Vec<Violation> {
        let FoundFile { path, seen, acknowledged, begun } = *file;
        if let Some(error) = &seen.error {
            return vec![Violation::new(Oracle::Read, format!("{path}: {error}"))];
        }
        let sync = self.data_sync(node, acknowledged);
        if let Some(fault) = self.content_fault(node, seen, sync, acknowledged, begun) {
            let (oracle, what) = match fault {
                ContentFault::Lost(what) | ContentFault::Length(what) => (Oracle::SyncedData, what),
                ContentFault::Foreign(what) => (Oracle::ForeignData, what),
            };
            return vec![Violation::new(oracle, format!("{path}: {what}"))];
        }
        if !binding.replaces || sync.is_some_and(|sync| sync >= binding.at) {
            return Vec::new();
        }
        let fault = self.content_fault(node, seen, Some(binding.at), acknowledged, begun);
        let (oracles, what): (&[Oracle], _) = match fault {
            None => return Vec::new(),
            Some(ContentFault::Length(what)) if !self.is_preallocated(node, binding.at) => {
                (&[Oracle::ReplaceUnsynced, Oracle::ReplaceEmpty], what)
            }
            Some(
                ContentFault::Length(what) | ContentFault::Lost(what) | ContentFault::Foreign(what),
            ) => (&[Oracle::ReplaceUnsynced], what),
        };
        let detail = format!("{path}, neither the old nor the new file: {what}");
        oracles.iter().map(|oracle| Violation::new(*oracle, detail.clone())).collect()
    }

    /// Whether fallocate was called on a file until the operation `at`. No file system promises its
    /// length after a replacement then ([`flashfit_filesystem::Promise::ReplaceNotEmpty`]).
    fn is_preallocated(&self, node: u32, at: usize) -> bool {
        let is_extend = |(when, change): &(usize, DataChange)| {
            *when <= at && matches!(change, DataChange::Extend(_))
        };
        self.nodes[node as usize].data.iter().any(is_extend)
    }

    /// The names must be those after one of the operations since the last sync of everything.
    fn judge_order(
        &self,
        found: &Found<'_>,
        acknowledged: usize,
        begun: usize,
    ) -> Option<Violation> {
        let sync = self.last_sync(acknowledged, |_, scope| scope == SyncScope::Everything);
        let differs = |key: &Key, node: Option<u32>| {
            let inode = node.map(|node| self.nodes[node as usize].inode);
            found.entries.get(key).map(|(_, seen)| seen.inode) != inode
        };
        let is_wrong = |key: &Key, events: &[Binding], at: Option<usize>| {
            let binding = at.and_then(|at| Self::binding(events, at));
            usize::from(differs(key, binding.and_then(|binding| binding.node)))
        };
        let mut wrong: usize =
            self.bindings.iter().map(|(key, events)| is_wrong(key, events, sync)).sum();
        let mut least = (wrong, sync);
        for at in sync.map_or(0, |sync| sync + 1)..begun {
            if wrong == 0 {
                break;
            }
            for (key, events) in &self.bindings {
                if events.iter().any(|binding| binding.at == at) {
                    wrong -= is_wrong(key, events, at.checked_sub(1));
                    wrong += is_wrong(key, events, Some(at));
                }
            }
            least = least.min((wrong, Some(at)));
        }
        if wrong == 0 {
            return None;
        }
        let (count, at) = least;
        let moment = at.map_or("at the start".to_owned(), |at| format!("after operation {at}"));
        let first = self.bindings.iter().find(|(key, events)| is_wrong(key, events, at) == 1);
        let name = first.map_or("", |((_, name), _)| name.as_str());
        Some(Violation::new(
            Oracle::NameOrder,
            format!("the names are of no one moment; nearest {moment}, but for {count}: {name}"),
        ))
    }

    /// The names that a node ever had.
    fn names_of(&self, node: u32) -> String {
        let has = |events: &[Binding]| events.iter().any(|binding| binding.node == Some(node));
        let names = self.bindings.iter().filter(|(_, events)| has(events));
        names.map(|((_, name), _)| name.as_str()).collect::<Vec<_>>().join(" or ")
    }
}

#[derive(Clone, Copy)]
struct FoundFile<'a> {
    path: &'a str,
    seen: &'a ObservedNode,
    acknowledged: usize,
    begun: usize,
}

/// How much is wrong: first what was synced, then the rest.
fn weight(faults: &[Violation]) -> (usize, usize) {
    let is_synced = |fault: &&Violation| {
        !matches!(fault.oracle, Oracle::ReplaceUnsynced | Oracle::ReplaceEmpty)
    };
    (faults.iter().filter(is_synced).count(), faults.len())
}

/// A name that is not there.
fn missing(dir: &str, name: &str, allowed: &[Binding]) -> Option<Violation> {
    if allowed.iter().any(|binding| binding.node.is_none()) {
        return None;
    }
    let path = if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
    Some(match allowed.len() {
        1 => Violation::new(Oracle::SyncedName, format!("{path} was synced and is missing")),
        _ => Violation::new(Oracle::Replace, format!("{path}: neither the old nor the new file")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{SectorContent, SectorTag};
    use crate::workload::{LoggedOperation, Operation};

    fn done(operation: Operation, number: u32, inode: Option<u64>) -> LoggedOperation {
        let (begin, end) = (number * 10, number * 10 + 10);
        LoggedOperation { operation, number, begin, end, inode, error: None }
    }

    fn write(path: &str, sectors: u32) -> Operation {
        Operation::Write { path: path.to_owned(), sector: 0, sectors, synchronous: false }
    }

    fn create(path: &str) -> Operation {
        Operation::Create { path: path.to_owned() }
    }

    fn rename(from: &str, to: &str) -> Operation {
        Operation::Rename { from: from.to_owned(), to: to.to_owned() }
    }

    fn file(inode: u64, content: Vec<SectorContent>) -> ObservedNode {
        let size_bytes = content.len() as u64 * 512;
        ObservedNode { kind: NodeKind::File, inode, size_bytes, content, error: None }
    }

    fn data(file: u32, version: u32, sectors: u32) -> Vec<SectorContent> {
        let tag = |sector| SectorContent::Data(SectorTag { file, version, sector });
        (0..sectors).map(tag).collect()
    }

    fn oracles(history: &History, position: u32, node: ObservedNode) -> Vec<Oracle> {
        let tree = ObservedTree { nodes: BTreeMap::from([("f".to_owned(), node)]) };
        history.judge(position, &tree).into_iter().map(|violation| violation.oracle).collect()
    }

    /// `f` is synced, then replaced twice; the second draft gets the inode number of the first `f`.
    #[test]
    fn a_file_with_an_inode_number_used_again_is_not_taken_for_the_old_one() {
        let operations = [
            done(create("f"), 0, Some(13)),
            done(write("f", 3), 1, None),
            done(Operation::SyncAll, 2, None),
            done(create("t"), 3, Some(14)),
            done(rename("t", "f"), 4, None),
            done(create("t"), 5, Some(13)),
            done(write("t", 1), 6, None),
            done(rename("t", "f"), 7, None),
        ];
        let history = History::new(&operations);
        assert_eq!(oracles(&history, 80, file(13, data(3, 6, 1))), []);
        let zeros = file(13, vec![SectorContent::Zero]);
        assert_eq!(oracles(&history, 80, zeros), [Oracle::ReplaceUnsynced]);
        assert_eq!(oracles(&history, 80, file(13, data(1, 1, 3))), []);
        assert_eq!(oracles(&history, 40, file(13, data(1, 1, 2))), [Oracle::SyncedData]);
    }

    /// ext4 writes no preallocated replacement back (`scripts/reproduce-ext4-fallocate.py`).
    #[test]
    fn the_length_of_a_replacement_is_promised_unless_it_was_preallocated() {
        let allocate = Operation::Allocate { path: "t".to_owned(), sector: 0, sectors: 2 };
        let with = |third: Operation| {
            History::new(&[
                done(create("f"), 0, Some(13)),
                done(create("t"), 1, Some(14)),
                done(write("t", 3), 2, None),
                done(third, 3, None),
                done(rename("t", "f"), 4, None),
            ])
        };
        let short = file(14, vec![SectorContent::Zero; 2]);
        let plain = with(Operation::StartWriteback { path: "t".to_owned() });
        let both = [Oracle::ReplaceUnsynced, Oracle::ReplaceEmpty];
        assert_eq!(oracles(&plain, 50, short.clone()), both);
        assert_eq!(oracles(&with(allocate), 50, short), [Oracle::ReplaceUnsynced]);
    }

    #[test]
    fn what_was_synced_must_be_there() {
        let operations = [
            done(create("f"), 0, Some(13)),
            done(write("f", 2), 1, None),
            done(Operation::Fsync { path: "f".to_owned() }, 2, None),
            done(write("f", 1), 3, None),
        ];
        let history = History::new(&operations);
        let missing: Vec<Oracle> = history
            .judge(30, &ObservedTree::default())
            .into_iter()
            .map(|violation| violation.oracle)
            .collect();
        assert!(missing.contains(&Oracle::SyncedName), "{missing:?}");
        assert!(history.judge(20, &ObservedTree::default()).is_empty());
        assert_eq!(oracles(&history, 30, file(13, data(1, 1, 2))), []);
        let mixed = [data(1, 3, 1), data(1, 1, 2)[1..].to_vec()].concat();
        assert_eq!(oracles(&history, 31, file(13, mixed.clone())), []);
        // The later write had not begun.
        assert_eq!(oracles(&history, 30, file(13, mixed)), [Oracle::SyncedData]);
        let zeros = vec![SectorContent::Zero; 2];
        assert_eq!(oracles(&history, 40, file(13, zeros)), [Oracle::SyncedData]);
        let foreign = [data(7, 1, 1), data(1, 1, 2)[1..].to_vec()].concat();
        assert_eq!(oracles(&history, 40, file(13, foreign)), [Oracle::ForeignData]);
    }
}
