//! From what was seen with and without an option to a verdict.

use crate::finding::{EvidenceSource, OptionEvidence, OptionVerdict};
use crate::guard::is_kept_by_mount;
use crate::kernel_words::{says_nothing_done, speaks_of};
use crate::superblock;
use crate::trace::MountTrace;

/// What was seen of a file system that was made, and mounted where it can be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ObservedFileSystem {
    /// What its superblock shows.
    pub(super) superblock: Vec<String>,
    /// What its mount shows; `None` where it was not mounted.
    pub(super) mount: Option<ObservedMount>,
}

/// What was seen of a mount.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ObservedMount {
    pub(super) trace: MountTrace,
    /// The kernel's messages about it.
    pub(super) log: Vec<String>,
    /// Whether the kernel's log could be read.
    pub(super) log_readable: bool,
}

/// What an option consists of, as far as the verdict depends on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OptionParts {
    /// Whether it changes the arguments of mkfs or of the tuning program.
    pub(super) making: bool,
    /// What it gives mount(8), a parameter each.
    pub(super) words: Vec<String>,
}

/// The verdict on an option that nobody refused.
pub(super) fn judge(
    parts: &OptionParts,
    base: &ObservedFileSystem,
    with: &ObservedFileSystem,
) -> (OptionVerdict, Vec<OptionEvidence>) {
    if !parts.making && parts.words.is_empty() {
        let text = "mkfs and mount are told the same with and without it";
        return (OptionVerdict::Default, vec![OptionEvidence::new(EvidenceSource::Commands, text)]);
    }
    let mut seen = Vec::new();
    if parts.making {
        let text = superblock::difference(&with.superblock, &base.superblock);
        if !text.is_empty() {
            seen.push(OptionEvidence::new(EvidenceSource::Superblock, text));
        }
    }
    let (Some(before), Some(mount)) = (&base.mount, &with.mount) else {
        return of_making(parts, base, seen);
    };
    let log: Vec<&str> = mount.log.iter().map(String::as_str).collect();
    let nothing_done = lines_of(&parts.words, |word| says_nothing_done(&log, word));
    // The mount table repeats what was given, whether or not it is the default.
    let listed = before.trace.lists_all(&parts.words, &mount.trace);
    let listed = listed.filter(|_| seen.is_empty() && made_alike(parts, base));
    if listed.is_none() {
        seen.extend(mount.trace.against(&before.trace));
    }
    if !seen.is_empty() {
        // Part of it may still be ignored, which the reader is to see.
        seen.extend(nothing_done);
        return (OptionVerdict::Effective, seen);
    }
    if !nothing_done.is_empty() {
        return (OptionVerdict::Ignored, nothing_done);
    }
    if let Some(listed) = listed {
        return (OptionVerdict::Default, listed);
    }
    without_a_trace(parts, base, before, mount)
}

/// Of an option that was not mounted, only what it gives mkfs can be judged.
fn of_making(
    parts: &OptionParts,
    base: &ObservedFileSystem,
    seen: Vec<OptionEvidence>,
) -> (OptionVerdict, Vec<OptionEvidence>) {
    if !parts.making {
        (OptionVerdict::NotMeasured, Vec::new())
    } else if !seen.is_empty() {
        (OptionVerdict::Effective, seen)
    } else if base.superblock.is_empty() {
        (OptionVerdict::Accepted, vec![no_superblock()])
    } else if parts.words.is_empty() {
        (OptionVerdict::Default, vec![same_superblock()])
    } else {
        (OptionVerdict::NotMeasured, vec![same_superblock()])
    }
}

fn without_a_trace(
    parts: &OptionParts,
    base: &ObservedFileSystem,
    before: &ObservedMount,
    mount: &ObservedMount,
) -> (OptionVerdict, Vec<OptionEvidence>) {
    let log: Vec<&str> = mount.log.iter().map(String::as_str).collect();
    let mut shown: Vec<OptionEvidence> =
        parts.words.iter().filter_map(|word| before.trace.shows(word)).collect();
    let made_alike = made_alike(parts, base);
    if !parts.making && parts.words.iter().all(|word| is_kept_by_mount(word)) {
        let text = "mount(8) keeps it to itself, and the file system is not told";
        return (OptionVerdict::Ignored, vec![OptionEvidence::new(EvidenceSource::Mount, text)]);
    }
    if shown.len() == parts.words.len() && made_alike {
        shown.extend(parts.making.then(same_superblock));
        return (OptionVerdict::Default, shown);
    }
    let mut evidence = lines_of(&parts.words, |word| speaks_of(&log, word));
    if !made_alike {
        evidence.push(no_superblock());
    }
    if !parts.words.is_empty() && !mount.log_readable {
        let text = "the kernel's log cannot be read, so it may be ignored";
        evidence.push(OptionEvidence::new(EvidenceSource::Flashfit, text));
    }
    if evidence.is_empty() {
        evidence.push(OptionEvidence::new(
            EvidenceSource::MountTable,
            "nothing in it shows the option",
        ));
    }
    (OptionVerdict::Accepted, evidence)
}

/// Whether a superblock that is the same says that nothing was made otherwise.
fn made_alike(parts: &OptionParts, base: &ObservedFileSystem) -> bool {
    !parts.making || !base.superblock.is_empty()
}

fn same_superblock() -> OptionEvidence {
    OptionEvidence::new(EvidenceSource::Superblock, "the same with and without it")
}

fn no_superblock() -> OptionEvidence {
    OptionEvidence::new(EvidenceSource::Flashfit, "no program here shows the superblock")
}

fn lines_of<'a>(words: &[String], find: impl Fn(&str) -> Option<&'a str>) -> Vec<OptionEvidence> {
    let mut found: Vec<OptionEvidence> = Vec::new();
    for line in words.iter().filter_map(|word| find(word)) {
        let evidence = OptionEvidence::new(EvidenceSource::KernelLog, line);
        if !found.contains(&evidence) {
            found.push(evidence);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use flashfit_host::mountinfo;

    use super::*;

    fn mount(super_options: &str, log: &[&str]) -> ObservedMount {
        let line = format!("63 43 7:0 / /m rw,relatime - ext4 /dev/loop0 rw{super_options}");
        ObservedMount {
            trace: MountTrace::new(
                &mountinfo::parse(line.as_bytes())[0],
                "commit=5\ndata=ordered\n",
            ),
            log: log.iter().map(|line| (*line).to_owned()).collect(),
            log_readable: true,
        }
    }

    fn seen(superblock: &[&str], mount: Option<ObservedMount>) -> ObservedFileSystem {
        ObservedFileSystem {
            superblock: superblock.iter().map(|line| (*line).to_owned()).collect(),
            mount,
        }
    }

    fn of_mount(words: &str) -> OptionParts {
        OptionParts { making: false, words: words.split(',').map(str::to_owned).collect() }
    }

    fn verdict_on(words: &str, mounted: ObservedMount) -> (OptionVerdict, Vec<OptionEvidence>) {
        judge(&of_mount(words), &seen(&[], Some(mount("", &[]))), &seen(&[], Some(mounted)))
    }

    const REMOVED: &str = "EXT4-fs: Ignoring removed orlov option";

    #[test]
    fn the_mount_table_alone_does_not_call_an_option_ignored() {
        assert_eq!(verdict_on("commit=30", mount(",commit=30", &[])).0, OptionVerdict::Effective);
        assert_eq!(verdict_on("orlov", mount("", &[REMOVED])).0, OptionVerdict::Ignored);
        assert_eq!(verdict_on("journal_ioprio=3", mount("", &[])).0, OptionVerdict::Accepted);
        assert_eq!(verdict_on("data=ordered", mount("", &[])).0, OptionVerdict::Default);
    }

    #[test]
    fn a_default_that_the_mount_table_repeats_is_still_the_default() {
        let (verdict, evidence) = verdict_on("data=ordered", mount(",data=ordered", &[]));
        assert_eq!(verdict, OptionVerdict::Default);
        assert_eq!(evidence[0].place, EvidenceSource::OptionList);
    }

    #[test]
    fn what_the_kernel_ignores_is_ignored_even_where_it_is_so_anyway() {
        let line = "EXT4-fs: Ignoring removed data option";
        assert_eq!(verdict_on("data=ordered", mount("", &[line])).0, OptionVerdict::Ignored);
    }

    #[test]
    fn what_is_ignored_of_an_option_that_does_more_is_told() {
        let (verdict, evidence) = verdict_on("orlov,commit=30", mount(",commit=30", &[REMOVED]));
        assert_eq!(verdict, OptionVerdict::Effective);
        assert_eq!(evidence.last().unwrap().text, REMOVED);
        let half_default = verdict_on("data=ordered,journal_ioprio=3", mount("", &[]));
        assert_eq!(half_default.0, OptionVerdict::Accepted);
    }

    #[test]
    fn what_mount_keeps_to_itself_is_ignored() {
        assert_eq!(verdict_on("nofail,comment=x", mount("", &[])).0, OptionVerdict::Ignored);
        assert_eq!(
            verdict_on("nofail,journal_ioprio=3", mount("", &[])).0,
            OptionVerdict::Accepted
        );
    }

    #[test]
    fn a_deprecated_option_is_accepted_with_the_kernels_words() {
        let line = "XFS: ikeep mount option is deprecated.";
        let (verdict, evidence) = verdict_on("ikeep", mount("", &[line]));
        assert_eq!(verdict, OptionVerdict::Accepted);
        assert_eq!(evidence, [OptionEvidence::new(EvidenceSource::KernelLog, line)]);
    }

    #[test]
    fn without_the_kernels_log_it_is_said_that_an_option_may_be_ignored() {
        let blind = ObservedMount { log_readable: false, ..mount("", &[]) };
        let (verdict, evidence) = verdict_on("orlov", blind);
        assert_eq!(verdict, OptionVerdict::Accepted);
        assert!(evidence[0].text.contains("may be ignored"));
    }

    #[test]
    fn what_mkfs_is_told_shows_in_the_superblock_or_is_the_default() {
        let making = OptionParts { making: true, words: Vec::new() };
        let base = seen(&["nodesize 16384"], None);
        let same = judge(&making, &base, &base);
        assert_eq!(same.0, OptionVerdict::Default);
        let (verdict, evidence) = judge(&making, &base, &seen(&["nodesize 4096"], None));
        assert_eq!(verdict, OptionVerdict::Effective);
        assert_eq!(evidence[0].text, "nodesize 4096 (without it 16384)");
        let blind = seen(&[], Some(mount("", &[])));
        assert_eq!(judge(&making, &blind, &blind).0, OptionVerdict::Accepted);
        let nothing = judge(&OptionParts::default(), &base, &base);
        assert_eq!(nothing.0, OptionVerdict::Default);
        assert_eq!(nothing.1[0].place, EvidenceSource::Commands);
    }

    #[test]
    fn an_option_of_mount_is_not_judged_without_a_mount() {
        let base = seen(&["x 1"], None);
        assert_eq!(judge(&of_mount("noatime"), &base, &base).0, OptionVerdict::NotMeasured);
    }
}
