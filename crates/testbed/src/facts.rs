//! What a test bed is: the machine, the programs, the device and its geometry. Kept with every run.

use std::collections::BTreeMap;

use flashfit_card::CardModel;
use flashfit_device::Device;
use flashfit_filesystem::plan::PlannedPlacement;
use flashfit_filesystem::{Conditions, LayoutPlan, PartitionLayout, Scheduler};
use flashfit_geometry::Geometry;
use flashfit_host::known_keys::known_keys;
use serde::{Deserialize, Serialize};

/// A simulated card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardFacts {
    /// Its name in the catalog.
    pub name: String,
    /// What it is like.
    pub title: String,
    /// In which respects this kernel does not show its device as the model has it.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The endurance of its erase blocks, in erases.
    pub endurance_cycles: u64,
    /// Everything that it is; runs of earlier versions do not have it.
    #[serde(default, deserialize_with = "known_keys")]
    pub model: Option<CardModel>,
}

/// How the memory of a workload is bounded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryFacts {
    /// By a control group.
    Limited,
    /// Not at all, for this reason: page-cache workloads may then measure memory.
    Unlimited(String),
}

/// On what and where trials are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestBedFacts {
    /// The kind of stand.
    pub stand: String,
    /// The kernel's release.
    pub kernel: String,
    /// The machine's architecture.
    pub machine: String,
    /// How many processors.
    pub processors: u32,
    /// Programs and what they say of their version.
    pub programs: BTreeMap<String, String>,
    /// The device as it was before the run.
    pub medium: Device,
    /// The simulated card that it is, where it is one.
    pub card: Option<CardFacts>,
    /// What is known of how it is built.
    pub geometry: Geometry,
    /// Where on it the file systems are made.
    pub layout: LayoutPlan,
    /// What it and its queue offer.
    pub conditions: Conditions,
    /// Numbers of a plan by file system, for where they are made; those of `conditions` are none.
    #[serde(default)]
    pub planned: BTreeMap<String, BTreeMap<String, u64>>,
    /// Schedulers of the queue.
    pub schedulers: Vec<Scheduler>,
    /// The scheduler that the kernel chose.
    pub default_scheduler: Scheduler,
    /// How memory is bounded.
    pub memory: MemoryFacts,
}

impl TestBedFacts {
    /// What the place of the file systems offers the one of that name. Runs of earlier versions
    /// have no numbers of a plan: theirs follow from the geometry alone, as they were tried.
    pub fn conditions_for(&self, filesystem: &str) -> Conditions {
        let planned = self.planned.get(filesystem).cloned();
        Conditions { planned: planned.unwrap_or_default(), ..self.conditions.clone() }
    }

    /// Where the file systems are made.
    pub fn place(&self) -> PlannedPlacement {
        match self.layout.layout {
            PartitionLayout::Partition { start_bytes, size_bytes } => {
                PlannedPlacement { start_bytes, size_bytes }
            }
            PartitionLayout::WholeMedium => PlannedPlacement {
                start_bytes: self.medium.partition_start.map_or(0, |start| start.0),
                size_bytes: self.medium.capacity.0,
            },
        }
    }
}
