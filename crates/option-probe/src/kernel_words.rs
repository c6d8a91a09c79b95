//! Which lines of the kernel's log are about one mount, and what they say of an option.
//!
//! While options are tried, other file systems may be mounted and log as well. A line that names a
//! device counts only for that device. Some say no device, because the parameter is read before
//! there is one (`EXT4-fs: Ignoring removed orlov option`, `btrfs: Unknown parameter 'x'`): they
//! count where they name a word of the option, since they are true of the kernel whoever mounted.
//! Sources: fs/ext4/super.c, fs/btrfs/super.c, fs/xfs/xfs_super.c, fs/f2fs/super.c, fs/fs_parser.c.

/// How the kernel says that it took an option for nothing.
const NOTHING_DONE: [&str; 6] =
    ["ignor", "has no effect", "no longer", "obsolete", "not supported now", "were deprecated"];

/// What is logged of any mount that goes well.
const USUAL: [&str; 6] = [
    "mounted filesystem",
    "unmounting filesystem",
    "btrfs info",
    "scanned by",
    "capacity change",
    "mounting v",
];

/// The lines that are about the mount of `device` (`loop3`) with these words.
pub(super) fn about<'a>(lines: &'a [String], device: &str, words: &[String]) -> Vec<&'a str> {
    let counts = |line: &&str| match device_of(line) {
        Some(named) => named == device,
        None => has_word(line, device) || words.iter().any(|word| names(line, word)),
    };
    lines.iter().map(String::as_str).filter(counts).collect()
}

/// The line that says that `word` does nothing, where one does.
pub(super) fn says_nothing_done<'a>(lines: &[&'a str], word: &str) -> Option<&'a str> {
    lines.iter().copied().find(|line| {
        let lower = line.to_ascii_lowercase();
        names(line, word) && NOTHING_DONE.iter().any(|said| lower.contains(said))
    })
}

/// Any line that speaks of `word`, such as one that calls it deprecated.
pub(super) fn speaks_of<'a>(lines: &[&'a str], word: &str) -> Option<&'a str> {
    lines.iter().copied().find(|line| names(line, word))
}

/// What the kernel said when it refused, in at most two lines: those that name the option, or else
/// the last that are not said of every mount.
pub(super) fn refusal<'a>(lines: &[&'a str], words: &[String]) -> Vec<&'a str> {
    let telling: Vec<&str> = lines
        .iter()
        .copied()
        .filter(|line| {
            let lower = line.to_ascii_lowercase();
            !USUAL.iter().any(|usual| lower.contains(usual))
        })
        .collect();
    let named: Vec<&str> = telling
        .iter()
        .copied()
        .filter(|line| words.iter().any(|word| names(line, word)))
        .take(2)
        .collect();
    if named.is_empty() { telling.into_iter().rev().take(2).rev().collect() } else { named }
}

/// The line that says that `device` itself failed, which no option is to blame for.
pub(super) fn device_error<'a>(lines: &'a [String], device: &str) -> Option<&'a str> {
    let about = format!(" error, dev {device},");
    let failed = |line: &&str| {
        line.contains(&about) && !line.contains("not supported") && !line.contains("(DISCARD)")
    };
    lines.iter().map(String::as_str).find(failed)
}

/// `EXT4-fs (loop0): …`, `BTRFS info (device loop0): …`, `XFS (loop0): …` name a device.
fn device_of(line: &str) -> Option<&str> {
    let (head, _) = line.split_once(')')?;
    let (before, inside) = head.split_once('(')?;
    let is_head = !before.contains(':') && before.len() < 24;
    let device = inside.strip_prefix("device ").unwrap_or(inside);
    let device = device.split(' ').next().unwrap_or(device);
    (is_head && !device.is_empty()).then_some(device)
}

/// Whether a line names the parameter of a mount option: `compress` of `compress=zstd`.
fn names(line: &str, word: &str) -> bool {
    let key = word.split('=').next().unwrap_or(word);
    !key.is_empty() && has_word(line, key)
}

fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.18 logged them, with other mounts between.
    const RECORDED: &str = "\
EXT4-fs: Ignoring removed orlov option
EXT4-fs (loop1): mounted filesystem 8620f1d9-34c7-42da-a4d6-b01a76f7998c r/w with ordered data mode.
EXT4-fs (sda1): Ignoring orlov of another
ext4: Unknown parameter 'extents'
EXT4-fs (loop1): can't mount with journal_async_commit in data=ordered mode
xfs: Unknown parameter 'nobarrier'
XFS: ikeep mount option is deprecated.
BTRFS: device fsid a766613f devid 1 transid 7 /dev/loop0 (7:0) scanned by mount (10234)
BTRFS info (device loop0): first mount of filesystem a766613f-0983-4d39-90ed-a369b5597e6c
BTRFS error (device loop0): cannot disable free-space-tree
BTRFS error (device loop0): open_ctree failed: -22
FAT-fs (loop2): \"posix\" option is obsolete, not supported now
I/O error, dev loop2, sector 2048 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2";

    fn lines() -> Vec<String> {
        RECORDED.lines().map(str::to_owned).collect()
    }

    fn words(text: &str) -> Vec<String> {
        vec![text.to_owned()]
    }

    #[test]
    fn a_removed_option_is_told_from_another_devices_and_from_another_options() {
        let all = lines();
        let ours = about(&all, "loop1", &words("orlov"));
        assert_eq!(ours.len(), 3, "{ours:?}");
        let said = says_nothing_done(&ours, "orlov").unwrap();
        assert_eq!(said, "EXT4-fs: Ignoring removed orlov option");
        let other = about(&all, "loop1", &words("noatime"));
        assert!(says_nothing_done(&other, "noatime").is_none());
        assert!(about(&all, "loop9", &words("noatime")).is_empty());
        assert!(says_nothing_done(&ours, "orl").is_none(), "part of a word is another word");
    }

    #[test]
    fn what_is_obsolete_is_nothing_done_and_what_is_deprecated_may_still_work() {
        let all = lines();
        let ours = about(&all, "loop2", &words("posix"));
        assert!(says_nothing_done(&ours, "posix").is_some());
        let ours = about(&all, "loop9", &words("ikeep"));
        assert!(says_nothing_done(&ours, "ikeep").is_none());
        assert_eq!(speaks_of(&ours, "ikeep"), Some("XFS: ikeep mount option is deprecated."));
    }

    #[test]
    fn a_refusal_is_told_in_the_kernels_words() {
        let all = lines();
        let refused = |device: &str, word: &str| {
            let ours = about(&all, device, &words(word));
            refusal(&ours, &words(word)).join(" / ")
        };
        assert_eq!(refused("loop9", "extents"), "ext4: Unknown parameter 'extents'");
        assert_eq!(refused("loop9", "nobarrier"), "xfs: Unknown parameter 'nobarrier'");
        assert_eq!(
            refused("loop0", "nospace_cache"),
            "BTRFS error (device loop0): cannot disable free-space-tree / \
             BTRFS error (device loop0): open_ctree failed: -22"
        );
        assert!(refused("loop1", "journal_async_commit").contains("can't mount with"));
    }

    #[test]
    fn a_failing_device_is_no_options_fault() {
        let all = lines();
        assert!(device_error(&all, "loop2").is_some());
        assert!(device_error(&all, "loop1").is_none());
        assert!(device_error(&all, "loop").is_none());
    }
}
