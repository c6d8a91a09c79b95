//! What can be tried: for each file system its free options, those always on, and the schedulers.

use std::collections::BTreeSet;

use flashfit_catalog::CatalogEntryError;
use flashfit_filesystem::{
    Conditions, Durability, FileSystem, FileSystemCatalog, Scheduler, Setup,
};

use crate::spec::{ChoiceNames, RunHeader};

#[derive(Debug, Clone)]
pub struct FileSystemChoices {
    pub filesystem: FileSystem,
    /// Options that every setup has.
    pub always: Vec<String>,
    /// Options that may be on or off.
    pub free: Vec<String>,
    /// Schedulers that are tried.
    pub schedulers: Vec<Scheduler>,
    /// What the device offers.
    pub conditions: Conditions,
}

/// The whole search space.
#[derive(Debug, Clone)]
pub struct Space {
    /// One entry a file system.
    pub choices: Vec<FileSystemChoices>,
    /// The least safe setup that may be adopted and recommended.
    pub allow: Durability,
    /// The scheduler that the kernel chose for this device.
    pub default_scheduler: Scheduler,
}

impl FileSystemChoices {
    /// The setup with these options in addition to those always on; `None` where they exclude
    /// another.
    pub fn setup(&self, options: &[String], scheduler: &Scheduler) -> Option<Setup> {
        let mut all = self.always.clone();
        all.extend(options.iter().filter(|option| !self.always.contains(option)).cloned());
        Setup::new(&self.filesystem, &all, scheduler.clone(), &self.conditions).ok()
    }

    /// All schedulers with these options.
    pub fn over_schedulers(&self, options: &[String]) -> Vec<Setup> {
        self.schedulers.iter().filter_map(|scheduler| self.setup(options, scheduler)).collect()
    }

    /// The names of all its options as `FILESYSTEM/OPTION`, in catalog order.
    pub fn option_names(&self) -> Vec<String> {
        let options = self.filesystem.options.iter();
        options.map(|option| format!("{}/{}", self.filesystem.name, option.name)).collect()
    }

    /// Every subset of the free options that excludes nothing, under every scheduler; `None` where
    /// there are more than `most` of them.
    pub fn all_setups_up_to(&self, most: usize) -> Option<Vec<Setup>> {
        let mut subsets: Vec<Vec<String>> = vec![Vec::new()];
        for option in &self.free {
            if subsets.len().saturating_mul(self.schedulers.len()) > most {
                return None;
            }
            let with: Vec<Vec<String>> = subsets
                .iter()
                .map(|subset| subset.iter().cloned().chain([option.clone()]).collect())
                .filter(|subset: &Vec<String>| !self.over_schedulers(subset).is_empty())
                .collect();
            subsets.extend(with);
        }
        // Options that imply others make the same setup as those named together.
        let mut setups: Vec<Setup> = Vec::new();
        let mut seen = BTreeSet::new();
        for setup in subsets.iter().flat_map(|subset| self.over_schedulers(subset)) {
            if seen.insert(setup.clone()) {
                setups.push(setup);
            }
        }
        Some(setups)
    }
}

impl Space {
    /// The space of a run that was begun before.
    ///
    /// # Errors
    /// When the catalog no longer has one of its file systems.
    pub fn of_run(
        header: &RunHeader,
        catalog: &FileSystemCatalog,
    ) -> Result<Self, CatalogEntryError> {
        let choices = header.choices.iter().map(|names| {
            Ok(FileSystemChoices {
                filesystem: catalog.filesystem(&names.filesystem)?.clone(),
                always: names.always.clone(),
                free: names.free.clone(),
                schedulers: names.schedulers.clone(),
                conditions: header.facts.conditions_for(&names.filesystem),
            })
        });
        Ok(Self {
            choices: choices.collect::<Result<_, CatalogEntryError>>()?,
            allow: header.spec.allow,
            default_scheduler: header.facts.default_scheduler.clone(),
        })
    }

    /// What is tried, by name, as it is kept with a run.
    pub fn names(&self) -> Vec<ChoiceNames> {
        let names = |choices: &FileSystemChoices| ChoiceNames {
            filesystem: choices.filesystem.name.clone(),
            always: choices.always.clone(),
            free: choices.free.clone(),
            schedulers: choices.schedulers.clone(),
        };
        self.choices.iter().map(names).collect()
    }

    /// The baseline of a file system: no options, the kernel's own scheduler.
    pub fn defaults_of(&self, filesystem: &str) -> Option<Setup> {
        let choices = self.of(filesystem)?;
        Setup::new(
            &choices.filesystem,
            [] as [&str; 0],
            self.default_scheduler.clone(),
            &choices.conditions,
        )
        .ok()
    }

    /// What a winner is compared with: the baseline of the file system that was named first.
    pub fn baseline(&self) -> Option<Setup> {
        self.defaults_of(&self.choices.first()?.filesystem.name)
    }

    /// The setups of confirming trials besides `winner`: the baseline, and the
    /// winner's own file system with its defaults.
    pub fn rivals(&self, winner: &Setup) -> Vec<Setup> {
        let mut rivals: Vec<Setup> =
            [self.baseline(), self.defaults_of(&winner.filesystem)].into_iter().flatten().collect();
        rivals.dedup();
        rivals.retain(|rival| rival != winner);
        rivals
    }

    pub fn of(&self, filesystem: &str) -> Option<&FileSystemChoices> {
        self.choices.iter().find(|choices| choices.filesystem.name == filesystem)
    }

    /// Whether a setup is safe enough to be adopted and recommended.
    pub fn allows(&self, setup: &Setup) -> bool {
        let choices = self.of(&setup.filesystem);
        choices
            .and_then(|choices| setup.durability(&choices.filesystem).ok())
            .is_some_and(|verdict| verdict.durability <= self.allow)
    }
}
