//! File systems of the catalog and their options.

use std::collections::BTreeSet;

use flashfit_catalog::{CatalogEntryError, Origin};
use flashfit_device::Bytes;
use serde::Deserialize;

use crate::conditions::{Conditions, OptionRequirement};
use crate::durability::Durability;
use crate::label::LabelRule;
use crate::promises::{Promise, Promises};
use crate::template::{QuantityError, Template, Variable};
use crate::version::{Versions, why_absent};

/// The name of the setup without options.
pub const BASE: &str = "base";

/// A flag of mkfs with the values that are joined behind it by commas.
pub type Flag = (String, Vec<Template>);

/// A key of sysctl(8) or an attribute of the device's queue, with its value.
pub type Setting = (String, Template);

/// How an option is set on a file system that exists and is not mounted, by its tuning program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExistingChange {
    pub apply: Vec<String>,
    /// The arguments that take it back.
    pub restore: Vec<String>,
    /// The feature that the file system no longer has.
    pub removes_feature: Option<String>,
}

/// An option of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsOption {
    /// The name in the CELF methodology, if it has one.
    pub name: String,
    /// What it does, in a few words.
    pub title: String,
    pub mkfs: Vec<Flag>,
    /// Flags for mkfs that are omitted if a quantity in their value is unknown.
    pub mkfs_if_known: Vec<Flag>,
    /// Arguments for the tuning program, which runs once for this option after mkfs.
    pub tune: Vec<Template>,
    /// How it is set on a file system that exists, where mkfs is not needed for it.
    pub existing: Option<ExistingChange>,
    pub mount: Vec<Template>,
    /// Keys of sysctl(8), such as `vm.dirty_bytes`: of the whole machine.
    pub sysctl: Vec<Setting>,
    /// Attributes of the device below `/sys/block/DISK/`, such as `queue/read_ahead_kb`.
    pub sysfs: Vec<Setting>,
    /// A timer of systemd that is enabled, such as `fstrim.timer`.
    pub timer: Option<String>,
    pub needs: Vec<OptionRequirement>,
    /// Options that it cannot be combined with.
    pub excludes: Vec<String>,
    /// Options that it enables too; without cycles.
    pub implies: Vec<String>,
    /// The first versions that have it.
    pub since: Versions,
    /// The first versions that no longer have it.
    pub until: Versions,
    /// Whether it is tried by default.
    pub tried: bool,
    /// The size of the device where power cuts are tested, if it needs more than its file system.
    pub crash_device_bytes: Option<Bytes>,
    /// The possible damage by a power cut.
    pub durability: Durability,
    /// Promises of the file system that it withdraws, in addition to those that its place on the
    /// scale withdraws.
    pub withdraws: BTreeSet<Promise>,
    /// What a power cut does, as a sentence; empty only where it is safe.
    pub risk: String,
    /// Further information, such as when it has no effect.
    pub note: Option<String>,
    /// Where this is known from.
    pub source: String,
    /// The file it comes from.
    pub origin: Origin,
}

impl FsOption {
    /// Why a trial cannot measure its effect; `None` if it can.
    pub fn untriable(&self) -> Option<String> {
        let timer = self.timer.as_ref()?;
        Some(format!("{timer} runs once a week, and a trial is shorter"))
    }

    /// The quantities of the geometry or of a plan that its arguments take, each once.
    pub fn quantities(&self) -> Vec<Variable> {
        let flags = self.mkfs.iter().chain(&self.mkfs_if_known).flat_map(|(_, values)| values);
        let settings = self.sysctl.iter().chain(&self.sysfs).map(|(_, value)| value);
        let mut found = Vec::new();
        for template in flags.chain(&self.tune).chain(&self.mount).chain(settings) {
            for variable in template.variables() {
                if variable != Variable::BlockBytes && !found.contains(&variable) {
                    found.push(variable);
                }
            }
        }
        found
    }

    /// Why it does not exist in the versions `here`; `None` if it does, or if a version is not
    /// known.
    pub fn why_absent(&self, here: &Versions) -> Option<String> {
        why_absent(&self.since, &self.until, here)
    }

    /// Whether the two cannot be combined: one of them says so, or both set the same attribute of
    /// the machine, which two files of options can do without knowing each other.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let settings = |option: &Self| {
            let both = option.sysctl.iter().chain(&option.sysfs);
            both.map(|(key, _)| key.clone()).collect::<BTreeSet<String>>()
        };
        self.excludes.contains(&other.name)
            || other.excludes.contains(&self.name)
            || (self.name != other.name && !settings(self).is_disjoint(&settings(other)))
    }

    pub(crate) fn filled(
        &self,
        block_bytes: u64,
        conditions: &Conditions,
    ) -> Result<FilledOption, QuantityError> {
        let fill = |template: &Template| template.fill(block_bytes, conditions);
        let settings = |settings: &[Setting]| {
            let fill = |(key, value): &Setting| Ok((key.clone(), fill(value)?));
            settings.iter().map(fill).collect::<Result<Vec<_>, _>>()
        };
        let mut mkfs = Vec::new();
        for (flag, values) in &self.mkfs_if_known {
            for value in values {
                match fill(value) {
                    Ok(value) => mkfs.push((flag.clone(), vec![value])),
                    Err(QuantityError::Missing(_)) => {}
                    Err(odd) => return Err(odd),
                }
            }
        }
        for (flag, values) in &self.mkfs {
            let values = values.iter().map(fill).collect::<Result<Vec<_>, _>>()?;
            mkfs.push((flag.clone(), values));
        }
        Ok(FilledOption {
            mkfs,
            tune: self.tune.iter().map(fill).collect::<Result<_, _>>()?,
            mount: self.mount.iter().map(fill).collect::<Result<_, _>>()?,
            sysctl: settings(&self.sysctl)?,
            sysfs: settings(&self.sysfs)?,
        })
    }
}

/// An option's arguments on one geometry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilledOption {
    pub(crate) mkfs: Vec<(String, Vec<String>)>,
    pub(crate) tune: Vec<String>,
    pub(crate) mount: Vec<String>,
    pub(crate) sysctl: Vec<(String, String)>,
    pub(crate) sysfs: Vec<(String, String)>,
}

/// A program of a file system with the arguments it is always given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    pub program: String,
    /// Arguments before the node.
    pub args: Vec<String>,
}

/// The program that makes the file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mkfs {
    /// The program and the arguments it is always given, without those of `flags`.
    pub tool: Tool,
    /// Arguments that make it tell its version.
    pub version_args: Vec<String>,
    /// Further arguments for a file system on a whole device, without a partition table.
    pub whole_device_args: Vec<String>,
    /// Flags that it is always given, joined with those of the options.
    pub flags: Vec<(String, Vec<String>)>,
    /// Flags whose values are joined by commas; any other flag can be set only once.
    pub joined: Vec<String>,
    /// Whether it packs a folder into an image: `PROGRAM FOLDER IMAGE FLAGS`.
    pub from_folder: bool,
    /// Flags with which it discards nothing; empty if it never does.
    pub no_discard: Vec<(String, Vec<String>)>,
}

/// How a read-only file system in an image file is made writable: by overlayfs, with the image and
/// the upper directory on a writable host file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layered {
    /// The name of the image's file on the host file system.
    pub image: String,
    /// File systems that can hold the image and the writable layer, the usual one first.
    pub hosts: Vec<String>,
}

/// Settings of trials in addition to the options of a setup; not shown to the user. Without them,
/// trials would measure the background work of the file system after mkfs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrialOptions {
    pub flags: Vec<(String, Vec<String>)>,
    pub mount: Vec<String>,
}

impl TrialOptions {
    /// The same, and the program that makes the file system discards nothing.
    #[must_use]
    pub fn without_discard(mut self, filesystem: &FileSystem) -> Self {
        self.flags.extend(filesystem.mkfs.no_discard.iter().cloned());
        self
    }
}

/// The program that checks the file system without changing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fsck {
    /// The program and its arguments.
    pub tool: Tool,
    /// The same program with arguments that repair; `None` if it cannot repair unattended.
    pub repair: Option<Tool>,
    /// The sixth field of its line in fstab(5): when it is checked at boot, 0 for never.
    pub pass: u8,
}

/// A file system's place among plans, where nothing was measured.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suggestion {
    /// The lowest is suggested first.
    pub rank: u32,
    /// What it is good for, as the end of a sentence.
    pub why: String,
}

/// A file system of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// Its name in the catalog and in setups.
    pub name: String,
    pub title: String,
    /// The name in mount(8) and `/proc/filesystems`.
    pub kind: String,
    /// The smallest device or partition that it fits on.
    pub min_device_size: Bytes,
    /// The unit of the quantities that count blocks.
    pub block_bytes: u64,
    /// The largest pages of a kernel that mounts it; `None` if they do not matter.
    pub most_page_bytes: Option<u64>,
    /// Whether it is tried by default.
    pub tried: bool,
    /// Why it can be planned and created, but not tried; `None` if it can be tried.
    pub plan_only: Option<String>,
    /// Its place among the plans of a device that was not measured.
    pub suggested: Option<Suggestion>,
    /// The possible damage by a power cut with any options.
    pub durability: Durability,
    /// What it does then, as a sentence; empty only where it is safe.
    pub risk: String,
    pub mkfs: Mkfs,
    /// What is different in trials.
    pub trial: TrialOptions,
    /// What is different where power cuts are tested: the work that goes on after mkfs is done
    /// first.
    pub crash: TrialOptions,
    /// Changes it after it is made, where there is such a program.
    pub tune: Option<Tool>,
    pub fsck: Fsck,
    /// What it promises for a power cut, with default options.
    pub promises: Promises,
    /// How it is made writable, where it is not by itself.
    pub layered: Option<Layered>,
    /// The labels that it takes; `None` if it has none.
    pub label: Option<LabelRule>,
    /// Its options in catalog order.
    pub options: Vec<FsOption>,
    /// The file it comes from.
    pub origin: Origin,
}

impl FileSystem {
    /// Why a kernel with pages of `page_bytes` does not mount it; `None` where it does.
    pub fn why_not_with_pages(&self, page_bytes: u64) -> Option<String> {
        let most = self.most_page_bytes.filter(|&most| page_bytes > most)?;
        Some(format!(
            "this kernel has pages of {}, and mounts {} only with blocks as large; here it is made \
             with blocks of {}, for pages of at most {}",
            Bytes(page_bytes),
            self.name,
            Bytes(self.block_bytes),
            Bytes(most)
        ))
    }

    /// The option of that name.
    ///
    /// # Errors
    /// [`CatalogEntryError::Unknown`] with the nearest name.
    pub fn option(&self, name: &str) -> Result<&FsOption, CatalogEntryError> {
        self.options.iter().find(|option| option.name == name).ok_or_else(|| {
            let known = self.options.iter().map(|option| option.name.as_str());
            CatalogEntryError::unknown(&format!("option of {}", self.name), name, known)
        })
    }

    /// The options that can be used under `conditions`, and the others with the reason why not;
    /// both in catalog order.
    pub fn usable_options(
        &self,
        conditions: &Conditions,
    ) -> (Vec<&FsOption>, Vec<(&FsOption, String)>) {
        let mut usable = Vec::new();
        let mut others = Vec::new();
        for option in &self.options {
            match self.why_not(option, conditions) {
                None => usable.push(option),
                Some(reason) => others.push((option, reason)),
            }
        }
        (usable, others)
    }

    /// Why an option cannot be used under `conditions`; `None` where it can.
    pub fn why_not(&self, option: &FsOption, conditions: &Conditions) -> Option<String> {
        let lacking = option.needs.iter().find(|need| !conditions.meets(**need));
        if let Some(need) = lacking {
            return Some(need.unmet().to_owned());
        }
        let filled = option.filled(self.block_bytes, conditions);
        if let Err(unfit) = filled {
            return Some(unfit.to_string());
        }
        option.implies.iter().find_map(|name| {
            let implied = self.option(name).expect("implied options are in the catalog");
            let reason = self.why_not(implied, conditions)?;
            Some(format!("it implies `{name}`, and {reason}"))
        })
    }

    /// These options with all options that they imply, in catalog order, each once.
    ///
    /// # Errors
    /// [`CatalogEntryError::Unknown`] for a name that is none of its options.
    pub fn closure<S: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = S>,
    ) -> Result<Vec<&FsOption>, CatalogEntryError> {
        let mut wanted: Vec<&FsOption> = Vec::new();
        let mut next: Vec<&FsOption> = Vec::new();
        for name in names {
            next.push(self.option(name.as_ref())?);
        }
        while let Some(option) = next.pop() {
            if !wanted.iter().any(|known| known.name == option.name) {
                wanted.push(option);
                for implied in &option.implies {
                    next.push(self.option(implied)?);
                }
            }
        }
        let is_wanted = |option: &&FsOption| wanted.iter().any(|known| known.name == option.name);
        Ok(self.options.iter().filter(is_wanted).collect())
    }

    /// Whether the text of `/proc/filesystems` lists it. A kernel that does not may still load it
    /// as a module when it is first mounted.
    pub fn is_listed_in(&self, proc_filesystems: &str) -> bool {
        crate::kernel_list::lists(proc_filesystems, &self.kind)
    }
}
