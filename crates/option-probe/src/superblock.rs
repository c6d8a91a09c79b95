//! What a file system's own program shows of its superblock, without what differs from one mkfs to
//! the next: identifiers, times and checksums.

use std::path::Path;

use flashfit_host::{Program, ProgramError, Runner};

/// The program that shows the superblock of a kind of file system.
fn shower(kind: &str, node: &Path) -> Option<Program> {
    let (name, args): (&str, &[&str]) = match kind {
        "ext2" | "ext3" | "ext4" => ("dumpe2fs", &["-h"]),
        "btrfs" => ("btrfs", &["inspect-internal", "dump-super", "-f"]),
        "xfs" => ("xfs_db", &["-r", "-c", "sb 0", "-c", "print"]),
        "f2fs" => ("dump.f2fs", &["-d", "1"]),
        "vfat" => ("fsck.fat", &["-n", "-v"]),
        "exfat" => ("dump.exfat", &[]),
        "squashfs" => ("unsquashfs", &["-s"]),
        "nilfs2" => ("nilfs-tune", &["-l"]),
        _ => return None,
    };
    Some(Program::new(name).args(args.iter().copied()).arg(node))
}

/// The lines of the superblock; none where there is no program for it, or it does not work.
///
/// # Errors
/// [`ProgramError::Interrupted`] only.
pub(super) fn lines(
    runner: &dyn Runner,
    kind: &str,
    node: &Path,
) -> Result<Vec<String>, ProgramError> {
    let Some(program) = shower(kind, node) else { return Ok(Vec::new()) };
    match runner.run(&program) {
        Ok(outcome) => Ok(steady(&outcome.stdout, node)),
        Err(error @ ProgramError::Interrupted { .. }) => Err(error),
        Err(_) => Ok(Vec::new()),
    }
}

/// Keys of lines that differ from one mkfs to the next.
const UNSTEADY: [&str; 12] = [
    "uuid",
    "fsid",
    "time",
    "created",
    "checked",
    "checksum",
    "csum",
    "crc",
    "seed",
    "serial",
    "ckpt version",
    "checkpoint_ver",
];

/// Keys of what follows from other choices: where things came to lie, and what is left.
const FOLLOWS: [&str; 15] = [
    "backup",
    "root",
    "bytes_used",
    "free",
    "fdblocks",
    "overhead",
    "logstart",
    "blkaddr",
    "versionnum",
    "leafsize",
    "sys_array_size",
    "item",
    "io_align",
    "filesystem size",
    "count_",
];

/// More than these are not shown.
const MOST_SHOWN: usize = 4;

fn steady(text: &str, node: &Path) -> Vec<String> {
    let node = node.display().to_string();
    let keep = |line: &str| {
        let line = line.strip_prefix("Info: ").unwrap_or(line);
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let key = split(&line).0.to_ascii_lowercase();
        // btrfs' `csum_type` is a choice, its `csum` is not.
        let is_choice = key.contains("type") || key.contains("size");
        let unsteady = UNSTEADY.iter().any(|word| key.contains(word)) && !is_choice;
        (!line.is_empty() && !unsteady && !line.contains(&node)).then_some(line)
    };
    text.lines().filter_map(keep).collect()
}

/// `RAID stride: 2`, `unit = 2`, `Block size 4096`, `segs_per_sec [0x 2 : 2]` as name and value.
fn split(line: &str) -> (&str, &str) {
    let number = |at: &usize| line[at + 1..].starts_with(|c: char| c.is_ascii_digit());
    let blanks = || line.match_indices(' ').map(|(at, _)| at);
    let at = line
        .find([':', '=', '['])
        .or_else(|| blanks().find(number))
        .or_else(|| blanks().next())
        .unwrap_or(line.len());
    let (key, value) = line.split_at(at);
    let value = match value.strip_prefix('[') {
        // f2fs-tools write numbers twice.
        Some(both) => both.trim_end_matches(']').rsplit(" : ").next().unwrap_or_default(),
        None => value.trim_start_matches([':', '=', ' ']),
    };
    (key.trim(), value.trim())
}

/// What two superblocks differ in, the choices before what follows from them; empty where nothing.
pub(super) fn difference(with: &[String], without: &[String]) -> String {
    let mut found: Vec<(bool, String)> = Vec::new();
    for line in with.iter().filter(|line| !without.contains(line)) {
        let (key, value) = split(line);
        let before = without.iter().map(|line| split(line)).find(|(known, _)| *known == key);
        let text = match before {
            Some((_, before)) => changed(key, value, before),
            None => format!("{key} {value}"),
        };
        found.push((follows(key), text));
    }
    for line in without {
        let key = split(line).0;
        if !with.iter().any(|line| split(line).0 == key) {
            found.push((follows(key), format!("no {key}")));
        }
    }
    // A stable sort: within each kind the order is that of the superblock.
    found.sort_by_key(|(follows, _)| *follows);
    let choices = found.iter().filter(|(follows, _)| !follows).count();
    if choices > 0 {
        found.truncate(choices);
    }
    let surplus = found.len().saturating_sub(MOST_SHOWN);
    let mut texts: Vec<String> = found.into_iter().map(|(_, text)| text).take(MOST_SHOWN).collect();
    if surplus > 0 {
        texts.push(format!("{surplus} more"));
    }
    texts.join(", ")
}

fn follows(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    FOLLOWS.iter().any(|word| key.contains(word))
}

/// A changed value; of a list of words only those that came or went.
fn changed(key: &str, value: &str, before: &str) -> String {
    let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
    let (now, then) = (words(value), words(before));
    if now.len().min(then.len()) < 4 {
        return format!("{key} {value} (without it {before})");
    }
    let more = now.iter().filter(|word| !then.contains(word)).map(|word| format!("+{word}"));
    let less = then.iter().filter(|word| !now.contains(word)).map(|word| format!("-{word}"));
    format!("{key} {}", more.chain(less).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_times_and_checksums_are_left_out() {
        let text = "Filesystem UUID:          8620f1d9-34c7-42da-a4d6-b01a76f7998c\n\
            Filesystem features:      has_journal ext_attr metadata_csum\n\
            Filesystem created:       Sat Nov 21 04:28:00 2026\n\
            Mount count:              0\nRAID stride:  2\n\
            Directory Hash Seed:      dda79c35-2475-4faa-8ee0-a9d6e95950ed\n\
            Checksum type:            crc32c\nChecksum:                 0x84a41a4d\n\n";
        assert_eq!(
            steady(text, Path::new("/dev/loop0")),
            [
                "Filesystem features: has_journal ext_attr metadata_csum",
                "Mount count: 0",
                "RAID stride: 2",
                "Checksum type: crc32c"
            ]
        );
    }

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_difference_names_the_choice_and_not_what_follows_from_it() {
        let base = lines(
            "Filesystem features: has_journal ext_attr 64bit extent\nFree blocks: 9\n\
             Journal inode: 8\nnodesize 16384",
        );
        let with = lines(
            "Filesystem features: ext_attr 64bit extent bigalloc\nFree blocks: 12\n\
             Cluster size: 65536\nnodesize 4096",
        );
        assert_eq!(
            difference(&with, &base),
            "Filesystem features +bigalloc -has_journal, Cluster size 65536, \
             nodesize 4096 (without it 16384), no Journal inode"
        );
        assert_eq!(difference(&base, &base), "");
        let only = difference(&lines("Free blocks: 1"), &lines("Free blocks: 2"));
        assert_eq!(only, "Free blocks 1 (without it 2)");
        let many: String = (0..9).map(|n| format!("key{n} = 1\n")).collect();
        assert!(difference(&lines(&many), &[]).ends_with("key3 1, 5 more"));
    }

    #[test]
    fn other_programs_write_otherwise() {
        let node = Path::new("/dev/loop0");
        let btrfs = "superblock: bytenr=65536, device=/dev/loop0\ncsum_type\t\t0 (crc32c)\n\
            csum_size\t\t4\ncsum\t\t\t0xc503e461 [match]\nfsid\t\t\td1f42c0d-535e\n\
            nodesize\t\t16384\n\t\t\tdev_uuid 3d8d9ff6\n";
        let kept = steady(btrfs, node);
        assert_eq!(kept, ["csum_type 0 (crc32c)", "csum_size 4", "nodesize 16384"]);
        assert_eq!(steady("uuid = 297b\ncrc = 0x3 (correct)\nunit = 2\n", node), ["unit = 2"]);
        let f2fs = |text| difference(&lines(text), &lines("segs_per_sec [0x 1 : 1]"));
        assert_eq!(f2fs("segs_per_sec [0x 2 : 2]"), "segs_per_sec 2 (without it 1)");
        let squashfs = |size| lines(&format!("Block size {size}"));
        let text = difference(&squashfs(4096), &squashfs(131_072));
        assert_eq!(text, "Block size 4096 (without it 131072)");
        assert_eq!(steady("magic   [0xf2f52010 : 4076150800]\n", node).len(), 1);
        let exfat = "Volume Serial: \t0xff331de0\nSector per Cluster bits: \t6\n";
        assert_eq!(steady(exfat, node), ["Sector per Cluster bits: 6"]);
    }
}
