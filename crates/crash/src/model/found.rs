//! Which directories and files of the model the names found after a power cut may mean.
//!
//! Some file systems give inodes other numbers at every mount (vfat, exfat). A name may then mean
//! any node that it is allowed to mean, if the kind is the same.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Binding, History, Moment};
use super::judge::{Oracle, Violation};
use super::namespace::{NodeKind, ROOT, SyncScope};
use crate::content::SectorContent;
use crate::observe::{ObservedNode, ObservedTree};

/// What was found, by path.
pub(super) struct Found<'a> {
    pub(super) entries: BTreeMap<&'a str, FoundEntry<'a>>,
    /// What each directory may be.
    pub(super) dirs: BTreeMap<&'a str, Vec<u32>>,
}

pub(super) struct FoundEntry<'a> {
    pub(super) seen: &'a ObservedNode,
    /// What the name may mean.
    pub(super) allowed: Vec<Binding>,
}

impl Found<'_> {
    /// Whether another directory that may be one of `nodes` has this name.
    pub(super) fn is_elsewhere(&self, dir: &str, nodes: &[u32], name: &str) -> bool {
        let mut others = self
            .dirs
            .iter()
            .filter(|(other, at)| **other != dir && at.iter().any(|node| nodes.contains(node)));
        others.any(|(other, _)| self.entries.contains_key(joined(other, name).as_str()))
    }
}

impl FoundEntry<'_> {
    /// The one node that all recognized data is of, if it is one that the name may mean. Other data
    /// is foreign to the file, and does not say which file it is.
    fn owner(&self) -> Option<u32> {
        let mut tags = self.seen.content.iter().filter_map(|content| match content {
            SectorContent::Data(tag) => Some(tag.file),
            SectorContent::Zero | SectorContent::Unwritten | SectorContent::Unknown => None,
        });
        let owner = tags.next()?;
        let is_allowed = self.allowed.iter().any(|binding| binding.node == Some(owner));
        (is_allowed && tags.all(|other| other == owner)).then_some(owner)
    }
}

impl History {
    pub(super) fn found<'a>(
        &self,
        tree: &'a ObservedTree,
        moment: Moment,
        violations: &mut Vec<Violation>,
    ) -> Found<'a> {
        let mut found =
            Found { entries: BTreeMap::new(), dirs: BTreeMap::from([("", vec![ROOT])]) };
        for (path, seen) in &tree.nodes {
            let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
            let Some(nodes) = found.dirs.get(dir) else { continue };
            if !self.names_in(nodes).contains(name) {
                let detail = format!("{path} is there, and nobody created it");
                violations.push(Violation::new(Oracle::SyncedName, detail));
                continue;
            }
            let allowed = self.allowed(nodes, name, moment);
            if seen.kind == NodeKind::Dir {
                let nodes = allowed.iter().filter_map(|binding| binding.node);
                let nodes: BTreeSet<u32> = nodes.filter(|node| self.may_be(*node, seen)).collect();
                if !nodes.is_empty() {
                    found.dirs.insert(path, nodes.into_iter().collect());
                }
            }
            found.entries.insert(path, FoundEntry { seen, allowed });
        }
        found
    }

    /// Whether what was seen can be this node, whatever its content is.
    pub(super) fn may_be(&self, node: u32, seen: &ObservedNode) -> bool {
        let history = &self.nodes[node as usize];
        history.kind == seen.kind && (self.renumbers_inodes || history.inode == seen.inode)
    }

    /// Whether a name can have meant this node at the moment of which the names are. Without inode
    /// numbers, data decides; a file without data may be any.
    pub(super) fn may_mean(&self, entry: &FoundEntry<'_>, node: u32) -> bool {
        self.may_be(node, entry.seen)
            && (!self.renumbers_inodes || entry.owner().is_none_or(|owner| owner == node))
    }

    /// The names that any of these directories ever had.
    pub(super) fn names_in(&self, dirs: &[u32]) -> BTreeSet<&str> {
        dirs.iter().flat_map(|dir| self.bindings_in(*dir)).map(|(name, _)| name).collect()
    }

    /// What a name may mean in a directory that is one of `dirs`: what it meant at its last sync,
    /// and everything since.
    pub(super) fn allowed(&self, dirs: &[u32], name: &str, moment: Moment) -> Vec<Binding> {
        let of = |dir: &u32| {
            let key = (*dir, name.to_owned());
            let events = self.bindings.get(&key).map_or(&[][..], Vec::as_slice);
            self.allowed_in(*dir, events, moment)
        };
        dirs.iter().flat_map(of).collect()
    }

    fn allowed_in(&self, dir: u32, events: &[Binding], moment: Moment) -> Vec<Binding> {
        let sync = self.last_sync(moment.acknowledged, |at, scope| match scope {
            SyncScope::Everything => true,
            SyncScope::Dir(other) => other == dir,
            SyncScope::File(node) => {
                Self::binding(events, at).is_some_and(|binding| binding.node == Some(node))
            }
            SyncScope::Data(_) | SyncScope::Range(_) => false,
        });
        let nothing = Binding { at: 0, node: None, replaces: false };
        let base = sync.and_then(|sync| Self::binding(events, sync)).unwrap_or(nothing);
        let is_later = |binding: &&Binding| {
            sync.is_none_or(|sync| binding.at > sync) && binding.at < moment.begun
        };
        std::iter::once(base).chain(events.iter().filter(is_later).copied()).collect()
    }
}

/// The path of a name in a directory.
pub(super) fn joined(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}
