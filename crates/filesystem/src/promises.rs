//! What a file system promises for a power cut.
//!
//! [`crate::Durability`] rates a setup; a promise is one property that a crash state has or lacks,
//! so it can be checked. Limit: the promises assume a device that keeps flushed writes.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::durability::Durability;
use crate::filesystem::{FileSystem, FsOption};

/// One property after a power cut.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// It mounts, is sound, and can be read and written.
    Consistent,
    /// Synced data and names are there.
    Synced,
    /// A file contains its own data, old its own data, or zeros.
    OwnData,
    /// A rename over a file leaves the old or the new file.
    AtomicRename,
    /// So does a rename over a file if the new file was not synced, and its content is complete.
    ReplaceWithoutFsync,
    /// In that case, at the least, the file has its old or its new length; its content may be
    /// zeros. Meant are new files on which fallocate was not called: ext4, which promises this,
    /// writes early only what has no blocks yet.
    ReplaceNotEmpty,
    /// All names are those of one moment.
    OrderedNames,
}

impl Promise {
    pub const ALL: [Self; 7] = [
        Self::Consistent,
        Self::Synced,
        Self::OwnData,
        Self::AtomicRename,
        Self::ReplaceWithoutFsync,
        Self::ReplaceNotEmpty,
        Self::OrderedNames,
    ];

    /// The name in the catalog and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Consistent => "consistent",
            Self::Synced => "synced",
            Self::OwnData => "own-data",
            Self::AtomicRename => "atomic-rename",
            Self::ReplaceWithoutFsync => "replace-without-fsync",
            Self::ReplaceNotEmpty => "replace-not-empty",
            Self::OrderedNames => "ordered-names",
        }
    }

    /// What it promises, in a few words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Consistent => "mounts and is sound",
            Self::Synced => "synced files are there",
            Self::OwnData => "no data of other files",
            Self::AtomicRename => "a renamed file is old or new",
            Self::ReplaceWithoutFsync => "also without a sync",
            Self::ReplaceNotEmpty => "and then at least not empty",
            Self::OrderedNames => "names are of one moment",
        }
    }
}

impl std::fmt::Display for Promise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// What a file system promises with its default options.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promises {
    pub keeps: BTreeSet<Promise>,
    /// Those of `keeps` that it breaks in the cases that the `risk` of the file system describes.
    #[serde(default)]
    pub exceptions: BTreeSet<Promise>,
    /// Whether it must be checked and repaired before it is mounted after a power cut.
    #[serde(default)]
    pub needs_fsck: bool,
    /// Whether every mount gives its inodes other numbers, which then do not identify files.
    #[serde(default)]
    pub renumbers_inodes: bool,
}

impl FsOption {
    /// The promises of its file system that it withdraws.
    pub fn withdrawn(&self) -> BTreeSet<Promise> {
        match self.durability {
            Durability::MayCorrupt => BTreeSet::from(Promise::ALL),
            Durability::BreaksPromise => {
                let mut withdrawn = self.withdraws.clone();
                withdrawn.extend([Promise::Synced, Promise::ReplaceWithoutFsync]);
                withdrawn
            }
            Durability::Safe | Durability::LosesRecent => self.withdraws.clone(),
        }
    }
}

impl FileSystem {
    /// The promises that options of this name withdraw; unknown names withdraw nothing.
    pub fn withdrawn_by<S: AsRef<str>>(&self, options: &[S]) -> BTreeSet<Promise> {
        let named = |option: &&FsOption| options.iter().any(|name| name.as_ref() == option.name);
        self.options.iter().filter(named).flat_map(FsOption::withdrawn).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_catalog() {
        for promise in Promise::ALL {
            assert_eq!(serde_json::to_string(&promise).unwrap(), format!("\"{promise}\""));
            assert!(promise.title().len() < 32);
        }
    }

    #[test]
    fn only_vfat_and_exfat_number_inodes_at_each_mount() {
        let catalog = crate::FileSystemCatalog::load(None).unwrap();
        let renumbers = catalog.filesystems().iter().filter(|it| it.promises.renumbers_inodes);
        let names: Vec<&str> = renumbers.map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["exfat", "fat32"]);
    }

    #[test]
    fn what_can_corrupt_withdraws_everything() {
        let catalog = crate::FileSystemCatalog::load(None).unwrap();
        let ext4 = catalog.filesystem("ext4").unwrap();
        assert_eq!(ext4.withdrawn_by(&["nobarrier"]).len(), Promise::ALL.len());
        assert!(ext4.withdrawn_by(&["noatime"]).is_empty());
        assert!(ext4.withdrawn_by(&["noauto_da_alloc"]).contains(&Promise::ReplaceWithoutFsync));
    }
}
