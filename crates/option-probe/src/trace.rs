//! What can be seen of a mounted file system's options, and what two mounts differ in.
//!
//! The mount table shows some options only where they differ from the default, others always, and
//! some never (ext4's `journal_ioprio`). ext4 lists all its options, defaults included, in
//! `/proc/fs/ext4/DEVICE/options`. So an option that leaves no trace is not for that ignored.

use std::path::Path;

use flashfit_host::mountinfo::MountEntry;

use crate::finding::{EvidenceSource, OptionEvidence};

/// What is seen of one mount.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MountTrace {
    /// The mount table's options, of the mount point and of the file system.
    pub(super) table: Vec<String>,
    /// The file system's own list in `/proc/fs`; empty where it has none.
    pub(super) list: Vec<String>,
}

impl MountTrace {
    /// From the line of the mount table and the text of the file system's own list.
    pub(super) fn new(entry: &MountEntry, list: &str) -> Self {
        let table = entry.options.split(',').chain(entry.super_options.split(','));
        let mut table: Vec<String> = table.map(str::to_owned).collect();
        // `rw` is in both halves.
        table.dedup();
        Self { table, list: list.lines().map(|line| line.trim().to_owned()).collect() }
    }

    /// The text of a file system's own list of its options; empty where there is none.
    pub(super) fn list_of(kind: &str, device: &str) -> String {
        let path = Path::new("/proc/fs").join(kind).join(device).join("options");
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// What is here and not in `base`, or there and not here.
    pub(super) fn against(&self, base: &Self) -> Vec<OptionEvidence> {
        let mut found = Vec::new();
        for (place, mine, others) in [
            (EvidenceSource::MountTable, &self.table, &base.table),
            (EvidenceSource::OptionList, &self.list, &base.list),
        ] {
            let text = difference(mine, others);
            if !text.is_empty() {
                found.push(OptionEvidence::new(place, text));
            }
        }
        found
    }

    /// Where the file system's own list has all these words, and is the same in the mount `with`.
    pub(super) fn lists_all(&self, words: &[String], with: &Self) -> Option<Vec<OptionEvidence>> {
        if words.is_empty() || self.list != with.list {
            return None;
        }
        let listed = Self { table: Vec::new(), list: self.list.clone() };
        words.iter().map(|word| listed.shows(word)).collect()
    }

    /// Where a word of mount(8) is seen: itself, or the form in which it is shown.
    pub(super) fn shows(&self, word: &str) -> Option<OptionEvidence> {
        let forms = forms(word);
        let seen = |place, words: &[String]| {
            let shown = words.iter().find(|shown| forms.contains(shown))?;
            Some(OptionEvidence::new(place, format!("{shown}, with and without it")))
        };
        seen(EvidenceSource::MountTable, &self.table)
            .or_else(|| seen(EvidenceSource::OptionList, &self.list))
    }
}

/// Lines that are in one and not in the other: `with noatime, without relatime`.
fn difference(with: &[String], without: &[String]) -> String {
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        let new = these.iter().filter(|word| !word.is_empty() && !those.contains(word));
        new.cloned().collect()
    };
    let (more, less) = (only(with, without), only(without, with));
    match (more.is_empty(), less.is_empty()) {
        (true, true) => String::new(),
        (false, true) => more.join(", "),
        (true, false) => format!("no {}", less.join(", ")),
        (false, false) => format!("{} in place of {}", more.join(", "), less.join(", ")),
    }
}

/// `barrier=1` is shown as `barrier`, and `barrier=0` as `nobarrier`.
fn forms(word: &str) -> Vec<String> {
    let mut forms = vec![word.to_owned()];
    if let Some(key) = word.strip_suffix("=1") {
        forms.push(key.to_owned());
    }
    if let Some(key) = word.strip_suffix("=0") {
        forms.push(format!("no{key}"));
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(line: &str, list: &str) -> MountTrace {
        MountTrace::new(&flashfit_host::mountinfo::parse(line.as_bytes())[0], list)
    }

    /// As Linux 6.18 shows them.
    const EXT4: &str = "63 43 7:0 / /m rw,relatime - ext4 /dev/loop0 rw,noinit_itable";
    const EXT4_LIST: &str = "rw\nbsddf\nnodiscard\ndelalloc\nbarrier\ncommit=5\ndata=ordered\n";

    #[test]
    fn an_option_of_the_mount_point_and_one_of_the_file_system() {
        let base = trace(EXT4, EXT4_LIST);
        let line = EXT4.replace("relatime", "noatime");
        let found = trace(&line, EXT4_LIST).against(&base);
        assert_eq!(
            found,
            [OptionEvidence::new(EvidenceSource::MountTable, "noatime in place of relatime")]
        );
        let list = EXT4_LIST.replace("commit=5", "commit=30");
        let found = trace(&format!("{EXT4},commit=30"), &list).against(&base);
        assert_eq!(found[0], OptionEvidence::new(EvidenceSource::MountTable, "commit=30"));
        assert_eq!(
            found[1],
            OptionEvidence::new(EvidenceSource::OptionList, "commit=30 in place of commit=5")
        );
        assert!(trace(EXT4, EXT4_LIST).against(&base).is_empty());
    }

    #[test]
    fn an_option_that_takes_something_away() {
        let line = "64 43 0:39 / /m rw,relatime - btrfs /dev/loop0 rw,discard=async,subvol=/";
        let without = line.replace("discard=async,", "");
        let found = trace(&without, "").against(&trace(line, ""));
        assert_eq!(found, [OptionEvidence::new(EvidenceSource::MountTable, "no discard=async")]);
    }

    #[test]
    fn a_default_is_seen_in_either_place_and_in_another_form() {
        let base = trace(EXT4, EXT4_LIST);
        assert_eq!(base.shows("data=ordered").unwrap().place, EvidenceSource::OptionList);
        assert_eq!(base.shows("relatime").unwrap().place, EvidenceSource::MountTable);
        assert!(base.shows("barrier=1").is_some());
        assert!(base.shows("discard=0").is_some());
        assert!(base.shows("journal_ioprio=3").is_none());
        assert!(base.shows("orlov").is_none());
    }
}
