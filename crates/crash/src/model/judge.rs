//! Judges the names and contents found after a power cut.

use std::cmp::Ordering;

use flashfit_filesystem::Promise;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::content::ContentFault;
use super::found::joined;
use super::history::{Binding, History, Moment};
use super::namespace::{DataChange, NodeKind};
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

impl History {
    /// What is wrong with the tree that a power cut at `position` has left.
    pub fn judge(&self, position: u32, tree: &ObservedTree) -> Vec<Violation> {
        let moment = self.moment(position);
        let mut violations = Vec::new();
        let found = self.found(tree, moment, &mut violations);
        let mut present = vec![false; self.nodes.len()];
        for (dir, nodes) in &found.dirs {
            for name in self.names_in(nodes) {
                let path = joined(dir, name);
                match found.entries.get(path.as_str()) {
                    Some(entry) => {
                        let file = FoundFile { path: &path, seen: entry.seen, moment };
                        violations.extend(self.judge_found(&file, &entry.allowed, &mut present));
                    }
                    // A directory can be at several places where its inode number changes.
                    None if found.is_elsewhere(dir, nodes, name) => {}
                    None => {
                        let allowed = self.allowed(nodes, name, moment);
                        violations.extend(missing(&path, &allowed));
                    }
                }
            }
        }
        for (node, history) in (0..).zip(&self.nodes) {
            let is_absent = history.kind == NodeKind::File && !present[node as usize];
            if is_absent && self.must_exist(node, moment.acknowledged, moment.begun) {
                let detail = format!("{} was synced and has no name", self.names_of(node));
                violations.push(Violation::new(Oracle::SyncedName, detail));
            }
        }
        violations.extend(self.judge_order(&found, moment));
        violations
    }

    fn judge_found(
        &self,
        file: &FoundFile<'_>,
        allowed: &[Binding],
        present: &mut [bool],
    ) -> Vec<Violation> {
        // The same file can be allowed twice, and where inode numbers are used again or change, the
        // file may be any of several: the one that explains most of what is seen.
        let mut least: Option<Vec<Violation>> = None;
        let mut nodes = Vec::new();
        for binding in allowed {
            let Some(node) = binding.node.filter(|node| self.may_be(*node, file.seen)) else {
                continue;
            };
            if file.seen.kind == NodeKind::Dir {
                return Vec::new();
            }
            let faults = self.judge_content(file, node, *binding);
            match least.as_ref().map(|least| weight(&faults).cmp(&weight(least))) {
                Some(Ordering::Greater) => continue,
                Some(Ordering::Equal) => {}
                Some(Ordering::Less) | None => {
                    nodes.clear();
                    least = Some(faults);
                }
            }
            nodes.push(node);
        }
        for node in nodes {
            present[node as usize] = true;
        }
        least.unwrap_or_else(|| {
            let detail = format!("{} is none of the files that it may be", file.path);
            vec![Violation::new(Oracle::SyncedName, detail)]
        })
    }

    fn judge_content(&self, file: &FoundFile<'_>, node: u32, binding: Binding) -> Vec<Violation> {
        let FoundFile { path, seen, moment: Moment { acknowledged, begun } } = *file;
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
    moment: Moment,
}

/// How much is wrong: first what was synced, then the rest.
fn weight(faults: &[Violation]) -> (usize, usize) {
    let is_synced = |fault: &&Violation| {
        !matches!(fault.oracle, Oracle::ReplaceUnsynced | Oracle::ReplaceEmpty)
    };
    (faults.iter().filter(is_synced).count(), faults.len())
}

/// A name that is not there.
fn missing(path: &str, allowed: &[Binding]) -> Option<Violation> {
    if allowed.iter().any(|binding| binding.node.is_none()) {
        return None;
    }
    Some(match allowed.len() {
        1 => Violation::new(Oracle::SyncedName, format!("{path} was synced and is missing")),
        _ => Violation::new(Oracle::Replace, format!("{path}: neither the old nor the new file")),
    })
}
