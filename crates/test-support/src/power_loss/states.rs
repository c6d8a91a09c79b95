//! Chooses which changes since the last syncs reach the disk.

use std::collections::BTreeMap;

use flashfit_numbers::SplitMix64;

use super::disk::{Choice, CrashDisk, DiskNode, FileChoice};
use super::state::StateAfterCut;

/// How many states are generated for each prefix of the operations.
#[derive(Debug, Clone, Copy)]
pub struct CrashEffort {
    /// How many changes are tried alone and left out alone.
    pub singles: usize,
    /// Number of random choices.
    pub random: usize,
    /// Seed of the random choices.
    pub seed: u64,
}

/// A sequence of changes of which a prefix is chosen.
#[derive(Debug, Clone, Copy)]
enum Group {
    Dir(usize, usize),
    Length(usize, usize),
    Block(usize, u64, usize),
}

struct ChoiceRng(SplitMix64);

impl ChoiceRng {
    fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap_or(0)
    }
}

impl CrashDisk {
    /// Possible disk contents after a power cut: no unsynced change, all of them, all but one, only
    /// one, each prefix of a directory's changes and of a file's lengths, and random choices with
    /// torn blocks. States may be equal.
    pub fn states(&self, effort: CrashEffort) -> Vec<StateAfterCut> {
        let groups = self.groups();
        let (none, all) = (Choice::default(), self.everything());
        let mut choices = vec![none.clone(), all.clone()];
        let mut rng = ChoiceRng(SplitMix64::new(effort.seed));
        for group in sample(&groups, effort.singles, &mut rng) {
            let (mut without, mut only) = (all.clone(), none.clone());
            set(&mut without, group, 0, &mut None);
            set(&mut only, group, most(group), &mut None);
            choices.extend([without, only]);
        }
        let prefixes = groups.iter().filter(|group| !matches!(group, Group::Block(..)));
        let prefixes: Vec<(Group, usize)> =
            prefixes.flat_map(|group| (0..=most(*group)).map(|count| (*group, count))).collect();
        for (group, count) in sample(&prefixes, 2 * effort.singles, &mut rng) {
            let (mut upto, mut only) = (all.clone(), none.clone());
            set(&mut upto, group, count, &mut None);
            set(&mut only, group, count, &mut None);
            choices.extend([upto, only]);
        }
        for _ in 0..if groups.is_empty() { 0 } else { effort.random } {
            choices.push(random(&groups, &mut rng));
        }
        choices.iter().map(|choice| self.state(choice)).collect()
    }

    fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            match node {
                DiskNode::Dir(dir) if dir.changes.is_empty() => {}
                DiskNode::Dir(dir) => groups.push(Group::Dir(number, dir.changes.len())),
                DiskNode::File(file) => {
                    if !file.lengths.is_empty() {
                        groups.push(Group::Length(number, file.lengths.len()));
                    }
                    let blocks = file.versions.iter();
                    groups.extend(blocks.map(|(at, it)| Group::Block(number, *at, it.len())));
                }
            }
        }
        groups
    }

    pub(super) fn everything(&self) -> Choice {
        let mut choice = Choice::default();
        for group in self.groups() {
            set(&mut choice, group, most(group), &mut None);
        }
        choice
    }
}

fn most(group: Group) -> usize {
    match group {
        Group::Dir(_, most) | Group::Length(_, most) | Group::Block(_, _, most) => most,
    }
}

/// Chooses `count` changes and, at random, a part of one more.
fn set(choice: &mut Choice, group: Group, count: usize, rng: &mut Option<&mut ChoiceRng>) {
    let files: &mut BTreeMap<usize, FileChoice> = &mut choice.files;
    match group {
        Group::Dir(node, _) => {
            choice.dirs.insert(node, count);
        }
        Group::Length(node, _) => {
            let file = files.entry(node).or_default();
            file.lengths = count;
            let more = rng.as_mut().map_or(0, |it| if it.below(4) == 0 { it.next() } else { 0 });
            file.more_bytes = more;
        }
        Group::Block(node, block, _) => {
            let torn = rng
                .as_mut()
                .map_or(0, |it| if it.below(8) == 0 { it.next().to_le_bytes()[0] } else { 0 });
            files.entry(node).or_default().blocks.insert(block, (count, torn));
        }
    }
}

/// Chooses at random among three ways: almost all, almost none, or an even mix.
fn random(groups: &[Group], rng: &mut ChoiceRng) -> Choice {
    let mut choice = Choice::default();
    let percent = [3, 50, 50, 97][rng.below(4)];
    for group in groups {
        let count = match (rng.below(100) < percent, rng.below(2)) {
            (true, 0) => most(*group),
            (false, 0) => 0,
            _ => rng.below(most(*group) + 1),
        };
        set(&mut choice, *group, count, &mut Some(rng));
    }
    choice
}

/// At most `count` of the items.
fn sample<T: Copy>(items: &[T], count: usize, rng: &mut ChoiceRng) -> Vec<T> {
    let mut items = items.to_vec();
    while items.len() > count {
        items.swap_remove(rng.below(items.len()));
    }
    items
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::super::{DiskOp, StateEntry};
    use super::*;

    const EFFORT: CrashEffort = CrashEffort { singles: 10, random: 300, seed: 1 };

    fn open(path: &str) -> DiskOp {
        DiskOp::Open { path: path.into(), truncates: false }
    }

    fn write(path: &str, data: &[u8]) -> DiskOp {
        DiskOp::Write { path: path.into(), cache: 0, offset: Some(0), data: data.to_vec() }
    }

    fn sync(path: &str) -> DiskOp {
        DiskOp::Sync { path: path.into(), cache: 0 }
    }

    /// All possible contents of a file, `None` if it may be missing.
    fn texts(ops: &[DiskOp], file: &str) -> BTreeSet<Option<Vec<u8>>> {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let mut disk = CrashDisk::read(root, &[]).unwrap();
        let under = |path: &Path| root.join(path);
        for op in ops {
            let op = match op.clone() {
                DiskOp::Open { path, truncates } => DiskOp::Open { path: under(&path), truncates },
                DiskOp::Write { path, cache, offset, data } => {
                    DiskOp::Write { path: under(&path), cache, offset, data }
                }
                DiskOp::Sync { path, cache } => DiskOp::Sync { path: under(&path), cache },
                DiskOp::Rename(from, to) => DiskOp::Rename(under(&from), under(&to)),
                other => other,
            };
            disk.apply(&op).unwrap();
        }
        disk.states(EFFORT).iter().map(|state| state.file(file)).collect()
    }

    #[test]
    fn an_unsynced_file_may_be_missing_empty_short_or_zeros() {
        let found = texts(&[open("f"), write("f", b"abc")], "f");
        for text in [None, Some(&b""[..]), Some(b"a"), Some(b"abc"), Some(b"\0\0\0")] {
            assert!(found.contains(&text.map(<[u8]>::to_vec)), "{text:?} in {found:?}");
        }
    }

    #[test]
    fn a_synced_file_may_be_missing_until_its_directory_is_synced() {
        let ops = [open("f"), write("f", b"abc"), sync("f"), sync("")];
        assert_eq!(texts(&ops[..3], "f"), [None, Some(b"abc".to_vec())].into());
        assert_eq!(texts(&ops, "f"), [Some(b"abc".to_vec())].into());
    }

    #[test]
    fn renaming_an_unsynced_file_may_leave_a_part_of_it() {
        let old = [open("f"), write("f", b"old"), sync("f"), sync("")];
        let rename = DiskOp::Rename("n".into(), "f".into());
        let careless = [&old[..], &[open("n"), write("n", b"new"), rename.clone()]].concat();
        assert!(texts(&careless, "f").contains(&Some(b"\0\0\0".to_vec())));
        let careful = [&old[..], &[open("n"), write("n", b"new"), sync("n"), rename]].concat();
        assert_eq!(texts(&careful, "f"), [Some(b"old".to_vec()), Some(b"new".to_vec())].into());
    }

    #[test]
    fn a_state_differs_from_another_in_the_blocks_that_changed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), [1; 12288]).unwrap();
        let mut disk = CrashDisk::read(folder.path(), &[]).unwrap();
        let entry = |disk: &CrashDisk| disk.whole().entries[Path::new("f")].clone();
        let before = entry(&disk);
        let write = DiskOp::Write {
            path: folder.path().join("f"),
            cache: 0,
            offset: Some(5000),
            data: vec![2; 10],
        };
        disk.apply(&write).unwrap();
        for synced in [false, true] {
            let now = entry(&disk);
            let found = now.differences(&before);
            assert_eq!(found.len(), 1);
            assert_eq!(
                (found[0].0, &found[0].1[903..915]),
                (4096, &[1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1][..])
            );
            assert_eq!(now.hash(), StateEntry::of_bytes(&now.bytes().unwrap()).hash());
            assert!(!synced || entry(&disk).differences(&now).is_empty());
            disk.apply(&DiskOp::Sync { path: folder.path().join("f"), cache: 0 }).unwrap();
        }
    }

    #[test]
    fn zeros_are_equal_to_a_block_that_was_never_written() {
        let (hole, zeros) = (StateEntry::of_bytes(&[]), StateEntry::of_bytes(&[0; 8192]));
        assert!(zeros.differences(&hole).is_empty());
        assert_ne!(zeros.hash(), hole.hash(), "of other lengths");
    }

    #[test]
    fn blocks_are_independent_and_may_be_torn() {
        let ops = [open("f"), write("f", &[1; 8192]), sync("f"), sync(""), write("f", &[2; 8192])];
        let found = texts(&ops, "f");
        let firsts: BTreeSet<(u8, u8)> =
            found.iter().flatten().map(|text| (text[0], text[4096])).collect();
        assert_eq!(firsts, [(1, 1), (1, 2), (2, 1), (2, 2)].into());
        assert!(found.iter().flatten().any(|text| text[0] != text[512]), "no block is torn");
    }
}
