//! Whether the names found after a power cut are those of any one moment.

use std::collections::{BTreeMap, BTreeSet};

use super::found::{Found, joined};
use super::history::{History, Moment};
use super::judge::{Oracle, Violation};
use super::namespace::{NodeKind, ROOT, SyncScope};

impl History {
    /// The names must be those after one of the operations since the last sync of everything.
    pub(super) fn judge_order(&self, found: &Found<'_>, moment: Moment) -> Option<Violation> {
        let sync = self.last_sync(moment.acknowledged, |_, scope| scope == SyncScope::Everything);
        let is_later = |at: &usize| sync.is_none_or(|sync| *at > sync) && *at < moment.begun;
        let changes = self.bindings.values().flatten().map(|binding| binding.at);
        let later: BTreeSet<usize> = changes.filter(is_later).collect();
        let mut least: Option<(usize, Option<usize>, String)> = None;
        for at in std::iter::once(sync).chain(later.into_iter().map(Some)) {
            let (count, first) = self.differences(found, at)?;
            if least.as_ref().is_none_or(|(least, ..)| count < *least) {
                least = Some((count, at, first));
            }
        }
        let (count, at, first) = least?;
        let nearest = at.map_or("at the start".to_owned(), |at| format!("after operation {at}"));
        Some(Violation::new(
            Oracle::NameOrder,
            format!("the names are of no one moment; nearest {nearest}, but for {count}: {first}"),
        ))
    }

    /// How many names are not those after the operation `at`, and the first of them; `None` if all
    /// are.
    fn differences(&self, found: &Found<'_>, at: Option<usize>) -> Option<(usize, String)> {
        let names = self.names_at(at);
        let differs = |(path, node): &(&String, &u32)| {
            let entry = found.entries.get(path.as_str());
            !entry.is_some_and(|entry| self.may_mean(entry, **node))
        };
        let others = found.entries.keys().filter(|path| !names.contains_key(**path));
        let wrong = names.iter().filter(differs).map(|(path, _)| path.as_str());
        let wrong: BTreeSet<&str> = wrong.chain(others.copied()).collect();
        Some((wrong.len(), (*wrong.first()?).to_owned()))
    }

    /// All paths after the operation `at`, and what they mean.
    fn names_at(&self, at: Option<usize>) -> BTreeMap<String, u32> {
        let mut names = BTreeMap::new();
        let mut dirs = vec![(ROOT, String::new())];
        while let Some((dir, path)) = dirs.pop() {
            for (name, events) in self.bindings_in(dir) {
                let binding = at.and_then(|at| Self::binding(events, at));
                let Some(node) = binding.and_then(|binding| binding.node) else { continue };
                let inside = joined(&path, name);
                if self.nodes[node as usize].kind == NodeKind::Dir {
                    dirs.push((node, inside.clone()));
                }
                names.insert(inside, node);
            }
        }
        names
    }
}
