//! What is judged to be wrong, with inode numbers and without.

use std::collections::BTreeMap;

use super::*;
use crate::content::{SectorContent, SectorTag};
use crate::observe::{ObservedNode, ObservedTree};
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

fn judged(history: &History, position: u32, nodes: &[(&str, ObservedNode)]) -> Vec<Oracle> {
    let nodes = nodes.iter().map(|(path, node)| ((*path).to_owned(), node.clone())).collect();
    let violations = history.judge(position, &ObservedTree { nodes });
    violations.into_iter().map(|violation| violation.oracle).collect()
}

fn dir(inode: u64) -> ObservedNode {
    ObservedNode { kind: NodeKind::Dir, inode, size_bytes: 0, content: Vec::new(), error: None }
}

/// `d/f` (node 2) is synced; then `d/f` is replaced by node 3, and `g` (node 4) is made.
fn replaced() -> Vec<LoggedOperation> {
    vec![
        done(Operation::MakeDir { path: "d".to_owned() }, 0, Some(20)),
        done(create("d/f"), 1, Some(21)),
        done(write("d/f", 3), 2, None),
        done(Operation::SyncAll, 3, None),
        done(create("t"), 4, Some(22)),
        done(write("t", 2), 5, None),
        done(rename("t", "d/f"), 6, None),
        done(create("g"), 7, Some(23)),
        done(write("g", 1), 8, None),
    ]
}

/// vfat and exfat give inodes other numbers at every mount.
#[test]
fn without_inode_numbers_the_content_says_what_a_name_means() {
    let stable = History::new(&replaced());
    let history = stable.clone().with_renumbered_inodes(true);
    let all = |f: Vec<SectorContent>| {
        [("d", dir(90)), ("d/f", file(91, f)), ("g", file(92, data(4, 8, 1)))]
    };
    let new = data(3, 5, 2);
    assert_eq!(judged(&history, 90, &all(new.clone())), []);
    assert!(judged(&stable, 90, &all(new.clone())).contains(&Oracle::SyncedName));
    // Before the power was cut at 40, only the old file was there.
    let old = data(2, 2, 3);
    assert_eq!(judged(&history, 40, &all(old.clone())[..2]), []);
    assert_eq!(
        judged(&history, 40, &[("d", dir(90))]),
        [Oracle::SyncedName, Oracle::SyncedName, Oracle::NameOrder]
    );
    let cut_off = all(data(2, 2, 2));
    assert_eq!(judged(&history, 40, &cut_off[..2]), [Oracle::SyncedData]);
    let mixed = all([data(4, 8, 1), data(2, 2, 3)[1..].to_vec()].concat());
    assert_eq!(judged(&history, 40, &mixed[..2]), [Oracle::SyncedData]);
    let mut foreign = all(new.clone());
    foreign[2].1.content = data(2, 2, 1);
    assert_eq!(judged(&history, 90, &foreign), [Oracle::ForeignData]);
    // It was replaced without a sync.
    let zeros = all(vec![SectorContent::Zero; 2]);
    assert_eq!(judged(&history, 90, &zeros), [Oracle::ReplaceUnsynced]);
    let empty = all(Vec::new());
    assert_eq!(judged(&history, 90, &empty), [Oracle::ReplaceUnsynced, Oracle::ReplaceEmpty]);
    let neither = [("d", dir(90)), ("g", file(92, data(4, 8, 1)))];
    assert_eq!(judged(&history, 90, &neither), [Oracle::Replace, Oracle::NameOrder]);
    // `g` was made after the replacement.
    assert_eq!(judged(&history, 90, &all(old)), [Oracle::NameOrder]);
    // A file without data may be any.
    assert_eq!(judged(&history, 70, &all(new)[..2]), []);
    let kind = [("d", dir(90)), ("d/f", dir(91))];
    let wrong_kind = judged(&history, 40, &kind);
    assert!(wrong_kind.contains(&Oracle::SyncedName), "{wrong_kind:?}");
}

/// `f` (node 1) is synced and moved to `g`, and another `f` (node 2) is made.
#[test]
fn a_synced_file_is_present_only_where_its_content_is_the_best_explanation() {
    let operations = [
        done(create("f"), 0, Some(13)),
        done(write("f", 2), 1, None),
        done(Operation::Fsync { path: "f".to_owned() }, 2, None),
        done(rename("f", "g"), 3, None),
        done(create("f"), 4, Some(14)),
        done(write("f", 1), 5, None),
    ];
    let history = History::new(&operations).with_renumbered_inodes(true);
    let (first, second) = (file(70, data(1, 1, 2)), file(71, data(2, 5, 1)));
    let both = [("f", second.clone()), ("g", first.clone())];
    assert_eq!(judged(&history, 60, &both), []);
    assert_eq!(judged(&history, 60, &[("f", first.clone())]), []);
    assert_eq!(judged(&history, 60, &[("g", first)]), []);
    let lost = judged(&history, 60, &[("f", second)]);
    assert_eq!(lost, [Oracle::SyncedName, Oracle::NameOrder]);
}

/// `d` (node 1, with `d/a`) is removed and made again (node 3, with `d/b`).
#[test]
fn a_directory_made_again_may_be_the_old_or_the_new_one() {
    let path = || "d".to_owned();
    let operations = [
        done(Operation::MakeDir { path: path() }, 0, Some(20)),
        done(create("d/a"), 1, Some(21)),
        done(Operation::SyncAll, 2, None),
        done(Operation::Unlink { path: "d/a".to_owned() }, 3, None),
        done(Operation::RemoveDir { path: path() }, 4, None),
        done(Operation::MakeDir { path: path() }, 5, Some(20)),
        done(create("d/b"), 6, Some(22)),
    ];
    let stable = History::new(&operations);
    let renumbered = stable.clone().with_renumbered_inodes(true);
    for (history, inode) in [(&stable, 20), (&renumbered, 80)] {
        let (d, empty) = (dir(inode), |inode| file(inode, Vec::new()));
        assert_eq!(judged(history, 70, &[("d", d.clone()), ("d/a", empty(21))]), []);
        assert_eq!(judged(history, 70, &[("d", d.clone()), ("d/b", empty(22))]), []);
        assert_eq!(judged(history, 70, &[("d", d.clone())]), []);
        assert_eq!(judged(history, 70, &[]), []);
        assert_eq!(
            judged(history, 30, &[]),
            [Oracle::SyncedName, Oracle::SyncedName]
                .into_iter()
                .chain([Oracle::NameOrder])
                .collect::<Vec<_>>()
        );
        let mixed = [("d", d), ("d/a", empty(21)), ("d/b", empty(22))];
        assert_eq!(judged(history, 70, &mixed), [Oracle::NameOrder]);
    }
}

/// The names of no one moment are noticed by presence, kind and data.
#[test]
fn the_order_of_names_needs_no_inode_numbers() {
    let operations = [
        done(create("a"), 0, Some(13)),
        done(create("b"), 1, Some(14)),
        done(write("b", 1), 2, None),
        done(create("c"), 3, Some(15)),
        done(rename("b", "a"), 4, None),
    ];
    let history = History::new(&operations).with_renumbered_inodes(true);
    let (empty, of_b) = (file(70, Vec::new()), file(71, data(2, 2, 1)));
    let judged = |nodes: &[(&str, ObservedNode)]| judged(&history, 50, nodes);
    assert_eq!(judged(&[("a", empty.clone()), ("b", empty.clone())]), []);
    assert_eq!(judged(&[("b", empty.clone())]), [Oracle::NameOrder]);
    let renamed = [("a", of_b.clone()), ("c", empty.clone())];
    assert_eq!(judged(&renamed), []);
    // `a` is what `b` was, and the later `c` is not there.
    assert_eq!(judged(&renamed[..1]), [Oracle::NameOrder]);
    assert_eq!(judged(&[("a", of_b.clone()), ("b", of_b)]), [Oracle::NameOrder]);
    // Nothing was ever written to `c`: this data says nothing about names.
    let foreign = file(72, data(9, 9, 1));
    let (a, b) = (("a", empty.clone()), ("b", empty));
    let found = judged(&[a, b, ("c", foreign)]);
    assert!(!found.contains(&Oracle::NameOrder), "{found:?}");
}
